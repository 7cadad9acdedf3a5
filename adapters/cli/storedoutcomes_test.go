package cli_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
)

// The traces of a store can be fitted to, as those of a file.
func TestOutcomesInAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []store.Entry
	for i := range 60 {
		trace := &sdk.Trace{ID: fmt.Sprint(i), Start: time.Now(), Group: "g", Stop: sdk.StopNotWorth, Chosen: "large"}
		for _, model := range []string{"small", "large"} {
			verdict := &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}
			if model == "small" && i%3 == 0 {
				verdict.Outcome = sdk.Failed
			}
			usd := map[string]float64{"small": 0.001, "large": 0.01}[model]
			trace.Decisions = append(trace.Decisions, sdk.Decision{Run: model})
			trace.Calls = append(trace.Calls, sdk.Call{Model: model, CostUSD: usd, Verdict: verdict})
			trace.CostUSD += usd
		}
		entries = append(entries, store.Entry{Trace: trace})
	}
	if err := s.Record(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Streams{Out: &out, Err: &out})
		return code, out.String()
	}
	if code, out := run("outcomes", path); code != cli.ExitOK || !strings.Contains(out, "60 queries by 2 models") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("fit", "--outcomes", path, "--verified", "--budget", "0.005", "--out", filepath.Join(t.TempDir(), "profile.json")); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("outcomes", filepath.Join(t.TempDir(), "none.jsonl")); code == cli.ExitOK || !strings.Contains(out, "no such file") {
		t.Errorf("exit %d: %s", code, out)
	}
	// Nobody listens there: the message says so without the password.
	for _, args := range [][]string{
		{"outcomes", "postgres://u:s3cret@127.0.0.1:1/fleet"},
		{"policy", "plan", "library:tiers", "--traces", "postgres://u:s3cret@127.0.0.1:1/fleet"},
		{"trace", "--file", "postgres://u:s3cret@127.0.0.1:1/fleet", "--run", "r", "--verdict", "passed"},
	} {
		if code, out := run(args...); code == cli.ExitOK || strings.Contains(out, "s3cret") {
			t.Errorf("%q: exit %d: %s", args, code, out)
		}
	}
}

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk"
)

// Older files of rotated traces are read with the newest and named; a copy that holds no traces is not. A second file of
// outcomes is refused.
func TestOutcomesOfRotatedTraces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	for i, name := range []string{path + ".2", path + ".1", path} {
		var text bytes.Buffer
		for k := range 20 {
			trace := &sdk.Trace{ID: fmt.Sprint(i, "-", k), Start: time.Now(), Stop: sdk.StopNotWorth, Chosen: "small"}
			verdict := &sdk.Verdict{Verifier: "tests", Outcome: sdk.Passed}
			trace.Decisions = []sdk.Decision{{Run: "small"}}
			trace.Calls = []sdk.Call{{Model: "small", CostUSD: 0.001, Verdict: verdict}}
			if err := json.NewEncoder(&text).Encode(trace); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path+".3", []byte("{\"query_id\":\"q\",\"model\":\"m\",\"quality\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Streams{Out: &out, Err: &out})
		return code, out.String()
	}
	code, out := run("outcomes", path)
	if code != cli.ExitOK || !strings.Contains(out, "60 queries by 1 model") || !strings.Contains(out, path+".2: read too") || strings.Contains(out, path+".3") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out := run("fit", "--outcomes", path, "--outcomes", path+".1", "--out", path+".json"); code == cli.ExitOK || !strings.Contains(out, "is given already") {
		t.Errorf("exit %d: %s", code, out)
	}
}

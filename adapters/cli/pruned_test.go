package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/sdk"
)

// After a prune, the spend covers all steps and the savings those with traces; the page and the list say so.
func TestFiguresAfterAPrune(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []store.Entry
	for i := range 5 {
		start := time.Now()
		if i < 3 {
			start = start.Add(-48 * time.Hour)
		}
		entries = append(entries, store.Entry{Trace: &sdk.Trace{
			ID: fmt.Sprint("0", i), Start: start, Run: "r", Chosen: "small", Stop: sdk.StopNotWorth, CostUSD: 0.5,
			Decisions: []sdk.Decision{{Models: []sdk.Belief{{Model: "small", CostUSD: 0.5}, {Model: "large", CostUSD: 2}}}},
			Calls:     []sdk.Call{{Model: "small", CostUSD: 0.5, Quality: sdk.Estimate{Mean: 0.75}}},
		}})
	}
	if err := s.Record(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if n, err := store.PruneAll(t.Context(), s, store.Retention{Traces: time.Hour}); err != nil || n.Traces != 3 {
		t.Fatalf("pruned %+v, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		var out, said bytes.Buffer
		if code := cli.Run(t.Context(), args, cli.Streams{Out: &out, Err: &said}); code != cli.ExitOK {
			t.Fatalf("%q: exit code %d, %s", args, code, &said)
		}
		return out.String()
	}
	contains := func(what, text string, want ...string) {
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s has no %q:\n%s", what, one, text)
			}
		}
	}
	for _, args := range [][]string{nil, {"--run", "r"}} {
		args = append([]string{"trace", "-f", path, "-n", "1"}, args...)
		contains("the list", run(args...), "1 of 5 steps, 2.500000 USD in all; the traces of 2 are kept\n",
			"Of the steps whose traces are kept: spent 1.000000 USD; always asking large would have cost 4.000000 on the same 2 steps")
		contains("the list in JSON", run(append(args, "--json")...), `"total": 5`, `"traces_kept": 2`, `"cost_usd": 2.5`, `"spent_usd": 1`)
	}
	// Of those without an answer there are no sums.
	contains("the list of failures", run("trace", "-f", path, "--failed"), "0 of 0 steps, 0.000000 USD in all\n")

	pages := t.TempDir()
	run("view", path, "--export", pages)
	first, err := os.ReadFile(filepath.Join(pages, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	contains("the first page", string(first), "5 steps cost 2.50 USD, and the 2 whose traces are kept and read 1.00 USD: 75 % less than asking large each time",
		"5 steps, 5 calls, 0.500 USD a step; 3 steps not read yet, or no longer kept<", "on 2 steps whose traces are kept and read, its cost is", "; of the 2 steps whose traces are kept and read<",
		"of 2 steps whose traces are kept and read got an answer;", "</a> of 5 steps asked another model after an answer")
}

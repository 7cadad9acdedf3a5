package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/cli"
	"github.com/stepfall/stepfall/sdk"
)

// Shadowed steps that nothing judged fit a pair, and each command says what its qualities
// are; a verdict on a run changes that.
func TestFitToShadowedSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	var traces []*sdk.Trace
	step := func(mode, query, run, model, key string, usd float64) {
		traces = append(traces, &sdk.Trace{
			ID: mode + query + model, QueryID: query, Run: run, Mode: mode, Chosen: model, Decisions: []sdk.Decision{},
			Calls: []sdk.Call{{Model: model, Key: key, CostUSD: usd}}, CostUSD: usd,
		})
	}
	for q := range 60 {
		query, run := fmt.Sprint("q", q), fmt.Sprint("r", q/4)
		step("shadow", query, run, "large", "x", 0.1)
		for m, name := range []string{"mini", "flash"} {
			key := "x"
			if (q+m)%8 == 0 {
				key = name
			}
			step("shadow_alternative", query, run, name, key, 0.001*float64(m+1))
		}
	}
	write := func() {
		t.Helper()
		var lines bytes.Buffer
		for _, trace := range traces {
			line, err := json.Marshal(trace)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(line, '\n'))
		}
		if err := os.WriteFile("traces.jsonl", lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}); code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, &out)
		}
		return out.String()
	}
	write()
	const note = `"quality" is agreement with large here: good for choosing, and no measure of quality`
	got := run("fit", "--outcomes", "traces.jsonl", "--out", "profile.json")
	for _, want := range []string{note, "fitted to agreement with large, which measures no quality", "140 more are wanted", "mini and flash are asked, and large where their answers differ", "agreement with large %"} {
		if !strings.Contains(got, want) {
			t.Errorf("fit does not say %q:\n%s", want, got)
		}
	}
	if got := run("dev", "eval", "--outcomes", "traces.jsonl", "--strategies", "threshold"); !strings.Contains(got, note) {
		t.Errorf("eval does not say what it measures:\n%s", got)
	}
	if got := run("outcomes", "traces.jsonl"); !strings.Contains(got, note) {
		t.Errorf("outcomes does not say what it shows:\n%s", got)
	}
	if _, err := os.Stat(filepath.Join(".", "profile.json")); err != nil {
		t.Error(err)
	}
	run("trace", "verdict", "r3", "failed")
	if got := run("outcomes", "traces.jsonl"); !strings.Contains(got, `"quality" is verdicts on runs, else agreement with large here`) {
		t.Errorf("after a verdict:\n%s", got)
	}
}

package outcome_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// shadowed returns two steps of the large model with shadow calls of a small and another
// model; the small one's second call failed.
func shadowed() []*sdk.Trace {
	call := func(model, key string) sdk.Call { return sdk.Call{Model: model, Key: key, CostUSD: 0.001} }
	lost := sdk.Call{Model: "small", Error: "gone"}
	return []*sdk.Trace{
		{ID: "1", QueryID: "q1", Mode: "shadow", Calls: []sdk.Call{call("large", "x")}},
		{ID: "2", QueryID: "q1", Mode: "shadow_alternative", Calls: []sdk.Call{call("small", "x"), call("other", "y")}},
		{ID: "3", QueryID: "q2", Mode: "shadow_alternative", Calls: []sdk.Call{lost, call("other", "z"), call("large", "w")}},
		{ID: "4", QueryID: "q2", Mode: "shadow", Calls: []sdk.Call{call("large", "z")}},
	}
}

// A rejection by a free check does not measure quality: the other answers are still compared with
// the baseline, and without a baseline all qualities are unknown.
func TestChecksDoNotMeasure(t *testing.T) {
	traces := shadowed()
	traces[2].Calls[1].Verdict = &sdk.Verdict{Verifier: "check:tool_calls", Outcome: sdk.Failed}
	traces[0].Calls[0].Verdict = &sdk.Verdict{Verifier: "check:refusal", Outcome: sdk.Failed}
	table, err := outcome.Open(writeTraces(t, traces), outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for q, row := range table.Quality {
		for m, v := range row {
			got[table.Queries[q]+" "+table.Models[m]] = v
		}
	}
	want := map[string]float64{"q1 large": 0, "q1 small": math.NaN(), "q1 other": math.NaN(), "q2 large": 1, "q2 small": math.NaN(), "q2 other": 0}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" || table.Labels != "agreement with large" {
		t.Errorf("labels %q (-want +got):\n%s", table.Labels, diff)
	}
	alone := &sdk.Trace{ID: "1", Calls: []sdk.Call{{Model: "small", Key: "x", Verdict: traces[2].Calls[1].Verdict}}}
	if table, err := outcome.Open(writeTraces(t, []*sdk.Trace{alone}), outcome.Options{}); err == nil {
		t.Errorf("quality %v of a file in which only a check spoke", table.Quality)
	}
}

// writeTraces writes traces into a file, one a line.
func writeTraces(t *testing.T, traces []*sdk.Trace) string {
	t.Helper()
	var lines []byte
	for _, trace := range traces {
		if trace.Decisions == nil {
			trace.Decisions = []sdk.Decision{}
		}
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShadowedStepsAreOneQueryEach(t *testing.T) {
	path := writeTraces(t, shadowed())
	table, err := outcome.Open(path, outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Queries) != 2 || table.Labels != "agreement with large" || table.Verified {
		t.Fatalf("%d queries, labels %q", len(table.Queries), table.Labels)
	}
	got := map[string]float64{}
	for m, name := range table.Models {
		for q := range table.Queries {
			got[fmt.Sprint(name, q+1)] = table.Quality[q][m]
		}
	}
	for name, want := range map[string]float64{"small1": 1, "other1": 0, "large1": 1, "other2": 0, "large2": 1} {
		if got[name] != want {
			t.Errorf("%s has %v, want %v", name, got[name], want)
		}
	}
	if !math.IsNaN(got["small2"]) {
		t.Errorf("an answer that never came is labelled %v", got["small2"])
	}
	if rows := table.Rows([]int{0}); rows.Labels != table.Labels {
		t.Error("a part of the table does not say what its labels are")
	}
	if _, err := outcome.Open(path, outcome.Options{Verified: true}); err == nil {
		t.Error("labels passed for verdicts")
	}
	judged := shadowed()
	judged[0].Calls[0].Verdict = &sdk.Verdict{Outcome: sdk.Failed}
	if table, err = outcome.Open(writeTraces(t, judged), outcome.Options{}); err != nil || table.Labels != "" || table.Quality[0][table.Index("large")] != 0 {
		t.Errorf("beside a verdict: %v", err)
	}
}

// A baseline is called regardless of its estimate, which counts as random; models in its shadow
// are not.
func TestBaselinesWereNotChosen(t *testing.T) {
	traces := shadowed()
	for _, trace := range traces {
		for i := range trace.Calls {
			trace.Calls[i].Verdict = &sdk.Verdict{Outcome: sdk.Passed}
		}
	}
	traces = append(traces, &sdk.Trace{ID: "5", Mode: "enforce", Calls: []sdk.Call{{Model: "small", Key: "x", Propensity: 1, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}}})
	table, err := outcome.OfTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	small, large := table.Index("small"), table.Index("large")
	if p := table.Propensity[0][large]; !(p < 1 && p > 0.999) || table.Propensity[0][small] != 1 || !math.IsNaN(table.Propensity[2][large]) {
		t.Errorf("propensities %v", table.Propensity)
	}
}

// A prompt's length is what the router took it for, also where it had no estimate; what was billed counts
// only in tables without such a column.
func TestPromptsAreAsLongAsTheRouterSays(t *testing.T) {
	call := sdk.Call{Model: "small", Usage: sdk.Usage{InputTokens: 500}, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}
	table, err := outcome.OfTraces([]*sdk.Trace{
		{ID: "1", InputTokens: 346, Calls: []sdk.Call{call}}, {ID: "2", Calls: []sdk.Call{call}}, {ID: "3", InputTokens: -1, Calls: []sdk.Call{call}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := []int{table.PromptTokens(0), table.PromptTokens(1), table.PromptTokens(2)}
	if diff := cmp.Diff([]int{346, 0, 0}, got); diff != "" {
		t.Errorf("lengths (-want +got):\n%s", diff)
	}
	bare := *table
	bare.EstimatedInputTokens = nil
	if n := bare.PromptTokens(0); n != 500 {
		t.Errorf("without estimates %d tokens, want those billed", n)
	}
	if bare.Hash() == table.Hash() {
		t.Error("two fits of different lengths have one hash")
	}
}

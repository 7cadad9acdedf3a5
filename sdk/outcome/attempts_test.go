package outcome_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The outcome is the result and cost of an agent's attempt, not of one of its calls.
func TestAnAttemptIsTheOutcomeAndNotItsCalls(t *testing.T) {
	failed, passed := &sdk.Verdict{Outcome: sdk.Failed, Verifier: "tests"}, &sdk.Verdict{Outcome: sdk.Passed, Verifier: "tests"}
	traces := []*sdk.Trace{
		{ID: "1", QueryID: "task", Run: "task", Mode: sdk.ModeAttemptCall, Chosen: "small", Calls: []sdk.Call{{Model: "small", CostUSD: 0.1}}},
		{ID: "2", QueryID: "task", Run: "task", Mode: sdk.ModeAttemptCall, Chosen: "large", Calls: []sdk.Call{{Model: "large", CostUSD: 1}}},
		{ID: "3", QueryID: "task", Run: "task", Mode: sdk.ModeAttempt, Chosen: "large", Calls: []sdk.Call{
			{Model: "small", CostUSD: 0.3, Verdict: failed}, {Model: "large", CostUSD: 2, Verdict: passed}}},
	}
	table, err := outcome.Open(writeTraces(t, traces), outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for m, name := range table.Models {
		names[name] = m
	}
	small, large := names["small"], names["large"]
	if len(table.Queries) != 1 || table.Quality[0][small] != 0 || table.Quality[0][large] != 1 || table.CostUSD[0][small] != 0.3 || table.CostUSD[0][large] != 2 {
		t.Errorf("queries %v, qualities %v, costs %v of %v", table.Queries, table.Quality, table.CostUSD, table.Models)
	}
}

// The verdict on an attempt whose calls were routed is one on the run of these calls.
func TestTheVerdictOnARoutedAttemptIsOnItsRun(t *testing.T) {
	step := func(id, model string) *sdk.Trace {
		return &sdk.Trace{ID: id, Run: "task", Mode: "enforce", Chosen: model, Calls: []sdk.Call{{Model: model, CostUSD: 1, Key: id}}}
	}
	table, err := outcome.OfTraces([]*sdk.Trace{step("1", "small"), step("2", "large"), {
		ID: "3", QueryID: "task", Run: "task", Mode: sdk.ModeRoutedAttempt, Chosen: "routed",
		Calls: []sdk.Call{{Model: "routed", CostUSD: 2, Verdict: &sdk.Verdict{Outcome: sdk.Passed}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"small", "large"}, table.Models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	var right int
	for _, row := range table.Quality {
		for _, quality := range row {
			if quality == 1 {
				right++
			}
		}
	}
	if right != 2 {
		t.Errorf("%d answers are right, want both (qualities %v)", right, table.Quality)
	}
}

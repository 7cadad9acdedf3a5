package outcome_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Steps without a choice of models, such as those of a holdout or with a named model, are no evidence
// of what a strategy left out: Options.Chosen drops them unless every model was called.
func TestStepsWithoutAChoice(t *testing.T) {
	step := func(query string, candidates int, holdout bool, models ...string) *sdk.Trace {
		s := &sdk.Trace{ID: fmt.Sprint(query, models), QueryID: query, Mode: "enforce", Decisions: []sdk.Decision{{Models: make([]sdk.Belief, candidates)}}}
		if holdout {
			s.Holdout = &sdk.Holdout{Share: 0.05, Baseline: true}
		}
		for _, name := range models {
			s.Calls = append(s.Calls, sdk.Call{Model: name, CostUSD: 1, Verdict: &sdk.Verdict{Outcome: sdk.Passed}})
		}
		return s
	}
	path := writeTraces(t, []*sdk.Trace{
		step("chosen", 2, false, "small"),
		step("held", 2, true, "large"),
		step("named", 1, false, "large"),
		step("both", 1, false, "small"), step("both", 1, false, "large"), step("both", 2, false, "small"),
	})
	for chosen, want := range map[bool]string{false: "[chosen held named both]", true: "[chosen both]"} {
		table, err := outcome.Open(path, outcome.Options{Chosen: chosen})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(table.Queries); got != want {
			t.Errorf("chosen %v: %s, want %s", chosen, got, want)
		}
		last := table.Propensity[len(table.Queries)-1]
		if !(last[0] < 1) || !(last[1] < 1) || table.Propensity[0][0] != 1 || !math.IsNaN(table.Propensity[0][1]) {
			t.Errorf("chosen %v: propensities %v", chosen, table.Propensity)
		}
	}
}

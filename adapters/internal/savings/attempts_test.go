package savings_test

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/sdk"
)

// The calls of an attempt are recorded beside it: their cost counts once, and models are compared by attempts.
func TestAnAttemptAndItsCallsAreOneSpending(t *testing.T) {
	call := func(model string, usd float64) *sdk.Trace {
		return &sdk.Trace{ID: model, Mode: sdk.ModeAttemptCall, Chosen: model, CostUSD: usd, Calls: []sdk.Call{{Model: model, CostUSD: usd}},
			Decisions: []sdk.Decision{{Run: model, Models: []sdk.Belief{{Model: model, CostUSD: usd}}}}}
	}
	attempt := &sdk.Trace{ID: "attempt", Mode: sdk.ModeAttempt, Chosen: "large", CostUSD: 3.5,
		Calls:     []sdk.Call{{Model: "small", CostUSD: 1}, {Model: "large", CostUSD: 2, Verdict: &sdk.Verdict{Outcome: sdk.Passed, Verifier: "tests", CostUSD: 0.5}}},
		Decisions: []sdk.Decision{{Run: "small", Models: []sdk.Belief{{Model: "small", CostUSD: 1}, {Model: "large", CostUSD: 2}}}}}
	for _, mode := range []string{sdk.ModeAttempt, sdk.ModeRoutedAttempt} {
		var a savings.Account
		attempt.Mode = mode
		for _, step := range []*sdk.Trace{call("small", 1), call("large", 2), attempt} {
			a.Record(t.Context(), step)
		}
		if r := a.Result(); math.Abs(r.SpentUSD-3.5) > 1e-9 {
			t.Errorf("%s: spent %g, want 3.5", mode, r.SpentUSD)
		} else if mode == sdk.ModeAttempt && (r.Steps != 1 || r.BaselineUSD != 2 || r.Quality.N != 1) {
			t.Errorf("%d steps, baseline %g, %d answers judged; want the attempt alone: %+v", r.Steps, r.BaselineUSD, r.Quality.N, r)
		} else if mode == sdk.ModeRoutedAttempt && r.Steps != 0 {
			t.Errorf("a routed attempt counts as %d steps", r.Steps)
		}
	}
}

package cli

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Verdicts that were collected of every answer can be bought, where their price stands beside them.
func TestVerdictsThatWereRecordedCanBeBought(t *testing.T) {
	verdicts, prices := [][]float64{{1}}, [][]float64{{0.01}}
	table := &outcome.Table{Verdicts: map[string][][]float64{"judge": verdicts}, Signals: map[string][][]float64{"judge_cost_usd": prices}}
	for as, want := range map[string]int{"bought": 2, "": 1} {
		own := judgesOf(&policies.Policy{Verifiers: []policies.Verifier{{Name: "judge", Plugin: "verifier-judge", As: as}}}, table, &fit.Options{})
		if len(own.Signals) != want || (own.Verdicts == nil) != (as == "bought") || len(table.Signals) != 1 {
			t.Errorf("as %q: signals %v, verdicts %v", as, own.Signals, own.Verdicts)
		}
	}
}

// The recorded truth is a verifier's verdict only where the policy has one that judges:
// what is a signal, or bought, or finds faults alone, passes nothing.
func TestWhoseVerdictTheTruthIs(t *testing.T) {
	for want, verifiers := range map[bool][]policies.Verifier{
		true:  {{Name: "tests", Plugin: "verifier-tests"}, {Name: "judge", Plugin: "verifier-judge", As: "bought"}},
		false: {{Name: "judge", Plugin: "verifier-judge", As: "bought"}, {Name: "score", Plugin: "verifier-judge", As: "signal"}, {Name: "form", Plugin: "verifier-schema"}},
	} {
		own := judgesOf(&policies.Policy{Verifiers: verifiers}, &outcome.Table{}, &fit.Options{})
		if own.Verified != want {
			t.Errorf("with %+v the truth counts as a verdict: %t", verifiers, own.Verified)
		}
	}
}

// Verdicts of a verifier that errs are evidence, at the rates that the policy states or else at learned ones,
// and those of one that is taken at its word are not.
func TestRatesOfUseGoIntoTheFit(t *testing.T) {
	stated := cascade.Rates{FalsePass: 0.2, FalseReject: 0.1}
	for _, c := range []struct {
		verifier policies.Verifier
		rates    map[string]cascade.Rates
		err      bool
	}{
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge"}, map[string]cascade.Rates{}, true},
		{policies.Verifier{Name: "judge", Plugin: "verifier-command", FalsePass: new(0.2), FalseReject: new(0.1)}, map[string]cascade.Rates{"judge": stated}, true},
		{policies.Verifier{Name: "judge", Plugin: "verifier-tests"}, map[string]cascade.Rates{}, false},
	} {
		var o fit.Options
		own := judgesOf(&policies.Policy{Verifiers: []policies.Verifier{c.verifier}}, &outcome.Table{Verified: true}, &o)
		if !maps.Equal(o.Estimate.Judges, c.rates) || o.VerdictsErr != c.err || !own.Verified {
			t.Errorf("%s: rates %+v, verdicts err: %t; verified %t", c.verifier.Plugin, o.Estimate.Judges, o.VerdictsErr, own.Verified)
		}
	}
}

// A profile whose estimator cannot tell what a look gains says which verifiers nobody asks.
func TestVerifiersThatNobodyAsksAreNamed(t *testing.T) {
	price, quality := make([][]float64, 40), make([][]float64, 40)
	queries := make([]string, 40)
	for q := range quality {
		queries[q], quality[q], price[q] = fmt.Sprint(q), []float64{float64(q % 2), 1}, []float64{0.001, 0.01}
	}
	table := &outcome.Table{Models: []string{"small", "large"}, Queries: queries, Quality: quality, CostUSD: price, Signals: map[string][][]float64{"judge": quality, "judge_cost_usd": price}}
	policy := &policies.Policy{Verifiers: []policies.Verifier{{Name: "judge", Plugin: "verifier-judge", As: "bought"}}}
	for kind, want := range map[string]int{"": 0, estimate.KindMean: 1} {
		p, err := fit.Fit(t.Context(), table, fit.Options{Estimate: estimate.Options{Quality: kind}})
		if err != nil {
			t.Fatal(err)
		}
		if got := unboughtJudges(policy, p); len(got) != want {
			t.Errorf("estimator %q: never asked are %q", kind, got)
		}
	}
}

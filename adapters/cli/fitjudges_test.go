package cli

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Verdicts collected for every answer can be bought if their price is recorded.
func TestVerdictsThatWereRecordedCanBeBought(t *testing.T) {
	verdicts, prices := [][]float64{{1}}, [][]float64{{0.01}}
	table := &outcome.Table{Verdicts: map[string][][]float64{"judge": verdicts}, Signals: map[string][][]float64{"judge_cost_usd": prices}}
	for as, want := range map[string]int{"bought": 2, "": 1} {
		own := judgesOf(&policies.Policy{Verifiers: []policies.Verifier{{Name: "judge", Plugin: "verifier-judge", As: as}}}, table, nil, &fit.Options{})
		if len(own.Signals) != want || (own.Verdicts == nil) != (as == "bought") || len(table.Signals) != 1 {
			t.Errorf("as %q: signals %v, verdicts %v", as, own.Signals, own.Verdicts)
		}
	}
}

// The total cost of verdicts belongs to the verifiers without prices of their own.
func TestVerdictPricesCountOnce(t *testing.T) {
	price := [][]float64{{0.01}}
	table := &outcome.Table{VerdictsUSD: price, Signals: map[string][][]float64{"judge_cost_usd": price}}
	for _, c := range []struct {
		verifiers []policies.Verifier
		isKept    bool
	}{
		{[]policies.Verifier{{Name: "judge", Plugin: "verifier-judge"}}, false},
		{[]policies.Verifier{{Name: "judge", Plugin: "verifier-judge", As: "bought"}}, false},
		{[]policies.Verifier{{Name: "tests", Plugin: "verifier-tests"}, {Name: "judge", Plugin: "verifier-judge", As: "bought"}}, true},
		{[]policies.Verifier{{Name: "other", Plugin: "verifier-judge"}}, true},
	} {
		own := judgesOf(&policies.Policy{Verifiers: c.verifiers}, table, nil, &fit.Options{})
		if isKept := own.VerdictsUSD != nil; isKept != c.isKept {
			t.Errorf("%+v: prices of all verdicts are kept: %t", c.verifiers, isKept)
		}
	}
}

// The recorded truth is a verifier's verdict only if the policy has one that judges: a signal, a bought verdict or a
// fault finder passes nothing.
func TestWhoseVerdictTheTruthIs(t *testing.T) {
	for want, verifiers := range map[bool][]policies.Verifier{
		true:  {{Name: "tests", Plugin: "verifier-tests"}, {Name: "judge", Plugin: "verifier-judge", As: "bought"}},
		false: {{Name: "judge", Plugin: "verifier-judge", As: "bought"}, {Name: "score", Plugin: "verifier-judge", As: "signal"}, {Name: "form", Plugin: "verifier-schema"}},
	} {
		own := judgesOf(&policies.Policy{Verifiers: verifiers}, &outcome.Table{}, nil, &fit.Options{})
		if own.Verified != want {
			t.Errorf("with %+v the truth counts as a verdict: %t", verifiers, own.Verified)
		}
	}
}

// Verdicts on models that the verifier's block does not list are not there in use.
func TestVerdictsOnOtherModelsAreNotRead(t *testing.T) {
	verdicts := [][]float64{{1, 0}}
	table := &outcome.Table{Models: []string{"small", "large"}, Verdicts: map[string][][]float64{"judge": verdicts}}
	own := judgesOf(&policies.Policy{Verifiers: []policies.Verifier{{Name: "judge", Plugin: "verifier-judge", Models: []string{"small"}}}}, table, nil, &fit.Options{})
	if got := own.Verdicts["judge"][0]; got[0] != 1 || !math.IsNaN(got[1]) || verdicts[0][1] != 0 {
		t.Errorf("verdicts %v, of %v", got, verdicts)
	}
}

// Verdicts of a verifier with error rates are evidence, at the rates that the policy states or else at learned ones;
// those of one without are not.
func TestRatesOfUseGoIntoTheFit(t *testing.T) {
	stated := cascade.Rates{FalsePass: 0.2, FalseReject: 0.1}
	learned := map[string]cascade.Rates{"judge": {FalsePass: 0.3, FalseReject: 0.02}}
	for _, c := range []struct {
		verifier policies.Verifier
		rates    map[string]cascade.Rates
		err      bool
		learned  map[string]cascade.Rates
	}{
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge"}, map[string]cascade.Rates{}, true, nil},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge"}, learned, true, learned},
		{policies.Verifier{Name: "judge", Plugin: "verifier-command"}, learned, true, learned},
		{policies.Verifier{Name: "judge", Plugin: "verifier-command", FalsePass: new(0.2), FalseReject: new(0.1)}, map[string]cascade.Rates{"judge": stated}, true, learned},
		{policies.Verifier{Name: "judge", Plugin: "verifier-judge", FalsePass: new(0.0)}, map[string]cascade.Rates{"judge": {}}, false, learned},
		{policies.Verifier{Name: "judge", Plugin: "verifier-tests"}, map[string]cascade.Rates{}, false, nil},
	} {
		var o fit.Options
		own := judgesOf(&policies.Policy{Verifiers: []policies.Verifier{c.verifier}}, &outcome.Table{Verified: true}, c.learned, &o)
		if !maps.Equal(o.Estimate.Judges, c.rates) || o.VerdictsErr != c.err || !own.Verified {
			t.Errorf("%s: rates %+v, verdicts err: %t; verified %t", c.verifier.Plugin, o.Estimate.Judges, o.VerdictsErr, own.Verified)
		}
	}
}

// A fit lists judges whose verdicts have no price in the outcomes.
func TestVerdictsWithoutAPriceAreNamed(t *testing.T) {
	policy := &policies.Policy{Verifiers: []policies.Verifier{{Name: "gate", Plugin: "verifier-judge", MaxUSD: 0.01}, {Name: "form", Plugin: "verifier-schema"}}}
	column := [][]float64{{1}}
	for name, table := range map[string]*outcome.Table{
		"":     {Signals: map[string][][]float64{"gate_cost_usd": column}},
		"gate": {Signals: map[string][][]float64{"gate_cost": column}},
		" ":    {VerdictsUSD: column},
	} {
		if got := strings.Join(unpricedJudges(policy, table), " "); got != strings.TrimSpace(name) {
			t.Errorf("%q: without a price are %q", name, got)
		}
	}
}

// A profile whose estimator cannot value looks lists the verifiers that are never bought.
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

// A refit to verdicts alone uses, and keeps, the rates that the current profile has learned from a truth.
func TestARefitKeepsWhatIsKnownOfJudges(t *testing.T) {
	price, quality, verdicts := make([][]float64, 60), make([][]float64, 60), make([][]float64, 60)
	queries := make([]string, 60)
	for q := range quality {
		queries[q], price[q] = fmt.Sprint(q), []float64{0.001, 0.01}
		quality[q] = []float64{float64(q % 2), 1}
		verdicts[q] = []float64{1, float64(min(q%5, 1))} // passes all that is wrong, rejects a tenth of what is right
	}
	table := &outcome.Table{Models: []string{"small", "large"}, Queries: queries, Quality: quality, CostUSD: price, Verdicts: map[string][][]float64{"judge": verdicts}}
	policy := &policies.Policy{Verifiers: []policies.Verifier{{Name: "judge", Plugin: "verifier-command"}}, Fit: &policies.Fit{Profile: "profile.json"}}
	folder := t.TempDir()
	if got := ratesInUse(policy, folder); got != nil {
		t.Errorf("without a profile: %v", got)
	}
	var first map[string]cascade.Rates
	for refit := range 3 {
		var o fit.Options
		learned := ratesInUse(policy, folder)
		p, err := fit.Fit(t.Context(), judgesOf(policy, table, learned, &o), o)
		if err != nil {
			t.Fatal(err)
		}
		keepRates(p, learned)
		if err := p.Save(filepath.Join(folder, "profile.json")); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = p.Estimator.Judges
		}
		if len(first) != 1 || !maps.Equal(p.Estimator.Judges, first) || (p.Data.Assumed != nil) != (refit > 0) {
			t.Errorf("refit %d: %v, at first %v; assumed %v", refit, p.Estimator.Judges, first, p.Data.Assumed)
		}
		table = &outcome.Table{Models: table.Models, Queries: queries, Quality: verdicts, CostUSD: price, Verified: true} // what use recorded
	}
	policy.Verifiers[0].FalsePass = new(0.2)
	if got := ratesInUse(policy, folder); len(got) != 0 {
		t.Errorf("beside stated rates: %v", got)
	}
}

// Rates learned from few answers are reported as the prior.
func TestOfHowManyVerdictsRatesWereLearned(t *testing.T) {
	nan := math.NaN()
	table := &outcome.Table{
		Quality: [][]float64{{0, 1}, {1, nan}, {1, 1}}, Signals: map[string][][]float64{"judge": {{1, 0}, {nan, 1}, {1, 1}}},
		Verdicts: map[string][][]float64{"stated": {{1, 1}, {1, 1}, {1, 1}}},
	}
	counts := countJudged(table, map[string]cascade.Rates{"stated": {}})
	if len(counts) != 1 || counts["judge"] != (judgedCounts{wrong: 1, right: 3}) {
		t.Errorf("%+v", counts)
	}
	for c, want := range map[judgedCounts]string{
		{1, 3}:   "learned from 1 wrong answer and 3 right, TOO FEW: MOSTLY THE DEFAULT RATES",
		{4, 30}:  "learned from 4 wrong answers and 30 right, TOO FEW: the first is MOSTLY THE DEFAULT 15 %",
		{40, 3}:  "learned from 40 wrong answers and 3 right, TOO FEW: the second is MOSTLY THE DEFAULT 5 %",
		{40, 30}: "learned from 40 wrong answers and 30 right",
	} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where verdicts have a price and all were collected, a fit suggests buying them; no other strategy would help one
// that is behind a ladder.
func TestFitBehindALadderOfPricedVerdicts(t *testing.T) {
	for priced, want := range map[bool]string{true: `as = "bought"`, false: "--strategy threshold"} {
		var out strings.Builder
		reportLadder(&printer{w: &out}, &fit.Ladder{Gain: -0.03, GainStdError: 0.01, Priced: priced})
		if strings.Count(out.String(), "BEHIND") != 1 || !strings.Contains(out.String(), want) {
			t.Errorf("priced %v: %s", priced, &out)
		}
		out.Reset()
		reportLadder(&printer{w: &out}, &fit.Ladder{Gain: 0.03, GainStdError: 0.01, Priced: priced})
		if strings.Contains(out.String(), want) != priced {
			t.Errorf("priced %v, not behind: %s", priced, &out)
		}
	}
}

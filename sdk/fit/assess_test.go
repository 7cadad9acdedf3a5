package fit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// judgedTraces returns n steps that called m, with estimates of quality and cost from
// believe and outcomes from came.
func judgedTraces(n int, group string, believe func() (p, usd float64), came func(p, usd float64) (passed bool, paid float64)) []*sdk.Trace {
	traces := make([]*sdk.Trace, n)
	for i := range traces {
		p, usd := believe()
		passed, paid := came(p, usd)
		v := &sdk.Verdict{Outcome: sdk.Failed}
		if passed {
			v.Outcome = sdk.Passed
		}
		traces[i] = &sdk.Trace{
			ID: fmt.Sprint(group, i), Group: group, Profile: "profile.json",
			Decisions: []sdk.Decision{{Run: "m", Models: []sdk.Belief{{Model: "m", Quality: sdk.Estimate{Mean: p}, CostUSD: usd}}}},
			Calls:     []sdk.Call{{Model: "m", CostUSD: paid, Verdict: v}},
		}
	}
	return traces
}

func assessed(t *testing.T, traces []*sdk.Trace) *Assessment {
	t.Helper()
	p := &Profile{Models: []Model{{Name: "m"}}, Data: Data{Complete: 500, Groups: []string{"g"}}, Usual: []Offset{
		// Of probabilities between 0 and 1, and of costs between nothing and twice the
		// estimate, all as likely.
		{"quality of m", 500, 0, 1. / 6}, {"cost of m", 500, math.Log(2) - 1, 1}, {"quality in group g", 500, 0, 1. / 6},
	}}
	a, err := Assess(p, traces)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Verdicts of a fallible judge are compared with the expected probability of a pass: it passes more answers
// than are right, and that is no drift. A model that became worse still is.
func TestAssessKnowsThatJudgesErr(t *testing.T) {
	rates := cascade.Rates{FalsePass: 0.3, FalseReject: 0.05}
	for want, worse := range map[bool]float64{true: 0, false: 0.25} {
		rng := rand.New(rand.NewPCG(4, 6))
		traces := judgedTraces(2000, "g", func() (float64, float64) { return rng.Float64(), 0.01 }, func(p, usd float64) (bool, float64) {
			pass := rates.FalsePass
			if rng.Float64() < p-worse {
				pass = 1 - rates.FalseReject
			}
			return rng.Float64() < pass, usd * 2 * rng.Float64()
		})
		for _, trace := range traces {
			v := trace.Calls[0].Verdict
			v.IfRight, v.IfWrong = rates.Likelihoods(v.Outcome == sdk.Passed)
		}
		a := assessed(t, traces)
		if a.Holds() != want || want && math.Abs(a.Quality.Brier-a.Quality.Reference) > 0.01 {
			t.Errorf("worse by %v: drifts %+v, Brier score %v, expected %v", worse, a.Drifts, a.Quality.Brier, a.Quality.Reference)
		}
	}
}

// With a fallible judge, a profile that estimates the truth is better than one that takes its verdicts
// for the truth.
func TestCompareKnowsThatJudgesErr(t *testing.T) {
	rates := cascade.Rates{FalsePass: 0.3, FalseReject: 0.05}
	table := small(3000, 3)
	table.Verified, table.Verdicts = false, map[string][][]float64{"judge": drawVerdictsAt(table, rates, 3)}
	train, test := table.Split(0.5, 3)
	fresh, err := Fit(t.Context(), train, Options{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := Fit(t.Context(), verdictsOf(train), Options{})
	if err != nil {
		t.Fatal(err)
	}
	traces := tracesOf(t, fresh, test, false, rand.New(rand.NewPCG(7, 7)))
	for q, trace := range traces {
		for i := range trace.Calls {
			pass := test.Verdicts["judge"][q][test.Index(trace.Calls[i].Model)] == 1
			v := &sdk.Verdict{Outcome: sdk.Failed}
			if pass {
				v.Outcome = sdk.Passed
			}
			v.IfRight, v.IfWrong = rates.Likelihoods(pass)
			trace.Calls[i].Verdict = v
		}
	}
	r, err := Compare(old, fresh, traces)
	if err != nil {
		t.Fatal(err)
	}
	if !(r.Quality > 2*r.QualityStdError) {
		t.Errorf("the loss of the profile that knows the truth is smaller by %v ± %v", r.Quality, 2*r.QualityStdError)
	}
}

func TestAssessTellsDriftAndHardlyEverWhereThereIsNone(t *testing.T) {
	long(t)
	rng := rand.New(rand.NewPCG(4, 4))
	believe := func() (float64, float64) { return rng.Float64(), 0.01 }
	honest := func(p, usd float64) (bool, float64) { return rng.Float64() < p, usd * 2 * rng.Float64() }
	alarms := 0
	for i := range 300 {
		if !assessed(t, judgedTraces(100+3*i, "g", believe, honest)).Holds() {
			alarms++
		}
	}
	if alarms > 9 {
		t.Errorf("%d of 300 false alarms, want about 3", alarms)
	}
	for want, traces := range map[string][]*sdk.Trace{
		"quality of m": judgedTraces(200, "g", believe, func(p, usd float64) (bool, float64) { return rng.Float64() < 0.6*p, usd * 2 * rng.Float64() }),
		"cost of m":    judgedTraces(200, "g", believe, func(p, usd float64) (bool, float64) { return rng.Float64() < p, usd * rng.Float64() }),
		"queries of groups not fitted to": append(
			judgedTraces(150, "g", believe, honest), judgedTraces(50, "new", believe, honest)...),
	} {
		a := assessed(t, traces)
		if a.Holds() || a.Drifts[0].Of != want {
			t.Errorf("want a drift of %s; got %+v", want, a.Drifts)
		}
	}
}

func TestAssessComparesTheBrierScoreWithItsOwnExpectation(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a := assessed(t, judgedTraces(5000, "g", func() (float64, float64) { return 0.8, 0.01 }, func(p, usd float64) (bool, float64) { return rng.Float64() < p, usd }))
	if math.Abs(a.Quality.Brier-0.16) > 0.01 || math.Abs(a.Quality.Reference-0.16) > 1e-9 {
		t.Errorf("Brier %v, expected %v, want 0.16 both", a.Quality.Brier, a.Quality.Reference)
	}
}

func TestAssessWithoutVerdicts(t *testing.T) {
	if _, err := Assess(&Profile{Models: []Model{{Name: "m"}}}, []*sdk.Trace{{ID: "1", Calls: []sdk.Call{{Model: "m"}}}}); err == nil {
		t.Error("no error")
	}
}

// worlds returns outcomes of two models; the expensive one costs dear.
func worlds(n int, dear float64, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 9))
	t := &outcome.Table{Models: []string{"cheap", "dear"}, Verified: true}
	for q := range n {
		quality := []float64{0, 0}
		for m, chance := range []float64{0.5, 0.8} {
			if rng.Float64() < chance {
				quality[m] = 1
			}
		}
		t.Queries, t.Quality = append(t.Queries, fmt.Sprint(seed, "-", q)), append(t.Quality, quality)
		t.CostUSD = append(t.CostUSD, []float64{0.001 * (0.5 + rng.Float64()), dear * (0.5 + rng.Float64())})
	}
	return t
}

// A new profile is better if the outcomes have changed, and not otherwise.
func TestCompareTellsTheBetterProfile(t *testing.T) {
	long(t)
	fitted := func(table *outcome.Table) *Profile {
		p, err := Fit(t.Context(), table, Options{Estimate: estimate.Options{Quality: estimate.KindMean}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old := fitted(worlds(300, 0.01, 1))
	for _, c := range []struct {
		dear float64
		want bool
	}{{0.01, false}, {0.003, true}} {
		var traces []*sdk.Trace
		met := worlds(100, c.dear, 2)
		for q, id := range met.Queries {
			trace := &sdk.Trace{ID: id}
			for m, name := range met.Models {
				v := &sdk.Verdict{Outcome: sdk.Failed}
				if met.Quality[q][m] == 1 {
					v.Outcome = sdk.Passed
				}
				trace.Calls = append(trace.Calls, sdk.Call{Model: name, CostUSD: met.CostUSD[q][m], Verdict: v})
			}
			traces = append(traces, trace)
		}
		r, err := Compare(old, fitted(worlds(300, c.dear, 3)), traces)
		if err != nil {
			t.Fatal(err)
		}
		if r.Better() != c.want || r.Calls != 200 {
			t.Errorf("dear model at %v USD: better %v, %+v", c.dear, r.Better(), r)
		}
	}
	if _, err := Compare(old, old, []*sdk.Trace{{ID: "1", Calls: []sdk.Call{{Model: "other", Verdict: &sdk.Verdict{Outcome: sdk.Passed}}}}}); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("a model that nobody knows: %v", err)
	}
}

// Estimates that are off on a strategy's steps as much as in the fit are no drift: dependence
// that the estimators ignore makes every estimate after a failure too high.
func TestAssessTellsNothingWhereTheFitWasOffAsWell(t *testing.T) {
	long(t)
	alarms, seen := 0, 0
	const splits = 4
	for seed := range uint64(splits) {
		table := drawn(900, 4, seed)
		table.Verified, table.Ante, table.Post = true, nil, nil
		known, met := table.Split(0.5, seed)
		p, err := Fit(t.Context(), known, Options{BudgetUSD: 0.004, Estimate: estimate.Options{Quality: estimate.KindMean}, Folds: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, worse := range []bool{false, true} {
			a, err := Assess(p, tracesOf(t, p, met, worse, rand.New(rand.NewPCG(seed, 6))))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case a.Holds():
			case worse:
				seen++
			default:
				alarms++
			}
		}
	}
	if alarms > 1 || seen < splits-1 {
		t.Errorf("told on %d of %d where nothing changed, and on %d where the cheapest model fails at half of what it did", alarms, splits, seen)
	}
}

// tracesOf returns the traces of a profile in use. With worse, half of the first model's
// right answers become wrong.
func tracesOf(t *testing.T, p *Profile, table *outcome.Table, worse bool, rng *rand.Rand) []*sdk.Trace {
	t.Helper()
	s, err := p.NewStrategy(table.Models)
	if err != nil {
		t.Fatal(err)
	}
	if worse {
		worn := *table
		worn.Quality = nil
		for _, row := range table.Quality {
			row = slices.Clone(row)
			row[0] *= float64(rng.IntN(2))
			worn.Quality = append(worn.Quality, row)
		}
		table = &worn
	}
	replay, err := p.Estimator.On(table)
	if err != nil {
		t.Fatal(err)
	}
	beliefs, costs := make([]cascade.Belief, len(table.Models)), make([]float64, len(table.Models))
	var traces []*sdk.Trace
	for q, id := range table.Queries {
		trace := &sdk.Trace{ID: id, Group: table.Group(q), Profile: "profile.json"}
		x := replay.Start(q)
		for ran := []int(nil); ; {
			x.Believe(ran, beliefs, costs)
			d := s.Decide(&cascade.State{Beliefs: beliefs, Costs: costs, Ran: ran, Coin: rng.Float64()})
			if d.Run == cascade.Stop {
				break
			}
			m := d.Run
			trace.Decisions = append(trace.Decisions, sdk.Decision{Run: table.Models[m], Models: []sdk.Belief{{
				Model: table.Models[m], Quality: sdk.Estimate{Mean: beliefs[m].Mean}, CostUSD: costs[m],
			}}})
			v := &sdk.Verdict{Outcome: sdk.Failed}
			if table.Quality[q][m] == 1 {
				v.Outcome = sdk.Passed
			}
			trace.Calls = append(trace.Calls, sdk.Call{Model: table.Models[m], CostUSD: table.CostUSD[q][m], Verdict: v, Propensity: 1})
			ran = append(ran, m)
		}
		traces = append(traces, trace)
	}
	return traces
}

// A price cut is detected from a dozen calls, and few calls hardly ever cause a false alarm,
// although costs have long tails and a few can be alike by chance.
func TestAssessTellsAPriceCutFromFewCalls(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	// After n outcomes in use and as many in the fit, of which the logarithms are off by
	// a normal deviate and now and then by much more.
	off := func() float64 {
		x := 0.4 * rng.NormFloat64()
		if rng.Float64() < 0.05 {
			x *= 4
		}
		return x
	}
	told := func(n, of int, price float64) (found int) {
		for range of {
			then := &tally{}
			for range n {
				x := off()
				then.add(1, math.Exp(x), x, 0, 1)
			}
			p := &Profile{Models: []Model{{Name: "m"}}, Data: Data{Groups: []string{"g"}}, Usual: []Offset{then.offset(ofCost + "m")}}
			a, err := Assess(p, judgedTraces(n, "g", func() (float64, float64) { return 0.5, 1 }, func(float64, float64) (bool, float64) {
				return rng.Float64() < 0.5, price * math.Exp(off())
			}))
			switch {
			case err == nil:
				found += len(a.Drifts)
			case n >= leastCosts || !errors.Is(err, ErrUnassessed):
				t.Fatal(err)
			}
		}
		return found
	}
	for _, n := range []int{5, 8, 12, 19} {
		if alarms := told(n, 1000, 1); alarms > 22 { // 10 are allowed; chance passes 22 once in 3,000 times
			t.Errorf("%d false alarms in 1000 of %d calls", alarms, n)
		}
	}
	if found := told(12, 200, 1./3); found < 160 {
		t.Errorf("a price cut to a third was told on %d of 200 tables of 12 calls", found)
	}
	if found := told(4, 200, 1./3); found != 0 {
		t.Errorf("of 4 calls something was told on %d of 200", found)
	}
}

// A judge that has become more expensive is detected from a dozen verdicts, whether the strategy buys verdicts or
// gets them all. One whose prices vary as in the fit is not.
func TestAssessTellsADearerJudge(t *testing.T) {
	table := judged(300, 3)
	rng := rand.New(rand.NewPCG(2, 8))
	prices := make([][]float64, len(table.Queries))
	for q := range prices {
		for range table.Models {
			prices[q] = append(prices[q], 0.001*math.Exp(0.3*rng.NormFloat64()))
		}
	}
	table.Signals = map[string][][]float64{"judge" + sdk.SignalCostUSD: prices}
	for _, strategy := range []string{cascade.NameIndex, cascade.NameThreshold} {
		p, err := Fit(t.Context(), table, Options{Strategy: strategy, BudgetUSD: 0.012})
		if err != nil {
			t.Fatal(err)
		}
		for _, times := range []float64{1, 3} {
			var traces []*sdk.Trace
			for q := range 12 {
				traces = append(traces, &sdk.Trace{
					ID: table.Queries[q], Profile: "profile.json",
					Decisions: []sdk.Decision{{Run: "mini", Models: []sdk.Belief{{Model: "mini"}}}},
					Calls:     []sdk.Call{{Model: "mini", Verdict: &sdk.Verdict{Verifier: "judge", Outcome: sdk.Passed, CostUSD: times * prices[q][1]}}},
				})
			}
			a, err := Assess(p, traces)
			if err != nil {
				t.Fatal(err)
			}
			isTold := slices.ContainsFunc(a.Drifts, func(d Drift) bool { return d.Of == "cost of verdicts of judge" && d.Count == 12 })
			if isTold != (times == 3) {
				t.Errorf("%s: at %v times the price, drifts %+v", strategy, times, a.Drifts)
			}
		}
	}
}

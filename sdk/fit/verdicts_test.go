package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// judged returns queries of one hidden ease, what four models do with them, and what a judge
// says of it that errs in a tenth of all cases.
func judged(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 0x7e))
	t := &outcome.Table{Models: []string{"nano", "mini", "mid", "large"}, Verdicts: map[string][][]float64{}}
	for q := range n {
		ease := 1.5 * rng.NormFloat64()
		var quality, cost []float64
		for m := range t.Models {
			right := 0.0
			if rng.Float64() < 1/(1+math.Exp(-ease-0.8*float64(m))) {
				right = 1
			}
			quality, cost = append(quality, right), append(cost, 0.0004*math.Pow(4, float64(m))*(0.5+rng.Float64()))
		}
		t.Queries, t.Quality, t.CostUSD = append(t.Queries, fmt.Sprint(q)), append(t.Quality, quality), append(t.CostUSD, cost)
	}
	t.Verdicts["judge"] = drawVerdicts(t, "independent", seed)
	return t
}

// A fit to what a judge that errs said, and to nothing else, replays it as use does: as evidence,
// at the rates that use goes by. It meets its budget there, and says how good answers are
// rather than how many pass.
func TestVerdictsThatErrAreReplayedAsUseTakesThem(t *testing.T) {
	table := judged(1200, 5)
	train, test := table.Split(0.5, 1)
	verdicts := *train
	verdicts.Quality, verdicts.Verdicts, verdicts.Verified = train.Verdicts["judge"], nil, true
	rates := map[string]cascade.Rates{"judge": {FalsePass: 0.15, FalseReject: 0.05}}
	const budget = 0.006
	p, err := Fit(t.Context(), &verdicts, Options{BudgetUSD: budget, Estimate: estimate.Options{Judges: rates, JudgeOrder: []string{"judge"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Estimator.Judges != nil || len(p.Data.Assumed) != 1 {
		t.Errorf("rates that were assumed pass for learned ones: %v, assumed %v", p.Estimator.Judges, p.Data.Assumed)
	}
	p.Estimator.Judges = rates
	replay, err := p.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := p.NewStrategy(test.Models)
	if err != nil {
		t.Fatal(err)
	}
	used, err := newStage(test, replay).play(t.Context(), []cascade.Strategy{strategy})
	if err != nil {
		t.Fatal(err)
	}
	point := used[0].point(0)
	if math.Abs(point.CostUSD/budget-1) > 0.2 {
		t.Errorf("for a budget of %v a query costs %v in use", budget, point.CostUSD)
	}
	if math.Abs(p.Expected.Quality-point.Quality) > 0.04 {
		t.Errorf("a quality of %v is expected, and %v comes", p.Expected.Quality, point.Quality)
	}
}

// What verdicts cost that are asked of every answer is part of the budget, where it is recorded.
func TestVerdictsArePaidFromTheBudget(t *testing.T) {
	table := judged(400, 6)
	prices := make([][]float64, len(table.Queries))
	for q := range prices {
		prices[q] = []float64{0.002, 0.002, 0.002, 0.002}
	}
	table.Signals = map[string][][]float64{"judge_cost_usd": prices}
	const budget = 0.006
	p, err := Fit(t.Context(), table, Options{BudgetUSD: budget})
	if err != nil {
		t.Fatal(err)
	}
	replay, err := p.Estimator.On(table)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := p.NewStrategy(table.Models)
	if err != nil {
		t.Fatal(err)
	}
	used, err := newStage(table, replay).play(t.Context(), []cascade.Strategy{strategy})
	if err != nil {
		t.Fatal(err)
	}
	answers := used[0].point(0)
	if whole := answers.CostUSD + 0.002*answers.Steps; math.Abs(whole/budget-1) > 0.1 {
		t.Errorf("for a budget of %v a query costs %v with its verdicts, %v without", budget, whole, answers.CostUSD)
	}
}

// A judge that passes more than if all answers were right does not err as it is taken to: its
// verdicts tell nothing of the truth at such rates, and are taken at their word.
func TestVerdictsThatRatesDoNotAllow(t *testing.T) {
	table := judged(400, 7)
	table.Verdicts, table.Verified = nil, true
	for q, row := range table.Quality {
		for m := range row {
			row[m] = 1
			if (q+m)%40 == 0 {
				row[m] = 0
			}
		}
	}
	p, err := Fit(t.Context(), table, Options{BudgetUSD: 0.006, Estimate: estimate.Options{Judges: map[string]cascade.Rates{"judge": {FalsePass: 0.15, FalseReject: 0.05}}, JudgeOrder: []string{"judge"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Data.Assumed != nil || p.Expected.Quality < 0.97 {
		t.Errorf("rates that were assumed: %v; quality %v", p.Data.Assumed, p.Expected.Quality)
	}
}

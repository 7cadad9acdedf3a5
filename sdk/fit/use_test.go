package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// alike returns outcomes of queries that nothing distinguishes.
func alike(n int, right, usd []float64, rng *rand.Rand) *outcome.Table {
	t := &outcome.Table{}
	for m := range right {
		t.Models = append(t.Models, fmt.Sprint("model", m))
	}
	for q := range n {
		quality, cost := make([]float64, len(right)), make([]float64, len(right))
		for m := range right {
			if rng.Float64() < right[m] {
				quality[m] = 1
			}
			cost[m] = usd[m] * math.Exp(0.4*rng.NormFloat64()-0.08)
		}
		t.Queries = append(t.Queries, fmt.Sprint("query", q))
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
	}
	return t
}

// useOf returns the cost and quality of a profile on other queries, with its gamma and with a pacer.
func useOf(t *testing.T, p *Profile, test *outcome.Table, budget float64, rng *rand.Rand) (byCoin, paced Point) {
	t.Helper()
	pacer, err := NewPacer(p.Curve, budget, DefaultPace, 1)
	if err != nil {
		t.Fatal(err)
	}
	settings := []cascade.Setting{p.Strategy, p.Strategy}
	settings[0].Gamma, settings[1].Gamma = 0, 1
	for _, point := range pacer.Points() {
		settings = append(settings, p.Strategy.At(point.Value))
	}
	strategies := make([]cascade.Strategy, len(settings))
	for i := range settings {
		if strategies[i], err = settings[i].Strategy(test.Models); err != nil {
			t.Fatal(err)
		}
	}
	replay, err := p.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	did, err := newStage(test, replay).play(t.Context(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(test.Queries))
	for q := range test.Queries {
		side := &did[0]
		if rng.Float64() < p.Strategy.Gamma {
			side = &did[1]
		}
		byCoin.CostUSD, byCoin.Quality = byCoin.CostUSD+side.cost[q]/n, byCoin.Quality+side.quality[q]/n
		i := pacer.Next()
		row := &did[i+2]
		pacer.Spent("", i, row.cost[q])
		paced.CostUSD, paced.Quality = paced.CostUSD+row.cost[q]/n, paced.Quality+row.quality[q]/n
	}
	return byCoin, paced
}

// If nothing distinguishes queries, the final estimator sends all of them to one model, while the folds'
// estimators differ and split them. The fit accounts for that, so that gamma and a pacer spend the budget
// at the quality of a mixture.
func TestBudgetsHoldWhereNothingTellsQueriesApart(t *testing.T) {
	draws := 4
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		draws = 10
	}
	for name, w := range map[string]struct{ right, usd []float64 }{
		"two models": {[]float64{.6, .8}, []float64{.01, .1}},
		"six models": {[]float64{.5, .55, .6, .68, .74, .8}, []float64{.002, .005, .01, .03, .06, .1}},
	} {
		told, came := 0.0, 0.0
		for seed := range uint64(draws) {
			rng := rand.New(rand.NewPCG(seed, 99))
			train, test := alike(200, w.right, w.usd, rng), alike(2000, w.right, w.usd, rng)
			budget := 0.3*w.usd[len(w.usd)-1] + 0.7*w.usd[0]
			p, err := Fit(t.Context(), train, Options{BudgetUSD: budget, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			byCoin, paced := useOf(t, p, test, budget, rng)
			if math.Abs(paced.CostUSD/budget-1) > 0.05 || math.Abs(byCoin.CostUSD/budget-1) > 0.25 {
				t.Errorf("%s, draw %d: %.4f USD with a pacer and %.4f by the fitted numbers alone, under a budget of %.4f", name, seed, paced.CostUSD, byCoin.CostUSD, budget)
			}
			told, came = told+p.Expected.Quality/float64(draws), came+byCoin.Quality/float64(draws)
		}
		if math.Abs(told-came) > 0.02 {
			t.Errorf("%s: a quality of %.3f is expected and %.3f comes", name, told, came)
		}
	}
}

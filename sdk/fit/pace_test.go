package fit

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// ladder has operating points at 1, 2, 4, 8 and 16 cents; one that is dominated
// must not be chosen.
var ladder = []Point{
	{Value: 5, CostUSD: 0.01, Quality: 0.5},
	{Value: 4, CostUSD: 0.02, Quality: 0.6},
	{Value: 3, CostUSD: 0.03, Quality: 0.55},
	{Value: 2, CostUSD: 0.04, Quality: 0.7},
	{Value: 1, CostUSD: 0.08, Quality: 0.8},
	{Value: 0, CostUSD: 0.16, Quality: 0.9},
}

func newPacer(t *testing.T, budget, over float64) *Pacer {
	t.Helper()
	p, err := NewPacer(ladder, budget, over, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stream sends n queries that cost about factor times the curve's costs.
func stream(p *Pacer, n int, factor float64, rng *rand.Rand) (mean float64) {
	for range n {
		i := p.Next()
		usd := p.Points()[i].CostUSD * factor * rng.ExpFloat64()
		p.Spent("", i, usd)
		mean += usd / float64(n)
	}
	return mean
}

func TestPacerHoldsTheBudget(t *testing.T) {
	for _, factor := range []float64{0.5, 1, 1.5} {
		rng := rand.New(rand.NewPCG(7, 7))
		p := newPacer(t, 0.05, 50)
		if mean := stream(p, 3000, factor, rng); math.Abs(mean/0.05-1) > 0.03 {
			t.Errorf("costs %v times the fitted ones: a mean of %.4f USD under a budget of 0.05", factor, mean)
		}
		if ratio, hasDrifted := p.Drift(); hasDrifted {
			t.Errorf("costs %v times the fitted ones: a drift by %v", factor, ratio)
		}
	}
}

// If models cost twice as much as in the curve, the pacer keeps the budget's operating point:
// answers do not get worse for a budget that no longer fits.
func TestPacerHoldsItsPointWhereCostsDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	p := newPacer(t, 0.05, 50)
	stream(p, 1000, 2, rng)
	if ratio, hasDrifted := p.Drift(); !hasDrifted || ratio < 1.8 {
		t.Errorf("a drift of %v after 1000 queries at twice the cost", ratio)
	}
	if mean := stream(p, 1000, 2, rng); math.Abs(mean/0.1-1) > 0.1 {
		t.Errorf("a mean of %.4f USD, want twice the budget", mean)
	}
	stream(p, 3000, 1, rng)
	if _, hasDrifted := p.Drift(); hasDrifted {
		t.Error("a drift is never over")
	}
}

// Unexpected costs of queries from an unknown group are no drift of the models, and the budget
// holds.
func TestPacerHoldsTheBudgetOfUnknownGroups(t *testing.T) {
	grouped := slices.Clone(ladder)
	for i := range grouped {
		grouped[i].ByGroup = map[string]float64{"easy": grouped[i].CostUSD / 2, "hard": grouped[i].CostUSD * 3 / 2}
	}
	p, err := NewPacer(grouped, 0.05, 50, 1)
	if err != nil {
		t.Fatal(err)
	}
	if mean := stream(p, 3000, 2.5, rand.New(rand.NewPCG(7, 7))); math.Abs(mean/0.05-1) > 0.05 {
		t.Errorf("a mean of %.4f USD under a budget of 0.05", mean)
	}
}

func TestPacerMakesUpForADearHour(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	p := newPacer(t, 0.05, 50)
	dear := stream(p, 100, 3, rng)
	if calm := stream(p, 1000, 1, rng); (100*dear+1000*calm)/1100 > 1.03*0.05 {
		t.Errorf("a mean of %.4f USD in the dear hour and %.4f after it", dear, calm)
	}
}

func TestPacerDoesNotSpendALongSavingAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	p := newPacer(t, 0.05, 50)
	stream(p, 5000, 0.01, rng) // the dearest point costs next to nothing for a while
	if mean := stream(p, 200, 100, rng); mean > 100*0.16 {
		t.Errorf("a mean of %.4f USD", mean)
	}
	// What is left of the saving is bounded: soon the budget holds again.
	if mean := stream(p, 5000, 1, rng); mean > 1.05*0.05 {
		t.Errorf("a mean of %.4f USD afterwards", mean)
	}
}

func TestPacerWithABudgetOutOfReach(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	if mean := stream(newPacer(t, 0.001, 50), 500, 1, rng); math.Abs(mean/0.01-1) > 0.2 {
		t.Errorf("below the cheapest point: a mean of %.4f USD, want that point's", mean)
	}
	if mean := stream(newPacer(t, 5, 50), 500, 1, rng); math.Abs(mean/0.16-1) > 0.2 {
		t.Errorf("above the dearest point: a mean of %.4f USD, want that point's", mean)
	}
}

func TestPacerConcurrently(t *testing.T) {
	p := newPacer(t, 0.05, 50)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				i := p.Next()
				p.Spent("", i, p.Points()[i].CostUSD)
			}
		})
	}
	wg.Wait()
}

func TestNewPacerRefusesWhatMakesNoSense(t *testing.T) {
	for _, c := range []struct{ budget, over float64 }{{0, 50}, {-1, 50}, {math.NaN(), 50}, {math.Inf(1), 50}, {1, 0}, {1, math.NaN()}} {
		if _, err := NewPacer(ladder, c.budget, c.over, 1); err == nil {
			t.Errorf("%v USD over %v queries: no error", c.budget, c.over)
		}
	}
	if _, err := NewPacer(nil, 1, 50, 1); err == nil {
		t.Error("no points: no error")
	}
}

// paced fits an index strategy to one half of a table and spends budgets on the other,
// in several orders; it returns how far the mean costs are off, relative to the budget.
func paced(t *testing.T, table *outcome.Table, seed uint64, over float64) (off []float64) {
	t.Helper()
	train, test := table.Split(0.5, seed)
	p, err := Fit(t.Context(), train, Options{Strategy: cascade.NameIndex})
	if err != nil {
		t.Fatal(err)
	}
	replay, err := p.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	front := frontier(p.Curve)
	strategies := make([]cascade.Strategy, len(front))
	for i, point := range front {
		setting := p.Strategy.At(point.Value)
		if strategies[i], err = setting.Strategy(table.Models); err != nil {
			t.Fatal(err)
		}
	}
	did, err := newStage(test, replay).play(t.Context(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []float64{0.1, 0.3, 0.6} {
		budget := front[0].CostUSD + share*(front[len(front)-1].CostUSD-front[0].CostUSD)
		for order := range uint64(5) {
			pacer, err := NewPacer(p.Curve, budget, over, order)
			if err != nil {
				t.Fatal(err)
			}
			spent := 0.0
			for _, q := range rand.New(rand.NewPCG(order, 1)).Perm(len(test.Queries)) {
				i := pacer.Next()
				spent += did[i].cost[q]
				pacer.Spent(test.Group(q), i, did[i].cost[q])
			}
			off = append(off, spent/float64(len(test.Queries))/budget-1)
		}
	}
	return off
}

// held returns the share of budgets kept within the tolerance.
func held(off []float64) float64 {
	n := 0.0
	for _, x := range off {
		if math.Abs(x) <= Tolerance {
			n++
		}
	}
	return n / float64(len(off))
}

func TestPacedBudgetsHoldOnUnseenQueries(t *testing.T) {
	long(t)
	if off := paced(t, outcometest.Zeroeval(t, "5"), 3, DefaultPace); held(off) < 0.9 {
		t.Errorf("budgets are off by %.3f", off)
	}
}

// TestMeasurePace prints the table of docs/estimators-and-fit.md.
func TestMeasurePace(t *testing.T) {
	if !strings.Contains(flag.Lookup("test.run").Value.String(), "MeasurePace") {
		t.Skip("measures on demand")
	}
	for name, table := range map[string]*outcome.Table{"swebench": outcometest.Swebench(t), "zeroeval 11": outcometest.Zeroeval(t, "11"), "zeroeval 3": outcometest.Zeroeval(t, "3")} {
		for _, over := range []float64{1e9, 100, DefaultPace, 20} {
			var off []float64
			for seed := range uint64(6) {
				off = append(off, paced(t, table, seed, over)...)
			}
			mean := 0.0
			for _, x := range off {
				mean += math.Abs(x) / float64(len(off))
			}
			t.Logf("%s over %v queries: off by %.1f %% on average, within 5 %% in %.0f %%", name, over, 100*mean, 100*held(off))
		}
	}
}

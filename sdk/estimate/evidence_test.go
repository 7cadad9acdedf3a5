package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// judged returns outcomes of two models with a free signal and a judge's score that has a
// price. Both share noise, so the second partly repeats the first.
func judged(n int) *outcome.Table {
	rng := rand.New(rand.NewPCG(8, 9))
	t := &outcome.Table{Models: []string{"small", "large"}, Signals: map[string][][]float64{}}
	for q := range n {
		t.Queries = append(t.Queries, fmt.Sprint(q))
		var quality, free, score, usd []float64
		for m := range t.Models {
			v := float64(0)
			if rng.Float64() < 0.5+0.2*float64(m) {
				v = 1
			}
			shared := rng.NormFloat64()
			quality = append(quality, v)
			free = append(free, v+math.Sqrt(0.5)*(shared+rng.NormFloat64()))
			score = append(score, 1.5*v+math.Sqrt(0.5)*(shared+rng.NormFloat64()))
			usd = append(usd, 0.001*float64(m+1))
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, []float64{0.001, 0.02})
		t.Signals["free"] = append(t.Signals["free"], free)
		t.Signals["judge"] = append(t.Signals["judge"], score)
		t.Signals["judge"+sdk.SignalCostUSD] = append(t.Signals["judge"+sdk.SignalCostUSD], usd)
	}
	return t
}

// A bought signal of two values is a verdict: it updates the estimate by the judge's rates,
// as its look predicts.
func TestAVerdictThatIsBought(t *testing.T) {
	table := judged(1500)
	rng := rand.New(rand.NewPCG(3, 4))
	for q, row := range table.Signals["judge"] {
		for m := range row {
			row[m] = table.Quality[q][m]
			if rng.Float64() < 0.1 {
				row[m] = 1 - row[m]
			}
		}
	}
	delete(table.Signals, "free")
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := e.BoughtJudges()["judge"]; !ok || math.Abs(r.FalsePass-0.1) > 0.03 {
		t.Errorf("judges that are bought: %+v", e.BoughtJudges())
	}
	replay, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	before, after, costs := make([]cascade.Belief, 2), make([]cascade.Belief, 2), make([]float64, 2)
	for q := range 50 {
		x := replay.Start(q)
		x.Believe([]int{0}, before, costs)
		look := before[0].Look
		if !look.Bernoulli || math.Abs(look.Judge.FalsePass-0.1) > 0.03 || math.Abs(look.Judge.FalseReject-0.1) > 0.03 || look.CostUSD != 0.001 {
			t.Fatalf("offered is %+v, want a verdict that errs in a tenth for 0.001", look)
		}
		x.Believe([]int{0, 2}, after, costs)
		_, passed, failed := look.Judge.Look(before[0].Mean)
		want := failed
		if table.Signals["judge"][q][0] == 1 {
			want = passed
		}
		if math.Abs(after[0].Mean-want) > 1e-9 {
			t.Errorf("query %d: believed is %v after the verdict, want %v", q, after[0].Mean, want)
		}
	}
}

// Estimates with and without the score are calibrated, and the change that a look makes is
// as large as predicted.
func TestASignalThatIsBought(t *testing.T) {
	e, err := estimate.Fit(judged(1500), estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	unseen := judged(3000).Rows(between(1500, 3000))
	replay, err := e.On(unseen)
	if err != nil {
		t.Fatal(err)
	}
	beliefs, costs := make([]cascade.Belief, 2), make([]float64, 2)
	var expected, changed, off [2]float64
	var loss [2]float64
	n := float64(len(unseen.Queries))
	for q := range unseen.Queries {
		x := replay.Start(q)
		x.Believe([]int{0}, beliefs, costs)
		before := beliefs[0]
		if before.Look.CostUSD != 0.001 || beliefs[1].Look.CostUSD != 0.002 {
			t.Fatalf("the looks cost %v and %v", before.Look.CostUSD, beliefs[1].Look.CostUSD)
		}
		x.Believe([]int{0, 2}, beliefs, costs)
		after := beliefs[0]
		if after.Look != (cascade.Look{}) || x.LookUSD(2) != 0.001 {
			t.Fatalf("after the look: %+v, which cost %v", after, x.LookUSD(2))
		}
		right := unseen.Quality[q][0]
		for k, p := range []float64{before.Mean, after.Mean} {
			off[k] += (right - p) / n
			loss[k] += (right - p) * (right - p) / n
		}
		expected[0] += before.Look.StdDev * before.Look.StdDev / n
		changed[0] += (after.Mean - before.Mean) * (after.Mean - before.Mean) / n
	}
	if math.Abs(off[0]) > 0.03 || math.Abs(off[1]) > 0.03 {
		t.Errorf("estimates are off by %.3f before the look and %.3f after", off[0], off[1])
	}
	// A calibrated estimate's squared error falls by as much as its variance grows.
	if gain := loss[0] - loss[1]; math.Abs(gain-changed[0]) > 0.01 || gain < 0.03 {
		t.Errorf("the squared error falls from %.4f to %.4f, and the estimate moves by %.4f", loss[0], loss[1], changed[0])
	}
	if r := expected[0] / changed[0]; r < 0.9 || r > 1.1 {
		t.Errorf("a look was said to move the estimate by a variance of %.4f, and moved it by %.4f", expected[0], changed[0])
	}
}

func between(from, to int) []int {
	var list []int
	for q := from; q < to; q++ {
		list = append(list, q)
	}
	return list
}

// A table without prices offers no looks, and other kinds of estimators do not use signals with a price.
func TestWhatHasAPriceIsNotReadForNothing(t *testing.T) {
	table := judged(300)
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLogistic})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range e.Quality.Signals() {
		if name != "free" {
			t.Errorf("logistic reads %s", name)
		}
	}
	delete(table.Signals, "judge"+sdk.SignalCostUSD)
	if e, err = estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent}); err != nil {
		t.Fatal(err)
	}
	replay, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	beliefs, costs := make([]cascade.Belief, 2), make([]float64, 2)
	replay.Start(0).Believe([]int{0}, beliefs, costs)
	if beliefs[0].Look != (cascade.Look{}) || beliefs[1].Look != (cascade.Look{}) {
		t.Errorf("a look is offered at what is free: %+v", beliefs)
	}
}

package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// Promises about new queries hold about as often as stated.
func TestPromiseIsWhatNewQueriesDo(t *testing.T) {
	h := HeldOut{CostUSD: 1, CostStdError: 0.04}
	const queries = 400
	h.promise(0.95, 1.05, queries)
	rng := rand.New(rand.NewPCG(1, 2))
	within := func(n float64) float64 {
		held := 0.0
		const trials = 20000
		for range trials {
			mean := h.CostUSD + h.CostStdError*rng.NormFloat64() + h.CostStdError*math.Sqrt(queries/n)*rng.NormFloat64()
			if mean >= 0.95 && mean <= 1.05 {
				held++
			}
		}
		return held / trials
	}
	if got := within(queries); math.Abs(got-h.Confidence) > 0.015 {
		t.Errorf("confidence %.3f, and it holds in %.3f", h.Confidence, got)
	}
	if h.Promise != PromiseNone || h.From != 0 {
		t.Errorf("promise %q from %d on; not even the mean of endlessly many is known that well", h.Promise, h.From)
	}
	h = HeldOut{CostUSD: 1, CostStdError: 0.025, Paced: 0.97}
	h.promise(0.95, 1.05, queries)
	if h.Promise != PromisePaced || h.From <= queries {
		t.Errorf("promise %q from %d on, confidence %.2f", h.Promise, h.From, h.Confidence)
	}
	if got := within(float64(h.From)); math.Abs(got-level) > 0.015 {
		t.Errorf("from %d on it holds in %.3f", h.From, got)
	}
	h.CostStdError = 0.01
	h.promise(0.95, 1.05, queries)
	if h.Promise != PromiseAlways || h.From > queries {
		t.Errorf("promise %q from %d on, confidence %.2f", h.Promise, h.From, h.Confidence)
	}
}

// A budget holds by itself if costs hardly vary, only with pacing if they vary widely, and
// cannot be promised for few queries whose costs vary widely.
func TestPromiseOfAFit(t *testing.T) {
	long(t)
	for _, c := range []struct {
		queries int
		spread  float64
		want    Promise
	}{{500, 0, PromiseAlways}, {500, 0.6, PromisePaced}, {30, 2, PromiseNone}} {
		table := drawn(c.queries, 3, 6)
		rng := rand.New(rand.NewPCG(7, 7))
		for _, row := range table.CostUSD {
			// One cost for all models and queries, but for the spread.
			factor := math.Exp(c.spread * rng.NormFloat64())
			for m := range row {
				row[m] = 0.001 * factor * float64(1+m) / 2
			}
		}
		p, err := Fit(context.Background(), table, Options{Strategy: cascade.NameRoute, BudgetUSD: 0.7 * table.MeanCosts()[2]})
		if err != nil {
			t.Fatal(err)
		}
		if p.HeldOut.Promise != c.want {
			t.Errorf("%d queries, spread %v: %+v, want %s", c.queries, c.spread, p.HeldOut, c.want)
		}
	}
}

// Where qualities are coin flips, no choice does better on unseen queries than their mean, and what is said to be held out
// does not either.
func TestHeldOutQualityHasNoHindsight(t *testing.T) {
	long(t)
	const tables = 100
	gain := make([]float64, tables)
	for k := range gain {
		table := drawn(60, 3, uint64(k))
		rng := rand.New(rand.NewPCG(uint64(k), 77))
		for q, row := range table.Quality {
			for m := range row {
				row[m], table.CostUSD[q][m] = float64(rng.IntN(2)), 0.001*float64(m+1)*(0.8+0.4*rng.Float64())
			}
		}
		p, err := Fit(context.Background(), table, Options{BudgetUSD: 0.003, Seed: uint64(k)})
		if err != nil {
			t.Fatal(err)
		}
		gain[k] = p.HeldOut.Quality - average(table.MeanQualities())
	}
	if got := average(gain); math.Abs(got) > 0.02 { // its standard error is 0.006
		t.Errorf("on unseen queries %.4f better than chance", got)
	}
}

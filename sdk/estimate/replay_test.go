package estimate_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The beliefs of a reading do not depend on earlier requests, to the last bit, and Means
// equals the means of Believe.
func TestAReadingStartsAnew(t *testing.T) {
	verified := madeUp(60)
	verified.Verified = true
	samples := madeUp(60)
	samples.Models = []string{"small", "small#2", "large"}
	tables := map[string]*outcome.Table{
		"answers": madeUp(60), "verified": verified, "evidence": judged(60), "samples": samples, "words": worded(60, 1),
		"signals": estimate.Simulate(madeUp(60), estimate.NoiseLevels()["low"], 1), "signals of samples": estimate.Simulate(samples, estimate.NoiseLevels()["low"], 1),
	}
	for name, table := range tables {
		_, replay, _, err := estimate.FitFolds(table, 3, estimate.Options{Quality: estimate.KindLatent})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		n := len(table.Models)
		got, means, want := make([]cascade.Belief, n), make([]cascade.Belief, n), make([]cascade.Belief, n)
		costs, wantCosts := make([]float64, n), make([]float64, n)
		for q := range 10 {
			again, meaner := replay.Start(q), replay.Start(q)
			for range 8 {
				ran := rng.Perm(n)[:rng.IntN(n+1)]
				again.Believe(ran, got, costs)
				meaner.Means(ran, means)
				replay.Start(q).Believe(ran, want, wantCosts)
				if !slices.Equal(got, want) || !slices.Equal(costs, wantCosts) {
					t.Fatalf("%s, query %d after %v: %v at %v, anew %v at %v", name, q, ran, got, costs, want, wantCosts)
				}
				for i := range want {
					if means[i].Mean != want[i].Mean {
						t.Fatalf("%s, query %d after %v: mean %v of model %d, belief %v", name, q, ran, means[i].Mean, i, want[i])
					}
				}
			}
		}
	}
}

// After an uncertain pass, the beliefs about other models are no longer Bernoulli; after a rejection they
// still are.
func TestAPassThatIsNotCertain(t *testing.T) {
	table := rows([]float64{1, 1}, []float64{0, 1}, []float64{0.9, 1}, []float64{0.5, 1}, []float64{0.4, 1})
	table.Verified = true
	e := fitted(t, table, estimate.Options{Quality: estimate.KindMean, Cost: estimate.KindCostMean})
	for q, want := range []cascade.Belief{{Mean: 1, Bernoulli: true}, {Mean: 1, Bernoulli: true}, {Mean: 0.9}, {Mean: 0.5}, {Mean: 1, Bernoulli: true}} {
		if b, _ := believe(t, e, table, q, 0); b[1] != want {
			t.Errorf("after a verdict of %v: %+v, want %+v", table.Quality[q][0], b[1], want)
		}
	}
}

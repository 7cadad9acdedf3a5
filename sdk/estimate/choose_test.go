package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// withPerplexity adds a signal that distinguishes right answers from wrong ones.
func withPerplexity(t *outcome.Table) *outcome.Table {
	rng := rand.New(rand.NewPCG(5, 5))
	signal := make([][]float64, len(t.Queries))
	for q, row := range t.Quality {
		signal[q] = make([]float64, len(row))
		for m, v := range row {
			signal[q][m] = 2*v + rng.NormFloat64()
		}
	}
	t.Signals = map[string][][]float64{"mean_log_prob": signal}
	return t
}

// partial returns outcomes with correlated qualities between 0 and 1, and signals of them.
func partial(n int) *outcome.Table {
	rng := rand.New(rand.NewPCG(6, 6))
	t := &outcome.Table{Models: []string{"a", "b", "c"}}
	for q := range n {
		ease := rng.NormFloat64()
		var quality, cost, ante, post []float64
		for m := range 3 {
			v := min(max(0.4+0.1*float64(m)+0.15*ease+0.05*rng.NormFloat64(), 0), 1)
			quality, cost = append(quality, v), append(cost, math.Pow(3, float64(m)))
			ante, post = append(ante, v+0.3*rng.NormFloat64()), append(post, v+0.1*rng.NormFloat64())
		}
		t.Queries = append(t.Queries, fmt.Sprint(q))
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.Ante, t.Post = append(t.Ante, ante), append(t.Post, post)
	}
	return t
}

// withBought adds a judge whose verdicts have a price.
func withBought(t *outcome.Table) *outcome.Table {
	t.Signals = map[string][][]float64{"judge": t.Quality, "judge_cost_usd": t.CostUSD}
	return t
}

func TestTheKindThatTellsMostIsChosen(t *testing.T) {
	verified := madeUp(200)
	verified.Verified = true
	for _, c := range []struct {
		name  string
		table *outcome.Table
		want  string
	}{
		{"answers to compare", madeUp(300), estimate.KindLatent},
		{"verdicts", verified, estimate.KindLatent},
		{"signals of log-probabilities", withPerplexity(crowd(3, 400, 1)), estimate.KindLatent},
		{"qualities between 0 and 1", partial(400), estimate.KindGaussian},
		{"verdicts to buy", withBought(partial(400)), estimate.KindLatent},
		{"few outcomes", withPerplexity(crowd(3, 30, 1)), estimate.KindLatent},
	} {
		e := fitted(t, c.table, estimate.Options{Seed: 1})
		if got := e.Quality.Kind(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFoldsAreOfOneKind(t *testing.T) {
	table := withPerplexity(crowd(3, 120, 3))
	if _, _, _, err := estimate.FitFolds(table, 4, estimate.Options{}); err != nil {
		t.Fatal(err)
	}
}

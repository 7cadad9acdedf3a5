package estimate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Resolve returns o with the kinds that it leaves open. The cost estimator is
// KindCostLatent. The quality estimator is KindLatent, unless another kind that suits
// the table predicts the outcomes of held-out queries better by more than chance: the
// regressions use signals that KindLatent does not, and KindGaussian suits qualities
// between 0 and 1. Only KindLatent treats verdicts as evidence and buys signals, so for a
// table with either there are no rivals. Fit calls Resolve itself; call it first to give
// several estimators the same kind.
func (o Options) Resolve(t *outcome.Table) Options {
	o.Cost = cmp.Or(o.Cost, KindCostLatent)
	if o.Quality != "" {
		return o
	}
	o.Quality = KindLatent
	if _, bought := signalNames(t); len(t.Verdicts) > 0 || len(bought) > 0 {
		return o // only KindLatent uses verdicts as evidence and buys signals
	}
	rivals := rivals(t)
	if len(rivals) == 0 || len(t.Queries) < chooseLeast {
		return o
	}
	losses := make([][]float64, len(rivals)+1)
	var wait sync.WaitGroup
	for i, kind := range append([]string{KindLatent}, rivals...) {
		wait.Go(func() {
			rival := o
			rival.Quality = kind
			losses[i] = unseenLoss(t, rival)
		})
	}
	wait.Wait()
	best := 0.0
	for i, kind := range rivals {
		if losses[0] == nil || losses[i+1] == nil {
			continue
		}
		var gain moments
		for q, loss := range losses[i+1] {
			gain.add(losses[0][q] - loss)
		}
		if m := gain.mean - 2*gain.stdDev()/math.Sqrt(max(gain.n, 1)); m > 0 && gain.mean > best {
			o.Quality, best = kind, gain.mean
		}
	}
	return o
}

// chooseLeast is the number of queries from which halves of a table can distinguish
// kinds; chooseQueries is how many are evaluated.
const (
	chooseLeast   = 60
	chooseQueries = 250
)

// rivals returns the kinds that can be better than KindLatent for a table.
func rivals(t *outcome.Table) []string {
	var kinds []string
	if t.Signals != nil {
		kinds = append(kinds, KindLogistic)
	}
	if t.Ante != nil || t.Post != nil || !rightOrWrong(t.Quality) {
		kinds = append(kinds, KindGaussian)
	}
	return kinds
}

func rightOrWrong(quality [][]float64) bool {
	for _, row := range quality {
		if slices.ContainsFunc(row, func(v float64) bool { return v != 0 && v != 1 && !math.IsNaN(v) }) {
			return false
		}
	}
	return true
}

// unseenLoss fits a kind to half of a table and returns the mean log loss on each query
// of the other half, over all models and over none, one and two models run.
func unseenLoss(t *outcome.Table, o Options) []float64 {
	learnt, unseen := t.SplitRows(0.5, o.Seed)
	fitted, err := Fit(t.Rows(learnt), o)
	if err != nil {
		return nil
	}
	replay, err := fitted.On(t)
	if err != nil {
		return nil
	}
	n := len(t.Models)
	beliefs, costs := make([]cascade.Belief, n), make([]float64, n)
	rng := rand.New(rand.NewPCG(o.Seed, 0xc400))
	every := max(1, len(unseen)/chooseQueries)
	var losses []float64
	for i := 0; i < len(unseen); i += every {
		q := unseen[i]
		var loss moments
		x, order := replay.Start(q), rng.Perm(n)
		order = slices.DeleteFunc(order, func(m int) bool { return math.IsNaN(t.Quality[q][m]) })
		for ran := range min(3, len(order)+1) {
			x.Believe(order[:ran], beliefs, costs)
			for m, b := range beliefs {
				p, v := min(max(b.Mean, leastChance), 1-leastChance), t.Quality[q][m]
				loss.add(-v*math.Log(p) - (1-v)*math.Log(1-p))
			}
		}
		losses = append(losses, loss.mean)
	}
	return losses
}

// leastChance bounds the loss of certain but wrong estimates.
const leastChance = 0.005

package estimate

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// gainScale corrects the predictive deviations of models that have not run. A
// strategy treats models as independent, and so overstates the gain of further ones if
// their errors are correlated. With the scale, the expected maximum over several models
// is on average their actual maximum after they have run; then the scale is raised by
// optionValue. Nil leaves deviations unchanged.
type gainScale struct {
	// First applies before any model has run, and Later afterwards.
	First float64 `json:"first"`
	Later float64 `json:"later"`
}

// at returns the factor if a model has run, or if none has.
func (s *gainScale) at(ran bool) float64 {
	switch {
	case s == nil:
		return 1
	case ran:
		return s.Later
	}
	return s.First
}

// gainRounds is the number of rounds of draws for each query, gainSets the maximum number
// of sets of models drawn per round, and leastGainScale the least scale. Fewer draws would
// leave the scale, and with it the number of models that run, to chance. All tables use the
// same seed, so that two fits to nearly the same outcomes do not differ by their draws.
const (
	gainSeed       = 0x9a15
	gainRounds     = 4
	gainSets       = 3
	leastGainScale = 0.05
)

// optionValue returns the value of adaptive choice relative to the gain over a fixed set
// of models. A strategy sees one answer at a time and can stop, which the maximum of a
// fixed set does not count; but the more models it chooses among, the more often it picks
// overestimated ones.
func optionValue(models int) float64 { return 1 + 4/float64(models) }

// gainGrid has the scales to try.
var gainGrid = [...]float64{leastGainScale, 0.1, 0.2, 0.3, 0.4, 0.55, 0.75, 1}

// gains holds sums over draws of the gain over the model that was best before: the
// expected gain, by scale, and the actual one. The latter is relative to the same
// model's estimate afterwards, whose expectation is its estimate before, since that has
// far less noise than the maximum itself.
type gains struct {
	expected [len(gainGrid)]float64
	actual   float64
	n        float64
}

func (g *gains) add(o *gains) {
	for k, v := range o.expected {
		g.expected[k] += v
	}
	g.actual += o.actual
	g.n += o.n
}

// scale returns the scale at which the expected gain is the actual one, by linear
// interpolation in gainGrid.
func (g *gains) scale() float64 {
	if g.n == 0 || g.actual >= g.expected[len(gainGrid)-1] {
		return 1
	}
	if g.actual <= g.expected[0] {
		return leastGainScale
	}
	k := 1
	for g.expected[k] < g.actual {
		k++
	}
	share := (g.actual - g.expected[k-1]) / (g.expected[k] - g.expected[k-1])
	return gainGrid[k-1] + share*(gainGrid[k]-gainGrid[k-1])
}

type gainEstimator interface {
	Quality
	setGain(s *gainScale)
	// looks reports whether there are deviations to correct: answers have signals
	// other than verdicts.
	looks() bool
}

// ownGain fits the scale of an estimator to the table that it was fitted to.
func (e *Estimator) ownGain(t *outcome.Table) error {
	g, ok := e.Quality.(gainEstimator)
	if !ok || !g.looks() {
		return nil
	}
	replay, err := e.On(t)
	if r, ok := e.Quality.(*regression); ok && err == nil {
		replay, err = r.onHalves(t, e.Cost)
	}
	if err != nil {
		return err
	}
	g.setGain(fitGainScale(replay))
	return nil
}

// fitGainScale fits the scale to a replay of estimators whose deviations are not
// scaled yet. There is one scale for all groups, since the few queries of a group
// cannot show so small a difference.
func fitGainScale(r *Replay) *gainScale {
	n, queries := len(r.table.Models), len(r.table.Queries)
	if n < 2 {
		return &gainScale{First: 1, Later: 1}
	}
	workers := runtime.GOMAXPROCS(0)
	parts := make([][2]gains, queries)
	var wait sync.WaitGroup
	for first := range workers {
		wait.Go(func() {
			f := &gainFit{make([]cascade.Belief, n), make([]cascade.Belief, n), make([]cascade.Belief, n), make([]float64, n)}
			for q := first; q < queries; q += workers {
				f.query(r.Start(q), rand.New(rand.NewPCG(gainSeed, uint64(q))), n, &parts[q])
			}
		})
	}
	wait.Wait()
	var first, later gains
	for q := range parts {
		first.add(&parts[q][0])
		later.add(&parts[q][1])
	}
	return &gainScale{
		First: min(1, optionValue(n)*first.scale()),
		Later: min(1, optionValue(n)*later.scale()),
	}
}

// query draws sets from one query: up to three models if none has run, and up to two
// if one or two have. The sets of a round are disjoint, so that models are drawn evenly.
func (f *gainFit) query(x *reading, rng *rand.Rand, n int, into *[2]gains) {
	x.Believe(nil, f.start, f.costs)
	size := min(3, n)
	for range gainRounds {
		order := rng.Perm(n)
		for at := 0; at+size <= min(n, gainSets*size); at += size {
			set := order[at : at+size]
			ran := 1
			if size > 2 {
				ran += rng.IntN(2)
			}
			x.Believe(set[:ran], f.before, f.costs)
			x.Means(set, f.after)
			f.draw(f.start, set, 0, &into[0])
			f.draw(f.before, set, ran, &into[1])
		}
	}
}

type gainFit struct {
	start, before, after []cascade.Belief
	costs                []float64
}

// draw compares the expected gain of a set of models, of which the first ran have run,
// with the actual gain once all have.
func (f *gainFit) draw(before []cascade.Belief, all []int, ran int, into *gains) {
	top := all[0]
	for _, m := range all {
		if before[m].Mean > before[top].Mean {
			top = m
		}
	}
	for k, scale := range gainGrid {
		best := normal{mean: math.Inf(-1)}
		for i, m := range all {
			next := normal{mean: before[m].Mean}
			if i >= ran {
				next.dev = scale * before[m].StdDev
			}
			best = best.max(next)
		}
		into.expected[k] += best.mean - before[top].Mean
	}
	best := 0.0
	for _, m := range all {
		best = max(best, f.after[m].Mean)
	}
	into.actual += best - f.after[top].Mean
	into.n++
}

type normal struct{ mean, dev float64 }

// max returns the mean and deviation of the maximum of two independent normals (Clark
// 1961). Treating the result as normal in the maximum with a third one causes an error
// of a few hundredths of the greatest deviation.
func (a normal) max(b normal) normal {
	dev := math.Hypot(a.dev, b.dev)
	if dev == 0 || math.IsInf(a.mean, -1) {
		if a.mean > b.mean {
			return a
		}
		return b
	}
	z := (a.mean - b.mean) / dev
	share, density := math.Erfc(-z/math.Sqrt2)/2, normalDensity(z)
	mean := a.mean*share + b.mean*(1-share) + dev*density
	second := (a.mean*a.mean+a.dev*a.dev)*share + (b.mean*b.mean+b.dev*b.dev)*(1-share) + (a.mean+b.mean)*dev*density
	return normal{mean, math.Sqrt(max(0, second-mean*mean))}
}

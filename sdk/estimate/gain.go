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
// strategy takes models as independent, and so overstates what further ones add when
// they err together: at the scale, the expected maximum over several models is on
// average what they come to when they have run; then it is raised by optionValue.
// Nil leaves deviations alone.
type gainScale struct {
	// First is for when nothing has run, Later for when something has.
	First float64 `json:"first"`
	Later float64 `json:"later"`
}

// at is the factor when something has run, or nothing.
func (s *gainScale) at(ran bool) float64 {
	switch {
	case s == nil:
		return 1
	case ran:
		return s.Later
	}
	return s.First
}

// gainRounds is how many rounds of draws are made of each query, gainSets how many sets
// of models one draws at most, and leastGainScale keeps some hope of an estimate that
// hardly moves. Fewer draws leave the scale, and with it the number of models that are
// run, to chance; and all tables get the same ones, so that two fits to nearly the same
// outcomes do not differ for their sake.
const (
	gainSeed       = 0x9a15
	gainRounds     = 4
	gainSets       = 3
	leastGainScale = 0.05
)

// optionValue is what looking is worth against the gain over a few models alone. A
// strategy looks at one answer at a time and may stop, which the maximum of a fixed
// set does not count; but the more models it chooses among, the more it also picks
// those of which too much is hoped.
func optionValue(models int) float64 { return 1 + 4/float64(models) }

// gainGrid are the scales that are tried.
var gainGrid = [...]float64{leastGainScale, 0.1, 0.2, 0.3, 0.4, 0.55, 0.75, 1}

// gains are sums over draws of what is gained over the model that was best before:
// expected, by scale, and what came. The difference to that same model's own
// estimate afterwards, whose expectation is its estimate before, has far less noise
// than the maximum.
type gains struct {
	expected [len(gainGrid)]float64
	came     float64
	n        float64
}

func (g *gains) add(o *gains) {
	for k, v := range o.expected {
		g.expected[k] += v
	}
	g.came += o.came
	g.n += o.n
}

// scale is where the expected maximum is what came, linear between those tried.
func (g *gains) scale() float64 {
	if g.n == 0 || g.came >= g.expected[len(gainGrid)-1] {
		return 1
	}
	if g.came <= g.expected[0] {
		return leastGainScale
	}
	k := 1
	for g.expected[k] < g.came {
		k++
	}
	share := (g.came - g.expected[k-1]) / (g.expected[k] - g.expected[k-1])
	return gainGrid[k-1] + share*(gainGrid[k]-gainGrid[k-1])
}

// gainEstimator is an estimator whose deviations a gainScale corrects.
type gainEstimator interface {
	Quality
	// setGain sets the scale.
	setGain(s *gainScale)
	// looks reports whether there are deviations to correct: something that is no
	// verdict is seen of an answer.
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
// scaled yet. There is one scale for all groups: what few queries of a group show of
// so small a difference is chance.
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
			f := newGainFit(n)
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

// query draws from one query: up to three models when nothing has run, and up to two
// when one or two have. The sets of a round do not overlap, so that every model has its
// turn.
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

// gainFit is scratch for draws.
type gainFit struct {
	start, before, after []cascade.Belief
	costs                []float64
}

func newGainFit(n int) *gainFit {
	return &gainFit{make([]cascade.Belief, n), make([]cascade.Belief, n), make([]cascade.Belief, n), make([]float64, n)}
}

// draw compares what is expected of some models when the first of them have run with
// what has come when all have.
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
	into.came += best - f.after[top].Mean
	into.n++
}

type normal struct{ mean, dev float64 }

// max returns the mean and deviation of the greater of two independent normals (Clark
// 1961). Taking that for a normal when a third one comes in errs by a few hundredths of
// the greatest deviation.
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

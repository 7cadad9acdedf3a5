package estimate

import (
	"math/rand/v2"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// gainScale corrects the predictive deviations of models that have not run. A
// strategy takes models as independent, and so overstates what further ones add when
// they err together: at the scale, the expected maximum over several models is on
// average what they come to when they have run; then it is raised by optionValue.
// Nil leaves deviations alone.
type gainScale struct {
	// First is for when nothing has run, Later for when something has, each by
	// group (the last: all).
	First []float64 `json:"first"`
	Later []float64 `json:"later"`
}

// at is the factor for a group.
func (s *gainScale) at(group int, ran bool) float64 {
	switch {
	case s == nil:
		return 1
	case ran:
		return s.Later[group]
	}
	return s.First[group]
}

func (s *gainScale) fits(groups int) bool {
	return s == nil || len(s.First) == groups && len(s.Later) == groups
}

// Sizes of the sample on which the scale is fitted: queries, and of each some draws
// of models that have run and of models that are added.
const (
	gainQueries = 300
	gainDraws   = 2
	// gainWeight is how many draws of the whole count as much as those of a group.
	gainWeight = 50
	// leastGainScale keeps some hope of an estimate that hardly moves.
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

func (g *gains) add(o *gains, weight float64) {
	for k, v := range o.expected {
		g.expected[k] += weight * v
	}
	g.came += weight * o.came
	g.n += weight * o.n
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

// fitGainScale fits the scale to a replay of estimators whose deviations are not
// scaled yet.
func fitGainScale(r *Replay, group []int, groups int, seed uint64) *gainScale {
	n, queries := len(r.table.Models), len(r.table.Queries)
	rng := rand.New(rand.NewPCG(seed, 0x9a15))
	all := make([][2]gains, groups)
	f := gainFit{beliefs: make([]cascade.Belief, n), costs: make([]float64, n)}
	every := max(1, queries/gainQueries)
	for q := 0; q < queries && n > 1; q += every {
		x := r.Start(q)
		for range gainDraws {
			order := rng.Perm(n)
			added := 2 + rng.IntN(2)
			f.draw(x, order[:0], order[:min(added, n)], &all[group[q]][0])
			ran := 1 + rng.IntN(min(2, n-1))
			added = 1 + rng.IntN(2)
			f.draw(x, order[:ran], order[:min(ran+added, n)], &all[group[q]][1])
		}
	}
	s := &gainScale{}
	for _, list := range []*[]float64{&s.First, &s.Later} {
		later := list == &s.Later
		pick := func(g int) *gains {
			if later {
				return &all[g][1]
			}
			return &all[g][0]
		}
		var whole gains
		for g := range all {
			whole.add(pick(g), 1)
		}
		for g := range all {
			one := *pick(g)
			one.add(&whole, gainWeight/max(whole.n, 1))
			*list = append(*list, min(1, optionValue(n)*one.scale()))
		}
	}
	return s
}

// gainFit is scratch for draws.
type gainFit struct {
	beliefs, chosen []cascade.Belief
	costs           []float64
}

// draw compares what is expected of some models when the first of them have run with
// what comes when all have.
func (f *gainFit) draw(x *Reading, ran, all []int, into *gains) {
	x.Believe(ran, f.beliefs, f.costs)
	f.chosen = f.chosen[:0]
	top := all[0]
	for _, m := range all {
		b := f.beliefs[m]
		if b.Mean > f.beliefs[top].Mean {
			top = m
		}
		b.Bernoulli = false
		f.chosen = append(f.chosen, b)
	}
	before := f.beliefs[top].Mean
	scaled := slices.Clone(f.chosen)
	for k, scale := range gainGrid {
		for i := range scaled {
			scaled[i].StdDev = scale * f.chosen[i].StdDev
			if i < len(ran) {
				scaled[i].StdDev = 0
			}
		}
		into.expected[k] += cascade.ExpectedMax(scaled) - before
	}
	x.Believe(all, f.beliefs, f.costs)
	best := 0.0
	for _, m := range all {
		best = max(best, f.beliefs[m].Mean)
	}
	into.came += best - f.beliefs[top].Mean
	into.n++
}

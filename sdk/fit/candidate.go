package fit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// candidate is a strategy with everything fixed but its lambda or threshold.
type candidate struct {
	params cascade.Params
	base   cascade.Tunable
	values []float64
	// results has what it did at each value, on the validation rows.
	results []replayed
}

// scales are the uncertainty scales that are tried, from the paper's to none.
func scales() []float64 { return []float64{1, 0.7, 0.5, 0.35, 0.25, 0.15, 0} }

// candidates returns what is to be tried for a strategy.
// Fixed holds the parameters that are not fitted.
func candidates(name string, fixed cascade.Params, t *outcome.Table, values int) ([]*candidate, error) {
	var params []cascade.Params
	switch name {
	case cascade.NameRoute, cascade.NameCascadeRouteNoExpect:
		params = []cascade.Params{fixed}
	case cascade.NameThreshold:
		for _, order := range orders(fixed, t) {
			deepest := len(order)
			if fixed.MaxDepth > 0 {
				deepest = min(deepest, fixed.MaxDepth)
			}
			for depth := 1; depth <= deepest; depth++ {
				p := fixed
				p.Order, p.MaxDepth = order, depth
				params = append(params, p)
			}
		}
	case cascade.NameCascade:
		for _, order := range orders(fixed, t) {
			for _, scale := range scales() {
				p := scaled(fixed, scale)
				p.Order = order
				params = append(params, p)
			}
		}
	default:
		for _, scale := range scales() {
			params = append(params, scaled(fixed, scale))
		}
		// One model a query and two: where answers tell little about themselves,
		// going on is not worth it.
		for _, depth := range []int{1, 2} {
			if fixed.MaxDepth == 0 || depth < fixed.MaxDepth {
				p := scaled(fixed, []float64{0, 1}[depth-1])
				p.MaxDepth = depth
				params = append(params, p)
			}
		}
	}
	out := make([]*candidate, len(params))
	for i, p := range params {
		var err error
		if out[i], err = newCandidate(name, p, startValues(name, t, values)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newCandidate(name string, p cascade.Params, values []float64) (*candidate, error) {
	s, err := cascade.New(name, p)
	if err != nil {
		return nil, err
	}
	base, ok := s.(cascade.Tunable)
	if !ok {
		return nil, fmt.Errorf("strategy %s has nothing to fit", name)
	}
	return &candidate{params: p, base: base, values: values}, nil
}

func scaled(p cascade.Params, scale float64) cascade.Params {
	p.Scale, p.NoExpect = scale, scale == 0
	return p
}

// orders returns the orders of a fixed cascade that are tried: all models by cost,
// and those on the Pareto front by cost; or the one that is given.
func orders(fixed cascade.Params, t *outcome.Table) [][]int {
	if fixed.Order != nil {
		return [][]int{fixed.Order}
	}
	costs, qualities := t.MeanCosts(), t.MeanQualities()
	all := make([]int, len(costs))
	for i := range all {
		all[i] = i
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	var front []int
	for _, i := range all {
		if len(front) == 0 || qualities[i] > qualities[front[len(front)-1]] {
			front = append(front, i)
		}
	}
	if len(front) == len(all) {
		return [][]int{all}
	}
	return [][]int{front, all}
}

// startValues returns lambdas from where cost hardly counts to where quality hardly
// does, at equal ratios after a zero; thresholds at equal steps.
func startValues(name string, t *outcome.Table, n int) []float64 {
	out := make([]float64, 0, n)
	if name == cascade.NameThreshold {
		for i := range n {
			out = append(out, 1.001*float64(i)/float64(n-1))
		}
		return out
	}
	costs := t.MeanCosts()
	high := slices.Max(costs)
	low := slices.Min(costs)
	if low <= 0 {
		low = high / 1e4
	}
	if high <= 0 {
		return []float64{0}
	}
	from, to := 1e-3/high, 20/low
	out = append(out, 0)
	for i := range n - 1 {
		out = append(out, from*math.Pow(to/from, float64(i)/float64(n-2)))
	}
	return out
}

// tuned returns the candidate's strategy at each value, ties to the cheapest.
func (c *candidate) tuned(values []float64) ([]cascade.Strategy, error) {
	out := make([]cascade.Strategy, len(values))
	for i, v := range values {
		s, err := c.base.Tune([]float64{v}, 1)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// sweep replays all candidates at their values in one pass over the queries, keeps
// the most promising ones, and replays those once more at values between which
// their points lie furthest apart. It returns the ones that it kept.
func sweep(ctx context.Context, t *outcome.Table, r *estimate.Replay, list []*candidate, budget float64, keep, refine int) ([]*candidate, error) {
	pending := make([][]float64, len(list))
	for i, c := range list {
		pending[i], c.values = c.values, nil
	}
	if err := extend(ctx, t, r, list, pending); err != nil {
		return nil, err
	}
	merits := make(map[*candidate]float64, len(list))
	for _, c := range list {
		merits[c] = merit(t, c.points(), budget)
	}
	kept := slices.Clone(list)
	slices.SortStableFunc(kept, func(a, b *candidate) int { return cmp.Compare(merits[b], merits[a]) })
	kept = kept[:min(keep, len(kept))]
	for range refineRounds {
		pending = pending[:0]
		for _, c := range kept {
			pending = append(pending, c.gaps(refine))
		}
		if err := extend(ctx, t, r, kept, pending); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// refineRounds is how often a sweep looks for gaps.
const refineRounds = 2

// extend replays each candidate at further values, all in one pass.
func extend(ctx context.Context, t *outcome.Table, r *estimate.Replay, list []*candidate, values [][]float64) error {
	var all []cascade.Strategy
	for i, c := range list {
		strategies, err := c.tuned(values[i])
		if err != nil {
			return err
		}
		all = append(all, strategies...)
	}
	if len(all) == 0 {
		return nil
	}
	results, err := play(ctx, t, r, all)
	if err != nil {
		return err
	}
	for i, c := range list {
		n := len(values[i])
		c.merge(values[i], results[:n])
		results = results[n:]
	}
	return nil
}

// merge adds results at further values, keeping the values sorted.
func (c *candidate) merge(values []float64, results []replayed) {
	for i, v := range values {
		at, _ := slices.BinarySearch(c.values, v)
		c.values = slices.Insert(c.values, at, v)
		c.results = slices.Insert(c.results, at, results[i])
	}
}

// gaps returns values in the n widest gaps between neighbouring points.
func (c *candidate) gaps(n int) []float64 {
	type gap struct{ width, value float64 }
	var gaps []gap
	points := c.points()
	top := 0.0
	for _, p := range points {
		top = max(top, p.CostUSD)
	}
	for i := range len(points) - 1 {
		a, b := points[i], points[i+1]
		width := math.Abs(a.Quality-b.Quality) + math.Abs(a.CostUSD-b.CostUSD)/top
		if a.CostUSD > 0 && b.CostUSD > 0 {
			width += 0.2 * math.Abs(math.Log(a.CostUSD/b.CostUSD))
		}
		if !(width > 1e-3) {
			continue
		}
		middle := (a.Value + b.Value) / 2
		if a.Value > 0 {
			middle = math.Sqrt(a.Value * b.Value)
		}
		gaps = append(gaps, gap{width, middle})
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { return cmp.Compare(b.width, a.width) })
	var out []float64
	for _, g := range gaps[:min(n, len(gaps))] {
		out = append(out, g.value)
	}
	return out
}

// points returns the operating points in the order of the values.
func (c *candidate) points() []Point {
	out := make([]Point, len(c.values))
	for i := range out {
		out[i] = c.results[i].point(c.values[i])
	}
	return out
}

// pointsOn is points on some of the queries only.
func (c *candidate) pointsOn(queries []int) []Point {
	out := make([]Point, len(c.values))
	for i := range out {
		r := &c.results[i]
		out[i] = Point{Value: c.values[i], Steps: r.steps}
		for _, q := range queries {
			out[i].CostUSD += r.cost[q] / float64(len(queries))
			out[i].Quality += r.quality[q] / float64(len(queries))
		}
	}
	return out
}

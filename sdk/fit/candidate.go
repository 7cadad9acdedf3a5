package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// candidate is a strategy with all parameters fixed except its lambda or threshold.
type candidate struct {
	params cascade.Params
	base   cascade.Tunable
	// values are the lambdas or thresholds at which it was replayed, in order, and results the results.
	values  []float64
	results []replayRow
	// isDefault says that the deviations are the estimators' own (scale 1) and the depth is not limited.
	isDefault bool
}

// scales returns the uncertainty scales to try, from the paper's (1) to no uncertainty.
func scales() []float64 { return []float64{1, 0.7, 0.5, 0.35, 0.25, 0.15, 0} }

// candidates returns the candidates of a strategy. fixed holds the parameters that are not fitted.
func candidates(name string, fixed cascade.Params, t *outcome.Table) ([]*candidate, error) {
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
				p := withScale(fixed, scale)
				p.Order = order
				params = append(params, p)
			}
		}
	default:
		for _, scale := range scales() {
			params = append(params, withScale(fixed, scale))
		}
		// One model per query, and two: if post-hoc estimates are poor, more are not worth it.
		for _, depth := range []int{1, 2} {
			if fixed.MaxDepth == 0 || depth < fixed.MaxDepth {
				p := withScale(fixed, []float64{0, 1}[depth-1])
				p.MaxDepth = depth
				params = append(params, p)
			}
		}
	}
	out := make([]*candidate, len(params))
	for i, p := range params {
		var err error
		if out[i], err = newCandidate(name, p); err != nil {
			return nil, err
		}
		out[i].isDefault = i == 0 && p.Scale == 1
	}
	return out, nil
}

func newCandidate(name string, p cascade.Params) (*candidate, error) {
	s, err := cascade.New(name, p)
	if err != nil {
		return nil, err
	}
	base, ok := s.(cascade.Tunable)
	if !ok {
		return nil, fmt.Errorf("strategy %s has nothing to fit", name)
	}
	return &candidate{params: p, base: base}, nil
}

func withScale(p cascade.Params, scale float64) cascade.Params {
	p.Scale, p.NoExpect = scale, scale == 0
	return p
}

// orders returns the orders of a cascade to try: the fixed one if there is one, else the models on the
// Pareto front and all models, each by cost.
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

// startValues returns n values for a first replay: thresholds at equal steps, or 0 and lambdas at equal
// ratios, from one at which cost hardly counts to one at which quality hardly counts.
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
	from, to := 1e-2/high, 20/low
	out = append(out, 0)
	for i := range n - 1 {
		out = append(out, from*math.Pow(to/from, float64(i)/float64(n-2)))
	}
	return out
}

// gapValues returns n values that split the widest gaps between neighbouring points into equal parts.
// Gaps between points that both cost more than most are ignored.
func (c *candidate) gapValues(n int, most float64) []float64 {
	type gap struct {
		width, from, to float64
		parts           int
	}
	var gaps []gap
	points := c.points()
	for i := range len(points) - 1 {
		a, b := points[i], points[i+1]
		if min(a.CostUSD, b.CostUSD) > most {
			continue
		}
		width := math.Abs(a.Quality-b.Quality) + math.Abs(min(a.CostUSD, most)-min(b.CostUSD, most))/most
		if a.CostUSD > 0 && b.CostUSD > 0 {
			width += 0.2 * math.Abs(math.Log(a.CostUSD/b.CostUSD))
		}
		if width > 1e-3 {
			gaps = append(gaps, gap{width, a.Value, b.Value, 1})
		}
	}
	if len(gaps) == 0 {
		return nil
	}
	for range n {
		widest := 0
		for i, g := range gaps {
			if g.width*float64(gaps[widest].parts) > gaps[widest].width*float64(g.parts) {
				widest = i
			}
		}
		gaps[widest].parts++
	}
	var out []float64
	for _, g := range gaps {
		for k := 1; k < g.parts; k++ {
			share := float64(k) / float64(g.parts)
			if g.from > 0 {
				out = append(out, g.from*math.Pow(g.to/g.from, share))
			} else {
				out = append(out, g.from+share*(g.to-g.from))
			}
		}
	}
	return out
}

// addValues inserts values in order, with empty results, and returns the order in which to replay them.
func (c *candidate) addValues(values []float64, rows int) (plan, error) {
	fresh := map[float64]bool{}
	for _, v := range values {
		at, known := slices.BinarySearch(c.values, v)
		if known {
			continue
		}
		fresh[v] = true
		c.values = slices.Insert(c.values, at, v)
		c.results = slices.Insert(c.results, at, newReplayRow(rows))
	}
	var p plan
	left := -1
	for i, v := range c.values {
		if !fresh[v] {
			p = p.halve(left, i, len(c.values))
			left = i
		}
	}
	p = p.halve(left, len(c.values), len(c.values))
	for i := range p {
		var err error
		if p[i].strategy, err = c.base.Tune([]float64{c.values[p[i].at]}, 1); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// indexGap is the greatest ratio of two lambdas for which an index that does the same at both is assumed
// to do it in between. Over wider gaps it can change from one model to another and back: the cheapest
// comes first both at a lambda of 0 and at a very large one.
const indexGap = 1.5

// canInterpolate reports whether equal neighbours of a task determine its result.
func (c *candidate) canInterpolate(t task) bool {
	_, index := c.base.(*cascade.Index)
	return !index || c.values[t.right] <= indexGap*c.values[t.left]
}

// trim returns the candidate without the values whose points cost more than the cheapest point of the best
// quality, to within half an outcome (rounding): near a lambda of 0, any gain is bought at any price.
func (c *candidate) trim(points []Point) *candidate {
	best, most := math.Inf(-1), math.Inf(1)
	for _, p := range points {
		best = max(best, p.Quality)
	}
	for _, p := range points {
		if best-p.Quality < 0.5/float64(len(c.results[0].quality)) {
			most = min(most, p.CostUSD*(1+rounding))
		}
	}
	kept := *c
	kept.values, kept.results = nil, nil
	for i, p := range points {
		if p.CostUSD <= most {
			kept.values, kept.results = append(kept.values, c.values[i]), append(kept.results, c.results[i])
		}
	}
	return &kept
}

// points returns the operating points in the order of the values.
func (c *candidate) points() []Point {
	out := make([]Point, len(c.values))
	for i := range out {
		out[i] = c.results[i].point(c.values[i])
	}
	return out
}

// pointsOn is like points, on the given rows only.
func (c *candidate) pointsOn(rows []int) []Point {
	out := make([]Point, len(c.values))
	for i := range out {
		out[i] = c.results[i].pointOn(c.values[i], rows)
	}
	return out
}

package fit

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The number of points of a curve at first, and of those added where it is sparse.
const (
	gridValues   = 20
	refineValues = 20
)

// With more than manyRows queries, screenRows of them and screenValues per candidate suffice to select
// keptCandidates.
const (
	manyRows       = 1000
	screenRows     = 300
	screenValues   = 10
	keptCandidates = 2
)

// sweep replays all candidates over a grid of values in one pass over the queries, keeps the best, and
// replays those at more values where their points are furthest apart. It returns them best first.
func sweep(ctx context.Context, s *stage, name string, list []*candidate, budget float64) ([]*candidate, error) {
	if len(s.rows) > manyRows && len(list) > keptCandidates {
		thin := &stage{table: s.table, replay: s.replay}
		for i := range screenRows {
			thin.rows = append(thin.rows, s.rows[i*len(s.rows)/screenRows])
		}
		if err := thin.grid(ctx, name, list, screenValues); err != nil {
			return nil, err
		}
		list = thin.bestCandidates(list, budget, keptCandidates)
		for _, c := range list {
			c.values, c.results = nil, nil
		}
	}
	if err := s.grid(ctx, name, list, gridValues); err != nil {
		return nil, err
	}
	list = s.bestCandidates(list, budget, keptCandidates)
	// Points that cost more than the most expensive model, or the budget if that is more, are rarely needed.
	most := max(slices.Max(s.table.MeanCosts()), budgetSpan*budget)
	pending := make([][]float64, len(list))
	for i, c := range list {
		pending[i] = c.gapValues(refineValues, most)
	}
	return list, s.extend(ctx, list, pending)
}

// grid replays all candidates at the same n values.
func (s *stage) grid(ctx context.Context, name string, list []*candidate, n int) error {
	pending := make([][]float64, len(list))
	for i := range pending {
		pending[i] = startValues(name, s.table, n)
	}
	return s.extend(ctx, list, pending)
}

// bestCandidates returns the n candidates of greatest merit, always considering the default one, without
// those that are too far behind to become the best.
func (s *stage) bestCandidates(list []*candidate, budget float64, n int) []*candidate {
	t := s.table.Rows(s.rows)
	merits := make(map[*candidate]float64, len(list))
	for _, c := range list {
		merits[c] = merit(t, c.points(), budget)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *candidate) int { return cmp.Compare(merits[b], merits[a]) })
	if i := slices.IndexFunc(list, func(c *candidate) bool { return c.isDefault }); i >= n {
		list[n-1] = list[i]
	}
	list = list[:min(n, len(list))]
	least := merits[list[0]] - 2*chance/math.Sqrt(float64(len(s.rows)))
	return slices.DeleteFunc(list, func(c *candidate) bool { return merits[c] < least })
}

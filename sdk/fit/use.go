package fit

import (
	"context"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// use is the chosen candidate as the profile will run it, with the estimator fitted to all queries. The
// folds' estimators differ a little, and spread queries without distinguishing features over many
// values; the final estimator treats them alike, so that the cost jumps at one value. Therefore the
// candidate is replayed with the final estimator, and its cost is multiplied by the ratio of the folds'
// costs on unseen queries to those on seen ones. The quality at a cost is that of the folds at that cost.
type use struct {
	stage     *stage
	candidate *candidate
	// foldPoints are the folds' points, sorted by cost.
	foldPoints []Point
}

// unseenSpan is the number of neighbours on either side over which that ratio is averaged.
const unseenSpan = 3

// replayUse replays the candidate at the values of the folds' replay. known replays the folds' estimators
// on queries that they have seen.
func (f *fitter) replayUse(complete *outcome.Table, known *estimate.Replay) (*use, error) {
	whole, err := f.profile.Estimator.On(complete)
	if err != nil {
		return nil, err
	}
	held := f.candidate
	own, seen := &candidate{params: held.params, base: held.base}, &candidate{params: held.params, base: held.base}
	u := &use{newStage(f.stage.table, whole), own, sortPoints(held.points())}
	if err := u.stage.extend(f.ctx, []*candidate{own}, [][]float64{held.values}); err != nil {
		return nil, err
	}
	if err := newStage(f.stage.table, known).extend(f.ctx, []*candidate{seen}, [][]float64{held.values}); err != nil {
		return nil, err
	}
	// One value's ratio is noisy with few queries: average it over its neighbours.
	for i := range own.results {
		var unseen, known float64
		for k := max(0, i-unseenSpan); k <= min(i+unseenSpan, len(own.results)-1); k++ {
			unseen, known = unseen+average(held.results[k].cost), known+average(seen.results[k].cost)
		}
		if known > 0 {
			own.results[i].unseen = unseen / known
		}
	}
	u.candidate = own.trim(u.points())
	return u, nil
}

// withHeldOutQuality returns a point with the quality that the folds reached at its cost.
func (u *use) withHeldOutQuality(p Point) Point {
	p.Quality = qualityAt(u.foldPoints, p.CostUSD)
	return p
}

func (u *use) points() []Point {
	points := u.candidate.points()
	for i := range points {
		points[i] = u.withHeldOutQuality(points[i])
	}
	return points
}

// curve returns the operating points with their costs by group.
func (u *use) curve(k *kinds) []Point {
	points := u.candidate.pointsOn(u.stage.rows)
	for i := range points {
		points[i] = u.withHeldOutQuality(points[i])
		points[i].ByGroup = u.candidate.results[i].costsOf(k, u.stage.rows)
	}
	return points
}

// interpolate returns the point at one value for all depths. It replays only the queries for which the
// neighbouring values do not determine the result.
func (u *use) interpolate(ctx context.Context, value float64) (Point, error) {
	c := u.candidate
	if err := u.stage.extend(ctx, []*candidate{c}, [][]float64{{value}}); err != nil {
		return Point{}, err
	}
	at, _ := slices.BinarySearch(c.values, value)
	c.results[at].unseen = c.unseenAt(at)
	return u.withHeldOutQuality(c.results[at].point(value)), nil
}

// unseenAt interpolates the ratio of unseen to seen costs between the neighbours of a value.
func (c *candidate) unseenAt(at int) float64 {
	switch {
	case at == 0:
		return c.results[min(1, len(c.results)-1)].unseen
	case at == len(c.results)-1:
		return c.results[at-1].unseen
	}
	a, b := &c.results[at-1], &c.results[at+1]
	share := (c.values[at] - c.values[at-1]) / (c.values[at+1] - c.values[at-1])
	return a.unseen + share*(b.unseen-a.unseen)
}

// play replays a strategy at a value at which the candidate has been replayed.
func (u *use) play(ctx context.Context, s cascade.Strategy, value float64) (Point, error) {
	results, err := u.stage.play(ctx, []cascade.Strategy{s})
	if err != nil {
		return Point{}, err
	}
	at, _ := slices.BinarySearch(u.candidate.values, value)
	results[0].unseen = u.candidate.results[at].unseen
	return u.withHeldOutQuality(results[0].point(value)), nil
}

package fit

import (
	"context"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// use is the chosen candidate as the profile will run it, by the estimator of all queries. The
// folds' estimators differ a little, and split queries that nothing tells apart over many values, at
// each of which some folds ask one model and some another; the one estimator of use sees
// all of them alike, and its cost jumps at one value. So the candidate is replayed by that
// estimator, and what it costs is corrected by what the folds' estimators cost on queries that
// they have not seen, of what they cost on queries that they have.
// The quality at a cost is what the folds came to at that cost.
type use struct {
	stage     *stage
	candidate *candidate
	// told are the folds' points, by cost.
	told []Point
}

// unseenSpan is how many neighbours on either side have a say in what queries not seen cost at a value.
const unseenSpan = 3

// replayUse replays the candidate at the values that it was replayed at by the folds' estimators, on
// queries that they have not seen; known has them on queries that they have.
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
	// Few queries tell little of one value: its neighbours have a say.
	for i := range own.results {
		var unseen, known float64
		for k := max(0, i-unseenSpan); k <= min(i+unseenSpan, len(own.results)-1); k++ {
			unseen, known = unseen+average(held.results[k].cost), known+average(seen.results[k].cost)
		}
		if known > 0 {
			own.results[i].unseen = unseen / known
		}
	}
	own.trim(u.points())
	return u, nil
}

// withHeldOutQuality returns a point with the quality that the folds reached at its cost.
func (u *use) withHeldOutQuality(p Point) Point {
	p.Quality = qualityAt(u.told, p.CostUSD)
	return p
}

// points returns the operating points in the order of their values.
func (u *use) points() []Point {
	points := u.candidate.points()
	for i := range points {
		points[i] = u.withHeldOutQuality(points[i])
	}
	return points
}

// curve returns the operating points with what they cost by group.
func (u *use) curve(k *kinds) []Point {
	points := u.candidate.curve(k, u.stage.rows)
	for i := range points {
		points[i] = u.withHeldOutQuality(points[i])
	}
	return points
}

// interpolate replays the candidate at one value for all depths, where it is not known by
// what it did at neighbouring values.
func (u *use) interpolate(ctx context.Context, value float64) (Point, error) {
	c := u.candidate
	if err := u.stage.extend(ctx, []*candidate{c}, [][]float64{{value}}); err != nil {
		return Point{}, err
	}
	at, _ := slices.BinarySearch(c.values, value)
	c.results[at].unseen = c.unseenAt(at)
	return u.withHeldOutQuality(c.results[at].point(value)), nil
}

// unseenAt interpolates between the neighbours of a value.
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

// play replays a strategy at a value that the candidate was replayed at.
func (u *use) play(ctx context.Context, s cascade.Strategy, value float64) (Point, error) {
	results, err := u.stage.play(ctx, []cascade.Strategy{s})
	if err != nil {
		return Point{}, err
	}
	at, _ := slices.BinarySearch(u.candidate.values, value)
	results[0].unseen = u.candidate.results[at].unseen
	return u.withHeldOutQuality(results[0].point(value)), nil
}

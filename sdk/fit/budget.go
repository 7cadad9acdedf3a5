package fit

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// fitter chooses the lambdas of the chosen candidate.
type fitter struct {
	ctx       context.Context
	stage     *stage
	options   Options
	candidate *candidate
	use       *use
	profile   *Profile
}

// Budget is the requested budget and whether the strategy can spend it.
type Budget struct {
	USD float64 `json:"usd"`
	// Reached is true if the mean cost on the validation rows is the budget.
	Reached bool `json:"reached"`
	// Over is true if even the cheapest setting of the strategy costs more.
	Over bool `json:"over,omitempty"`
	// BetterUSD is the cost of the cheapest better setting if the budget is not reached: more than the
	// budget, since a strategy does not mix settings that are so far apart. 0 means there is none.
	BetterUSD float64 `json:"better_usd,omitempty"`
}

// lookBeyond sets BetterUSD: the cost of the cheapest setting above the budget that is better than a
// quality, among the candidates replayed on all rows.
func (b *Budget) lookBeyond(tried []*candidate, quality float64, rows int) {
	if b.USD == 0 || b.Reached || b.Over {
		return
	}
	better := quality + 0.5/float64(rows) // less than half an outcome is rounding
	for _, c := range tried {
		for _, p := range c.points() {
			if p.CostUSD > b.USD && p.Quality > better && len(c.results[0].quality) == rows && p.CostUSD < cmp.Or(b.BetterUSD, math.Inf(1)) {
				b.BetterUSD = p.CostUSD
			}
		}
	}
}

// budgetTolerance is how close to the budget, relative to it, the search for a lambda gets.
const budgetTolerance = 1e-3

// meetBudget finds the value at which the mean cost is the budget, and the gamma if ties make the cost
// jump there. Without a budget it takes the value of highest quality.
func (f *fitter) meetBudget() error {
	c, p := f.candidate, f.profile
	budget := f.options.BudgetUSD
	if budget == 0 {
		points, top := c.points(), 0
		for i, point := range points {
			if point.Quality > points[top].Quality {
				top = i
			}
		}
		return f.settle([]float64{points[top].Value}, 1)
	}
	points := f.use.points()
	m := meet(points, budget)
	p.Budget = Budget{USD: budget, Reached: m.reached, Over: m.over}
	if !m.reached {
		return f.settle([]float64{points[m.first].Value}, 1)
	}
	values, gamma, err := f.bisect(points[m.first], points[m.second], budget)
	if err != nil {
		return err
	}
	return f.settle(values, gamma)
}

// bisect searches for the budget between two values. If many queries tie and the cost jumps, gamma mixes
// the two sides.
func (f *fitter) bisect(a, b Point, budget float64) ([]float64, float64, error) {
	for range 48 {
		for _, p := range []Point{a, b} {
			if math.Abs(p.CostUSD-budget) <= budgetTolerance*budget {
				return []float64{p.Value}, 1, nil
			}
		}
		if math.Abs(a.Value-b.Value) <= 1e-13*max(a.Value, b.Value) {
			break
		}
		middle := (a.Value + b.Value) / 2
		p, err := f.use.interpolate(f.ctx, middle)
		if err != nil {
			return nil, 0, err
		}
		if (p.CostUSD > budget) == (a.CostUSD > budget) {
			a = p
		} else {
			b = p
		}
	}
	// The jump: on one side of it, ties go to the cheapest with gamma 1 and to the most
	// expensive with gamma 0; a gamma in between spends the budget.
	value := a.Value
	for _, side := range []Point{a, b} {
		dear, err := f.replayAt([]float64{side.Value}, 0)
		if err != nil {
			return nil, 0, err
		}
		if side.CostUSD <= budget && budget <= dear.CostUSD && side.CostUSD < dear.CostUSD {
			return []float64{side.Value}, (dear.CostUSD - budget) / (dear.CostUSD - side.CostUSD), nil
		}
	}
	if b.CostUSD <= budget && (a.CostUSD > budget || a.CostUSD < b.CostUSD) {
		value = b.Value
	}
	return []float64{value}, 1, nil
}

// tieMargin is by how much a threshold is raised to reverse ties; it exceeds the tie tolerance.
const tieMargin = 4e-8

// replayAt replays the candidate at the given values, one for each depth, with a gamma of 1 (ties go to
// the cheapest) or 0.
func (f *fitter) replayAt(values []float64, gamma float64) (Point, error) {
	value := values[0]
	if gamma == 0 && f.options.Strategy == cascade.NameThreshold {
		values = slices.Clone(values)
		for i := range values {
			values[i] += tieMargin
		}
	}
	s, err := f.candidate.base.Tune(values, gamma)
	if err != nil {
		return Point{}, err
	}
	if f.options.BudgetUSD > 0 {
		return f.use.play(f.ctx, s, value)
	}
	results, err := f.stage.play(f.ctx, []cascade.Strategy{s})
	if err != nil {
		return Point{}, err
	}
	return results[0].point(0), nil
}

// mix replays the candidate at the given values with ties decided both ways, and mixes the results by gamma.
func (f *fitter) mix(values []float64, gamma float64) (Point, error) {
	cheap, err := f.replayAt(values, 1)
	if err != nil || gamma == 1 {
		return cheap, err
	}
	dear, err := f.replayAt(values, 0)
	if err != nil {
		return Point{}, err
	}
	blend := func(a, b float64) float64 { return gamma*a + (1-gamma)*b }
	cheap.CostUSD = blend(cheap.CostUSD, dear.CostUSD)
	cheap.Quality = blend(cheap.Quality, dear.Quality)
	cheap.Steps = blend(cheap.Steps, dear.Steps)
	return cheap, nil
}

// settle sets the profile's values, gamma and expected results.
func (f *fitter) settle(values []float64, gamma float64) error {
	p, err := f.mix(values, gamma)
	if err != nil {
		return err
	}
	s := &f.profile.Strategy
	s.Gamma = gamma
	if f.options.Strategy == cascade.NameThreshold {
		s.Thresholds = values
	} else {
		s.Lambdas = values
	}
	f.profile.Expected = Expectation{CostUSD: p.CostUSD, Quality: p.Quality, Steps: p.Steps}
	return nil
}

package fit

import (
	"math"
	"math/rand/v2"
)

// Search says how the lambdas are refined once one lambda for all depths meets the
// budget. Threshold strategies have their thresholds refined in the same ways.
type Search string

// The searches. All of them keep the budget.
const (
	// SearchConstant keeps one value for all depths.
	SearchConstant Search = "constant"
	// SearchPerStep refines the value of one depth after another.
	SearchPerStep Search = "per_step"
	// SearchRepetitive bisects one value anew for each limit on the depth.
	SearchRepetitive Search = "repetitive"
	// SearchTPE samples values by a tree-structured Parzen estimator.
	SearchTPE Search = "tpe"
)

// Searches returns all searches.
func Searches() []Search {
	return []Search{SearchConstant, SearchPerStep, SearchRepetitive, SearchTPE}
}

const (
	// searchDepths is how many depths get a value of their own.
	searchDepths = 3
	// searchFactor is how far a value may move from the constant one.
	searchFactor = 4
	tpeTrials    = 60
)

// search refines constant values that meet the budget. What it finds counts only if
// the quality is higher at no higher cost.
func (f *fitter) search(values []float64, gamma, budget float64) ([]float64, float64, error) {
	base, err := f.mixed(values, gamma)
	if err != nil {
		return nil, 0, err
	}
	best := trial{values: values, point: base}
	// A cost above the budget is paid for at the mean price of quality.
	price := base.Quality / budget
	score := func(p Point) float64 { return p.Quality - price*max(0, p.CostUSD-budget) }
	limit := budget * (1 + exact)
	try := func(values []float64) (float64, error) {
		p, err := f.at(values, 1)
		if err != nil {
			return 0, err
		}
		if p.CostUSD <= limit && p.Quality > best.point.Quality {
			best = trial{values: values, point: p}
		}
		return score(p), nil
	}
	switch f.options.Search {
	case SearchPerStep:
		err = perStep(values[0], try)
	case SearchRepetitive:
		return f.repetitive(values, gamma, budget, base)
	case SearchTPE:
		rng := rand.New(rand.NewPCG(f.options.Seed, 0x79e))
		space := make([]interval, searchDepths)
		for i := range space {
			space[i] = interval{math.Log(values[0] / searchFactor), math.Log(values[0] * searchFactor)}
		}
		err = tpe(rng, space, tpeTrials, func(logs []float64) (float64, error) {
			v := make([]float64, len(logs))
			for i, l := range logs {
				v[i] = math.Exp(l)
			}
			return try(v)
		})
	}
	if err != nil {
		return nil, 0, err
	}
	if len(best.values) > 1 {
		gamma = 1
	}
	return best.values, gamma, nil
}

type trial struct {
	values []float64
	point  Point
}

// perStep moves the value of each depth in turn to the best of a few factors.
func perStep(value float64, try func([]float64) (float64, error)) error {
	values := make([]float64, searchDepths)
	for i := range values {
		values[i] = value
	}
	top, err := try(append([]float64(nil), values...))
	if err != nil {
		return err
	}
	for i := range values {
		start := values[i]
		for _, factor := range []float64{0.25, 0.5, 0.7, 0.85, 1.2, 1.5, 2, 4} {
			attempt := append([]float64(nil), values...)
			attempt[i] = start * factor
			score, err := try(attempt)
			if err != nil {
				return err
			}
			if score > top {
				top, values = score, attempt
			}
		}
	}
	return nil
}

// repetitive bisects one value for each limit on the depth and keeps the best limit.
func (f *fitter) repetitive(values []float64, gamma, budget float64, base Point) ([]float64, float64, error) {
	unlimited := f.candidate
	top := base
	for depth := 1; depth <= min(5, len(f.stage.table.Models)); depth++ {
		params := unlimited.params
		params.MaxDepth = depth
		limited, err := newCandidate(f.options.Strategy, params)
		if err != nil {
			return nil, 0, err
		}
		if err := f.stage.extend(f.ctx, []*candidate{limited}, [][]float64{unlimited.values}); err != nil {
			return nil, 0, err
		}
		points := limited.points()
		m := meet(points, budget)
		if !m.reached {
			continue
		}
		before := f.candidate
		f.candidate = limited
		v, g, err := f.bisect(points[m.first], points[m.second], budget)
		if err != nil {
			return nil, 0, err
		}
		p, err := f.mixed(v, g)
		if err != nil {
			return nil, 0, err
		}
		if p.Quality <= top.Quality || p.CostUSD > budget*(1+exact) {
			f.candidate = before
			continue
		}
		top, values, gamma = p, v, g
		f.profile.Strategy.MaxDepth = depth
	}
	return values, gamma, nil
}

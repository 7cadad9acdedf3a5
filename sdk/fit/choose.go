package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// mix is a coin toss between two neighbouring values of a candidate: the second
// with probability share.
type mix struct {
	first, second int // into the candidate's values
	share         float64
	// reached is false if no mixture spends the budget: all spend more (over), or all
	// spend less.
	reached, over bool
}

// meet returns the mixture of neighbouring points that spends the budget, the one of
// highest quality if there are several. Points are in the order of their values.
func meet(points []Point, budget float64) mix {
	best, quality := mix{}, math.Inf(-1)
	for i := range len(points) - 1 {
		a, b := points[i], points[i+1]
		if !(min(a.CostUSD, b.CostUSD) <= budget && budget <= max(a.CostUSD, b.CostUSD)) {
			continue
		}
		share := 0.0
		if a.CostUSD != b.CostUSD {
			share = (budget - a.CostUSD) / (b.CostUSD - a.CostUSD)
		} else if b.Quality > a.Quality {
			share = 1
		}
		if q := a.Quality + share*(b.Quality-a.Quality); q > quality {
			best, quality = mix{i, i + 1, share, true, false}, q
		}
	}
	if best.reached {
		return best
	}
	return bestBelow(points, budget) // no mixture spends exactly the budget
}

// bestBelow returns the best point that spends no more than the budget or, if there is none, the cheapest.
func bestBelow(points []Point, budget float64) mix {
	chosen := -1
	for i, p := range points {
		if p.CostUSD <= budget*(1+rounding) && (chosen < 0 || p.Quality > points[chosen].Quality) {
			chosen = i
		}
	}
	over := chosen < 0
	if over {
		chosen = 0
		for i, p := range points {
			if p.CostUSD < points[chosen].CostUSD {
				chosen = i
			}
		}
	}
	return mix{first: chosen, second: chosen, over: over}
}

// rounding is the relative error of sums of costs.
const rounding = 1e-9

// budgetSpan is the factor below and above the budget within which points count in the choice of a
// candidate: a single point says little about a curve.
const budgetSpan = 1.6

// merit is the value by which candidates are compared: the mean quality at budgets around the given one,
// or without one the area under the curve.
func merit(t *outcome.Table, points []Point, budget float64) float64 {
	if budget <= 0 {
		return area(t, points)
	}
	sorted := sortPoints(points)
	const steps = 9
	sum := 0.0
	for i := range steps {
		b := budget * math.Pow(budgetSpan, 2*float64(i)/(steps-1)-1)
		sum += qualityAt(sorted, b) / steps
	}
	return sum
}

// sortPoints returns the points sorted by cost, then quality.
func sortPoints(points []Point) []Point {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.CostUSD, b.CostUSD), cmp.Compare(a.Quality, b.Quality))
	})
	return sorted
}

// qualityAt interpolates the points, which are sorted by cost. Below the cheapest
// point, quality is proportional to the budget.
func qualityAt(sorted []Point, budget float64) float64 {
	if first := sorted[0]; budget < first.CostUSD {
		return first.Quality * budget / first.CostUSD
	}
	for i, p := range sorted[1:] {
		if budget > p.CostUSD {
			continue
		}
		a := sorted[i]
		if p.CostUSD == a.CostUSD {
			return max(a.Quality, p.Quality)
		}
		return a.Quality + (budget-a.CostUSD)/(p.CostUSD-a.CostUSD)*(p.Quality-a.Quality)
	}
	return sorted[len(sorted)-1].Quality
}

// chooseBest returns the candidate of greatest merit on the points that pointsOf returns, trimmed on them.
// The default candidate wins unless another is better by more than chance.
func chooseBest(t *outcome.Table, candidates []*candidate, budget float64, pointsOf func(*candidate) []Point) *candidate {
	var chosen *candidate
	top := math.Inf(-1)
	for _, c := range candidates {
		c = c.trim(pointsOf(c))
		m := merit(t, pointsOf(c), budget)
		if c.isDefault {
			m += chance / math.Sqrt(float64(len(t.Queries)))
		}
		if chosen == nil || m > top {
			chosen, top = c, m
		}
	}
	return chosen
}

// chance divided by the root of the number of queries is about the standard error of
// the difference in merit of two candidates, whose decisions differ on few queries.
const chance = 0.05

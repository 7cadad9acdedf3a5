package fit

import (
	"math"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// HeldOut is what the fit says of itself on queries that it had not seen: every
// fold is run with what was chosen on the others.
type HeldOut struct {
	CostUSD float64 `json:"cost_usd"`
	// CostStdError is the standard error of CostUSD: how far the mean cost of as
	// many other queries would lie.
	CostStdError float64 `json:"cost_std_error"`
	Quality      float64 `json:"quality"`
	// Held says that CostUSD is within Tolerance of the budget, or below it when
	// the budget cannot be spent.
	Held bool `json:"held"`
	// Confidence is the probability that the mean cost of as many new queries stays
	// within Tolerance of the budget, or below that when it cannot be spent. Where
	// costs vary much from query to query it is small, whatever is fitted.
	Confidence float64 `json:"confidence"`
}

// Tolerance is by how much of the budget the mean cost may differ from it.
const Tolerance = 0.05

// heldOut chooses on all folds but one and reads off what that does on the one.
func heldOut(t *outcome.Table, candidates []*candidate, budget float64, fold []int, folds int) HeldOut {
	cost, quality := make([]float64, len(fold)), make([]float64, len(fold))
	for f := range folds {
		var rest []int
		for q := range fold {
			if fold[q] != f {
				rest = append(rest, q)
			}
		}
		pointsOf := func(c *candidate) []Point { return c.pointsOn(rest) }
		c := best(t.Rows(rest), candidates, budget, pointsOf)
		m := meet(c.pointsOn(rest), budget)
		for q := range fold {
			if fold[q] == f {
				a, b := &c.results[m.first], &c.results[m.second]
				cost[q] = a.cost[q] + m.share*(b.cost[q]-a.cost[q])
				quality[q] = a.quality[q] + m.share*(b.quality[q]-a.quality[q])
			}
		}
	}
	h := HeldOut{CostUSD: average(cost), Quality: average(quality)}
	variance := 0.0
	for _, c := range cost {
		variance += (c - h.CostUSD) * (c - h.CostUSD)
	}
	n := float64(len(cost))
	h.CostStdError = math.Sqrt(variance / (n - 1) / n)
	h.Held = math.Abs(h.CostUSD-budget) <= Tolerance*budget
	h.Confidence = within(budget*(1-Tolerance), budget*(1+Tolerance), h)
	return h
}

// within is the probability that the mean cost of as many new queries lies between
// two amounts: both this mean and theirs vary by the standard error.
func within(low, high float64, h HeldOut) float64 {
	dev := h.CostStdError * math.Sqrt2
	if dev == 0 {
		if low <= h.CostUSD && h.CostUSD <= high {
			return 1
		}
		return 0
	}
	below := func(x float64) float64 { return math.Erfc(-(x-h.CostUSD)/(dev*math.Sqrt2)) / 2 }
	return below(high) - below(low)
}

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
	// Confidence is the probability that the true mean cost does not exceed the
	// budget by more than Tolerance.
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
	limit := (1 + Tolerance) * budget
	h.Confidence = math.Erfc(-(limit-h.CostUSD)/(h.CostStdError*math.Sqrt2)) / 2
	if h.CostStdError == 0 {
		h.Confidence = 0
		if h.CostUSD <= limit {
			h.Confidence = 1
		}
	}
	return h
}

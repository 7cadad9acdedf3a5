package estimate

import (
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// fillShared fills in how much of what a verdict on a model that has not run would tell
// it tells of the best answer at hand as well. With b whether that answer is right, i
// whether the other one is, and V a pass of it,
//
//	Shared = Cov(b, V) / Cov(i, V),
//
// which is Cov(b, i) / Var(i) where the judge errs alike on all queries. Given the node
// both answers are independent.
func (c *latentCursor) fillShared(dst []cascade.Belief) {
	best := -1
	for i, ran := range c.ran {
		if ran && (best < 0 || dst[i].Mean > dst[best].Mean) {
			best = i
		}
	}
	bought := c.noticed != nil && c.noticed.Verdicts != nil
	if best < 0 || !math.IsNaN(c.verdict[best]) || !c.Verified && !bought {
		return
	}
	right := c.rightAt[:0] // and the node
	for k, p := range c.tables.p[c.group][best] {
		ifRight, ifWrong := p*c.right[best][k], (1-p)*c.wrong[best][k]
		right = append(right, c.weight[k]*ifRight/(ifRight+ifWrong))
	}
	c.rightAt = right
	for i := range dst {
		if c.ran[i] {
			continue
		}
		var pass, both, own float64
		for k, p := range c.tables.p[c.group][i] {
			rates := c.Misreads.rates(k >= len(c.Nodes)/2)
			passes := p*(1-rates.FalseReject) + (1-p)*rates.FalsePass
			pass += c.weight[k] * passes
			both += right[k] * passes
			own += c.weight[k] * p * (1 - rates.FalseReject)
		}
		if own -= dst[i].Mean * pass; own > 0 {
			dst[i].Shared = min(max((both-dst[best].Mean*pass)/own, 0), 1)
		}
	}
}

package estimate

import (
	"math"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// fillShared sets Shared: the share of the information in a verdict on a model that has not
// run that also applies to the best answer so far. If b is 1 if that answer is right, i is
// 1 if the other one is, and V is 1 if the other one passes,
//
//	Shared = Cov(b, V) / Cov(i, V),
//
// which is Cov(b, i) / Var(i) if the judge has the same error rates on all queries. Given
// the node, the two answers are independent.
func (c *latentCursor) fillShared(dst []cascade.Belief) {
	best := -1
	for i, ran := range c.ran {
		if ran && (best < 0 || dst[i].Mean > dst[best].Mean) {
			best = i
		}
	}
	bought := c.evidence != nil && c.evidence.Verdicts != nil
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

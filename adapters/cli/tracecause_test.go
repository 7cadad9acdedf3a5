package cli

import (
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// A trace explains the expected effect of a bought look in terms of its kind.
func TestTheCauseOfALook(t *testing.T) {
	for want, look := range map[string]sdk.Look{
		"judge is bought for the answer of small, for 0.010000 USD: it is expected to change the estimate 0.60 by 0.20":                                           {Signal: "judge", StdDev: 0.2, CostUSD: 0.01},
		"judge is bought for the answer of small, for 0.010000 USD: it passes with probability 0.58; the estimate 0.60 becomes 0.93 after a pass, otherwise 0.14": {Signal: "judge", StdDev: 0.39, CostUSD: 0.01, Judge: &cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}},
	} {
		trace := &sdk.Trace{Decisions: []sdk.Decision{{Look: "small", Models: []sdk.Belief{{Model: "small", Quality: sdk.Estimate{Mean: 0.6}, Ran: true, Look: &look}}}}}
		if got := decisionBasis(trace, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package cli

import (
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// unpricedJudges names the policy's paid verifiers whose verdicts have no price in the outcomes.
func unpricedJudges(p *policies.Policy, t *outcome.Table) (names []string) {
	if unattributedPrices(p, t) != nil {
		return nil
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		if v.MaxUSD > 0 && v.Judges() && t.Signals[v.Name+sdk.SignalCostUSD] == nil {
			names = append(names, v.Name)
		}
	}
	return names
}

package router

import (
	"cmp"
	"fmt"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// pace returns what gives each query that no match block claims its plan, so that
// the mean cost holds at the budget; nil where there is none to hold.
func pace(p *policies.Policy, profile *fit.Profile, models []string, seed uint64) (next func() *step.Plan, err error) {
	budget := cmp.Or(p.Budget.ExpectedUSD, profile.Budget.USD)
	enforced := p.Mode == "" || p.Mode == "enforce"
	if budget == 0 || p.Budget.HoldOver == 0 || !enforced || len(profile.Curve) == 0 {
		return nil, nil
	}
	pacer, err := fit.NewPacer(profile.Curve, budget, float64(p.Budget.HoldOver), seed)
	if err != nil {
		return nil, err
	}
	plans := make([]*step.Plan, len(pacer.Points()))
	for i, point := range pacer.Points() {
		strategy, err := profile.StrategyAt(point.Value, models)
		if err != nil {
			return nil, fmt.Errorf("an operating point of the profile: %w", err)
		}
		plans[i] = &step.Plan{
			Strategy: strategy, Name: profile.Strategy.Name, Lambdas: []float64{point.Value}, Gamma: 1,
			Done: func(t *sdk.Trace) { pacer.Spent(i, t.CostUSD) },
		}
	}
	return func() *step.Plan { return plans[pacer.Next()] }, nil
}

package router

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Decider is how a policy decides. A router acts by it; a forecast foresees with it.
type Decider struct {
	// Plan is the policy's own strategy.
	Plan step.Plan
	// Profile is the name of the profile's file, Quality and Cost its estimators;
	// empty and nil when the policy has no profile.
	Profile string
	Quality sdk.QualityEstimator
	Cost    sdk.CostEstimator
	// Route says what match blocks and pacing make of a query; nil when there are
	// neither. A paced plan must be told of its steps: see [step.Plan].
	Route func(q *sdk.Query) middleware.Route
}

// NewDecider reads the policy's profile and makes its strategies. The seed is for
// the choice among a paced budget's operating points.
func NewDecider(p *policies.Policy, seed uint64) (*Decider, error) {
	models := p.SDKModels()
	own, err := plan(&p.Strategy, models)
	if err != nil {
		return nil, err
	}
	d := &Decider{}
	var next func() *step.Plan
	if p.Fit != nil {
		profile, err := fit.Load(locate(p, p.Fit.Profile), models)
		if err != nil {
			return nil, err
		}
		names := make([]string, len(models))
		for i := range models {
			names[i] = models[i].Name
		}
		fitted, err := profile.NewStrategy(names)
		if err != nil {
			return nil, err
		}
		own = &step.Plan{Strategy: fitted, Name: profile.Strategy.Name, Lambdas: profile.Strategy.Lambdas, Gamma: profile.Strategy.Gamma}
		if next, err = pace(p, profile, names, seed); err != nil {
			return nil, err
		}
		d.Profile = filepath.Base(p.Fit.Profile)
		d.Quality, d.Cost = profile.Estimator.QualityEstimator(), profile.Estimator.CostEstimator()
	}
	d.Plan = *own
	if len(p.Matches) == 0 && next == nil {
		return d, nil
	}
	plans := map[*policies.Strategy]*step.Plan{}
	for i := range p.Matches {
		if s := p.Matches[i].Strategy; s != nil {
			if plans[s], err = plan(s, models); err != nil {
				return nil, fmt.Errorf("match %s: %w", p.Matches[i].Name, err)
			}
		}
	}
	d.Route = func(q *sdk.Query) middleware.Route {
		choice := p.Choose(q)
		decides, matched := plans[choice.Strategy]
		if !matched && next != nil {
			decides = next()
		}
		return middleware.Route{Plan: decides, Models: choice.Candidates}
	}
	return d, nil
}

func plan(s *policies.Strategy, models []sdk.Model) (*step.Plan, error) {
	strategy, err := s.Cascade(models)
	if err != nil {
		return nil, err
	}
	return &step.Plan{Strategy: strategy, Name: s.CascadeName(), Lambdas: s.Lambda, Gamma: s.Gamma}, nil
}

// Sessions is what a policy says of conversations.
func Sessions(p *policies.Policy) middleware.SessionConfig {
	if p.Session == nil {
		return middleware.SessionConfig{Off: true}
	}
	return middleware.SessionConfig{SwitchCostUSD: p.Session.SwitchUSD, IdleTimeout: p.Session.IdleTimeout, IgnoreCache: !p.Session.CacheAware}
}

// Caps are a policy's caps of runs and tenants, and whether there are any.
func Caps(p *policies.Policy) (caps step.Caps, capped bool) {
	caps = step.Caps{RunUSD: p.Budget.RunUSD, TenantUSD: p.Budget.TenantUSD, TenantPeriod: p.Budget.TenantPeriod}
	for _, t := range p.Budget.Tenants {
		if caps.Tenants == nil {
			caps.Tenants = map[string]float64{}
		}
		caps.Tenants[t.Name] = t.USD
	}
	return caps, caps.RunUSD > 0 || caps.TenantUSD > 0 || caps.Tenants != nil
}

// locate returns a path of a policy as seen from the process: relative ones begin
// at the policy file.
func locate(p *policies.Policy, path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(p.Path, "library:") {
		return path
	}
	return filepath.Join(filepath.Dir(p.Path), path)
}

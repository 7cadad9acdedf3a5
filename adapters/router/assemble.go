package router

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Assembly is a policy compiled for deciding steps. Real runs and forecasts use the same Assembly; each adds
// only what it needs to execute a step: servers, plugins, accounts, files.
type Assembly struct {
	// Step is the step engine's configuration, with the candidates in the order of the policy, the estimators
	// and the verifiers. It has neither a ledger nor a trace sink.
	Step step.Config
	// Route applies match blocks and pacing to a query; it is nil if the policy has neither.
	Route func(q *sdk.Query) middleware.Route
	// Sessions holds the policy's settings for conversations.
	Sessions middleware.SessionConfig
	// Caps are the caps on runs and tenants.
	Caps step.Caps
	// Learned holds the verifiers' error rates from the policy's profile.
	Learned map[string]cascade.Rates

	costs costEstimators
	// pacer keeps the mean cost at the budget; nil if there is no budget to hold.
	pacer *fit.Pacer
}

// Assemble compiles a policy to an Assembly. The seed determines all random choices: between ties and among
// the operating points of a paced budget. now is the engine's clock. plugins provides the policy's estimators
// and verifiers; one for which it returns nil is left out.
func Assemble(p *policies.Policy, seed uint64, now func() time.Time, plugins Plugins) (*Assembly, error) {
	a := &Assembly{
		Step: step.Config{
			StepCapUSD: p.Budget.StepUSD, CapWait: p.Budget.Wait, FailAtCap: p.Budget.AtCap == "fail",
			Retry:        step.Retry{MaxAttempts: p.Retry.MaxAttempts, BaseDelay: p.Retry.BaseDelay, MaxDelay: p.Retry.MaxDelay, SwitchAfter: p.Retry.SwitchAfter},
			TracePrompts: p.Trace.Prompts, TraceAnswers: p.Trace.Answers, Explain: p.Trace.Explain, Explore: p.Trace.Explore, Parallel: p.Strategy.Parallel,
			Policy: strings.ToValidUTF8(filepath.Base(p.Path), "\uFFFD") + "@" + p.Checksum[:min(12, len(p.Checksum))],
			Coin:   newCoin(seed), Now: now,
		},
		Sessions: sessions(p),
	}
	a.Caps = caps(p)
	for i := range p.Models {
		m := &p.Models[i]
		a.Step.Candidates = append(a.Step.Candidates, step.Candidate{Model: m.SDK(), Quality: m.Quality.SDK(), OutputTokens: m.ExpectedOutputTokens})
	}
	if err := a.addPlugins(p, plugins); err != nil {
		return nil, err
	}
	if err := a.setStrategies(p, seed); err != nil {
		return nil, err
	}
	SetRates(a.Step.Verifiers, p, a.Learned)
	if len(a.costs) > 0 {
		a.Step.Cost = append(a.costs, costEstimator{&policies.Estimator{}, a.Step.Cost})
	}
	return a, nil
}

// SetRates sets the error rates of the policy's verifiers: those that the policy states, or else the learned
// ones.
func SetRates(verifiers []step.Verifier, p *policies.Policy, learned map[string]cascade.Rates) {
	for i := range verifiers {
		for k := range p.Verifiers {
			if p.Verifiers[k].Name == verifiers[i].Name {
				verifiers[i].Rates = p.Verifiers[k].Rates(learned)
			}
		}
	}
}

// setStrategies sets the strategies of the policy or its profile, of match blocks, and of a paced budget.
func (a *Assembly) setStrategies(p *policies.Policy, seed uint64) (err error) {
	models := p.SDKModels()
	names := make([]string, len(models))
	for i := range models {
		names[i] = models[i].Name
	}
	setting := p.Strategy.Setting()
	if a.Step.Strategy, err = setting.Strategy(names); err != nil {
		return err
	}
	var next func() middleware.Route
	var onlyJudge []string
	if p.Fit != nil {
		profile, err := fit.Load(p.Locate(p.Fit.Profile), models)
		if err != nil {
			return err
		}
		if a.Step.Strategy, err = profile.NewStrategy(names); err != nil {
			return err
		}
		if next, a.pacer, err = pace(p, profile, names, seed); err != nil {
			return err
		}
		a.Learned, onlyJudge = profile.Estimator.Judges, profile.OnlyJudge
		a.Step.Profile = profile.ID()
		a.Step.Estimators = append(a.Step.Estimators, step.Estimator{Name: filepath.Base(p.Fit.Profile), Estimator: profile.Estimator.QualityEstimator()})
		a.Step.Cost = profile.Estimator.CostEstimator()
		a.Sessions.CachedUSD, a.Sessions.FirstCachedUSD = map[string]float64{}, map[string]float64{}
		for _, m := range profile.Models {
			a.Sessions.CachedUSD[m.Name], a.Sessions.FirstCachedUSD[m.Name] = m.CachedUSD, m.FirstUSD
		}
	}
	if len(p.Matches) == 0 && next == nil && onlyJudge == nil {
		return nil
	}
	matched := map[*policies.Strategy]cascade.Strategy{}
	for i := range p.Matches {
		if s := p.Matches[i].Strategy; s != nil {
			setting := s.Setting()
			if matched[s], err = setting.Strategy(names); err != nil {
				return fmt.Errorf("match %s: %w", p.Matches[i].Name, err)
			}
		}
	}
	a.Route = func(q *sdk.Query) middleware.Route {
		choice := p.Choose(q)
		route := middleware.Route{Strategy: matched[choice.Strategy], Parallel: p.Strategy.Parallel}
		if route.Strategy != nil {
			route.Parallel = choice.Strategy.Parallel
		}
		if route.Strategy == nil && next != nil {
			paced := next()
			route.Strategy, route.Done = paced.Strategy, paced.Done
		}
		route.Models, route.Match = choice.Candidates, choice.Match
		for i, name := range names {
			route.Models[i] = route.Models[i] && !slices.Contains(onlyJudge, name)
		}
		return route
	}
	return nil
}

func (a *Assembly) addPlugins(p *policies.Policy, plugins Plugins) error {
	as := map[string]step.VerifierUse{"signal": step.AsSignal, "bought": step.AsBought}
	unavailable := map[string]step.Unavailable{"fail": step.UnavailableFail, "accept": step.UnavailableAccept}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		plugin, err := plugins.Verifier(v.Name, v.Plugin, v.Config.Reveal())
		if err != nil {
			return blockError(p, "verifier", v.Name, err)
		}
		if plugin == nil {
			continue
		}
		a.Step.Verifiers = append(a.Step.Verifiers, step.Verifier{
			Name: v.Name, Verifier: plugin, Models: v.Models, MaxCostUSD: v.MaxUSD, CallsModels: true, Timeout: v.Timeout,
			Applies: v.Applies, Rejects: v.Rejects(), As: as[v.As], OnUnavailable: unavailable[v.OnUnavailable],
		})
	}
	for i := range p.Estimators {
		e := &p.Estimators[i]
		if e.BuiltIn() && p.Fit != nil {
			continue // the fitted estimator compares answers itself
		}
		if e.Estimates == "cost" {
			plugin, err := plugins.CostEstimator(e.Name, e.Plugin, e.Config.Reveal())
			if err != nil {
				return blockError(p, "estimator", e.Name, err)
			}
			if plugin != nil {
				a.costs = append(a.costs, costEstimator{e, plugin})
			}
			continue
		}
		plugin, err := qualityEstimator(p, e, plugins)
		if err != nil {
			return blockError(p, "estimator", e.Name, err)
		}
		if plugin == nil {
			continue
		}
		a.Step.Estimators = append(a.Step.Estimators, step.Estimator{
			Name: e.Name, Estimator: plugin, Models: e.Models, CallsModels: !e.BuiltIn(), Timeout: e.Timeout,
			Applies: e.When.Matches, OnUnavailable: unavailable[e.OnUnavailable],
			Looks: func(q *sdk.Query, model string) bool {
				i := slices.IndexFunc(p.Models, func(m policies.Model) bool { return m.Name == model })
				return i >= 0 && e.Looks(q, &p.Models[i])
			},
		})
	}
	return nil
}

// blockError adds to a plugin's error the block of the policy that names it, and the position.
func blockError(p *policies.Policy, kind, name string, err error) error {
	err = fmt.Errorf("%s %s: %w", kind, name, err)
	for _, s := range p.Settings() {
		if slices.Equal(s.Path, []string{kind, name, "plugin"}) {
			return fmt.Errorf("%s: %w", s.Origin, err)
		}
	}
	return err
}

func qualityEstimator(p *policies.Policy, e *policies.Estimator, plugins Plugins) (sdk.QualityEstimator, error) {
	if !e.BuiltIn() {
		return plugins.QualityEstimator(e.Name, e.Plugin, e.Config.Reveal())
	}
	stated := make([]float64, len(p.Models))
	for i := range p.Models {
		stated[i] = p.Models[i].Quality.StatedMean()
	}
	return doubtingEstimator{estimate.OfPriors(p.SDKModels(), stated).QualityEstimator()}, nil
}

// pace returns a function that routes queries outside match blocks so that their mean cost stays at the
// budget, or nil if there is no budget to hold.
func pace(p *policies.Policy, profile *fit.Profile, models []string, seed uint64) (next func() middleware.Route, pacer *fit.Pacer, err error) {
	budget := cmp.Or(p.Budget.ExpectedUSD, profile.Budget.USD)
	if budget == 0 || p.Budget.HoldOver == 0 || !slices.Contains([]string{"", "enforce"}, p.Mode) || len(profile.Curve) == 0 {
		return nil, nil, nil
	}
	if pacer, err = fit.NewPacer(profile.Curve, budget, float64(p.Budget.HoldOver), seed); err != nil {
		return nil, nil, err
	}
	routes := make([]middleware.Route, len(pacer.Points()))
	for i, point := range pacer.Points() {
		setting := profile.Strategy.At(point.Value)
		strategy, err := setting.Strategy(models)
		if err != nil {
			return nil, nil, fmt.Errorf("an operating point of the profile: %w", err)
		}
		routes[i] = middleware.Route{Strategy: strategy, Done: func(t *sdk.Trace) { pacer.Spent(t.Group, i, t.CostUSD) }}
	}
	return func() middleware.Route { return routes[pacer.Next()] }, pacer, nil
}

// newCoin returns a source of numbers in [0, 1) that is determined by the seed. It is safe for concurrent
// use.
func newCoin(seed uint64) func() float64 {
	var mu sync.Mutex
	source := rand.New(rand.NewPCG(seed, 0x1e91a4))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return source.Float64()
	}
}

func sessions(p *policies.Policy) middleware.SessionConfig {
	c := middleware.SessionConfig{Off: p.Session == nil, CountDisputes: p.CountsSetbacks()}
	for i := range p.Estimators {
		if e := &p.Estimators[i]; e.BuiltIn() && p.Fit == nil && e.DoubtUpTo > 0 {
			c.DoubtUpTo, c.Dearest = e.DoubtUpTo, p.Dearest()
		}
	}
	if s := p.Session; s != nil {
		c.SwitchCostUSD, c.IdleTimeout, c.IgnoreCache = s.SwitchUSD, s.IdleTimeout, !s.CacheAware
	}
	return c
}

func caps(p *policies.Policy) (caps step.Caps) {
	caps = step.Caps{RunUSD: p.Budget.RunUSD, TenantUSD: p.Budget.TenantUSD, TenantPeriod: p.Budget.TenantPeriod}
	for _, t := range p.Budget.Tenants {
		if caps.Tenants == nil {
			caps.Tenants = map[string]float64{}
		}
		caps.Tenants[t.Name] = t.USD
	}
	return caps
}

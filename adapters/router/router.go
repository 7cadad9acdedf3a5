package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/sqlite"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// Plugins gives out the estimators and verifiers that are plugins: a [host.Host],
// or what an application puts in its place.
type Plugins interface {
	// Verifier and QualityEstimator return the plugin with this configuration
	// under the name of its block.
	Verifier(name, plugin string, config map[string]any) (sdk.Verifier, error)
	QualityEstimator(name, plugin string, config map[string]any) (sdk.QualityEstimator, error)
}

// Options are what a policy file does not say. The zero value is sensible.
type Options struct {
	// Models are those that the policy declares with the provider "go", by name.
	Models map[string]llms.Model
	// Load says how the policy is loaded: environment, overrides.
	Load policies.LoadOptions
	// Plugins gives out the policy's plugins and stays the caller's; nil means a
	// plugin host that the router starts and closes.
	Plugins Plugins
	// Logger hears about plugins and steps; nil is silence.
	Logger hclog.Logger
	// Transport makes the HTTP requests; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Traces receives each trace besides the policy's own files.
	Traces step.Sink
	// Callbacks, Interceptors and Checks go to the middleware as they are.
	Callbacks    callbacks.Handler
	Interceptors []func(middleware.Handler) middleware.Handler
	Checks       []step.Check
}

var _ Plugins = (*host.Host)(nil)

// Router is a policy at work: an llms.Model. It is safe for concurrent use.
type Router struct {
	*middleware.Model
	policy    *policies.Policy
	settings  middleware.Config
	transport http.RoundTripper
	start     func(context.Context) error // starts the router's own plugins; nil for none
	closers   []func() error
}

// Open loads the policy at path and puts it to work. The context bounds the start
// only. The caller closes the router.
func Open(ctx context.Context, path string, o Options) (*Router, error) {
	p, err := policies.Load(path, o.Load)
	if err != nil {
		return nil, err
	}
	return New(ctx, p, o)
}

// New puts a loaded policy to work.
func New(ctx context.Context, p *policies.Policy, o Options) (*Router, error) {
	r := &Router{policy: p, transport: o.Transport}
	c, err := r.config(ctx, p, &o)
	r.settings = c
	if err == nil {
		r.Model, err = middleware.New(c)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening policy %s: %w", p.Path, err), r.release())
	}
	return r, nil
}

// Config returns the middleware's configuration that the policy came to: for
// programs that run steps of their own with the same models, strategy and verifiers.
// It must not be modified.
func (r *Router) Config() middleware.Config { return r.settings }

// Policy returns the policy at work.
func (r *Router) Policy() *policies.Policy { return r.policy }

// Start starts the policy's plugins, which otherwise start at their first use, and
// returns what is wrong with them or with their configuration. A service calls it
// before it takes requests.
func (r *Router) Start(ctx context.Context) error {
	if r.start == nil {
		return nil
	}
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("starting the plugins of %s: %w", r.policy.Path, err)
	}
	return nil
}

// Close waits for work in the background, stops the plugins and closes the files.
func (r *Router) Close() error { return errors.Join(r.Model.Close(), r.release()) }

// release closes what was opened, the last first.
func (r *Router) release() error {
	var faults []error
	for _, closeIt := range slices.Backward(r.closers) {
		faults = append(faults, closeIt())
	}
	r.closers = nil
	return errors.Join(faults...)
}

// config turns a policy into the middleware's configuration.
func (r *Router) config(ctx context.Context, p *policies.Policy, o *Options) (middleware.Config, error) {
	c := middleware.Config{
		Mode: middleware.Mode(p.Mode), Baseline: p.Baseline, Stream: middleware.StreamMode(p.Stream.Mode),
		StepCapUSD: p.Budget.StepUSD, FailAtCap: p.Budget.AtCap == "fail",
		Retry:        step.Retry{MaxAttempts: p.Retry.MaxAttempts, BaseDelay: p.Retry.BaseDelay, MaxDelay: p.Retry.MaxDelay},
		Breaker:      middleware.BreakerConfig{Failures: p.Retry.BreakAfter, Delay: p.Retry.BreakFor},
		TracePrompts: p.Trace.Prompts, TraceAnswers: p.Trace.Answers, Explain: p.Trace.Explain,
		Callbacks: o.Callbacks, Interceptors: o.Interceptors, Checks: o.Checks,
		Policy: filepath.Base(p.Path) + "@" + p.Checksum[:min(12, len(p.Checksum))],
	}
	if p.Retry.BreakAfter == 0 {
		c.Breaker.Failures = -1
	}
	if p.Shadow != nil {
		c.Shadow = middleware.ShadowConfig{Sample: p.Shadow.Share, CapUSD: p.Shadow.MaxUSD}
	}
	if p.Session != nil {
		c.Session = middleware.SessionConfig{SwitchCostUSD: p.Session.SwitchUSD, IdleTimeout: p.Session.IdleTimeout, IgnoreCache: !p.Session.CacheAware}
	} else {
		c.Session = middleware.SessionConfig{Off: true}
	}
	for i := range p.Models {
		m := &p.Models[i]
		places, err := r.deployments(m, o)
		if err != nil {
			return c, err
		}
		c.Models = append(c.Models, middleware.Candidate{
			Model: m.SDK(), Deployments: places, Quality: m.Quality.SDK(), OutputTokens: m.ExpectedOutputTokens, Timeout: m.Timeout,
		})
	}
	if err := r.strategy(p, &c); err != nil {
		return c, err
	}
	if err := r.plugins(p, o, &c); err != nil {
		return c, err
	}
	if err := r.files(ctx, p, o, &c); err != nil {
		return c, err
	}
	return c, nil
}

// strategy sets the strategy, the estimators of the profile, and what match blocks say.
func (r *Router) strategy(p *policies.Policy, c *middleware.Config) error {
	models := p.SDKModels()
	own, err := plan(&p.Strategy, models)
	if err != nil {
		return err
	}
	var next func() *step.Plan
	if p.Fit != nil {
		profile, err := fit.Load(r.path(p.Fit.Profile), models)
		if err != nil {
			return err
		}
		names := make([]string, len(models))
		for i := range models {
			names[i] = models[i].Name
		}
		fitted, err := profile.NewStrategy(names)
		if err != nil {
			return err
		}
		own = &step.Plan{Strategy: fitted, Name: profile.Strategy.Name, Lambdas: profile.Strategy.Lambdas, Gamma: profile.Strategy.Gamma}
		if next, err = pace(p, profile, names); err != nil {
			return err
		}
		c.Profile = filepath.Base(p.Fit.Profile)
		c.Quality, c.Cost = profile.Estimator.QualityEstimator(), profile.Estimator.CostEstimator()
	}
	c.Strategy, c.StrategyName, c.Lambdas, c.Gamma = own.Strategy, own.Name, own.Lambdas, own.Gamma
	if len(p.Matches) == 0 && next == nil {
		return nil
	}
	plans := map[*policies.Strategy]*step.Plan{}
	for i := range p.Matches {
		if s := p.Matches[i].Strategy; s != nil {
			if plans[s], err = plan(s, models); err != nil {
				return fmt.Errorf("match %s: %w", p.Matches[i].Name, err)
			}
		}
	}
	c.Route = func(q *sdk.Query) middleware.Route {
		choice := p.Choose(q)
		own, matched := plans[choice.Strategy]
		if !matched && next != nil {
			own = next()
		}
		return middleware.Route{Plan: own, Models: choice.Candidates}
	}
	return nil
}

func plan(s *policies.Strategy, models []sdk.Model) (*step.Plan, error) {
	strategy, err := s.Cascade(models)
	if err != nil {
		return nil, err
	}
	return &step.Plan{Strategy: strategy, Name: s.CascadeName(), Lambdas: s.Lambda, Gamma: s.Gamma}, nil
}

// files opens the ledger and the trace files.
func (r *Router) files(ctx context.Context, p *policies.Policy, o *Options, c *middleware.Config) error {
	caps := step.Caps{RunUSD: p.Budget.RunUSD, TenantUSD: p.Budget.TenantUSD, TenantPeriod: p.Budget.TenantPeriod}
	for _, t := range p.Budget.Tenants {
		if caps.Tenants == nil {
			caps.Tenants = map[string]float64{}
		}
		caps.Tenants[t.Name] = t.USD
	}
	switch {
	case caps.RunUSD == 0 && caps.TenantUSD == 0 && caps.Tenants == nil:
	case p.Budget.Ledger == "":
		c.Ledger = step.NewMemory(caps)
	default:
		store, err := r.store(ctx, p.Budget.Ledger)
		if err != nil {
			return err
		}
		c.Ledger = store.Ledger(caps, 0)
	}

	sinks := []step.Sink{o.Traces}
	if o.Logger != nil {
		sinks = append(sinks, step.Log(o.Logger))
	}
	if p.Trace.File != "" {
		lines, err := step.OpenJSONLines(r.path(p.Trace.File), int64(p.Trace.MaxSize))
		if err != nil {
			return err
		}
		r.closers = append(r.closers, lines.Close)
		sinks = append(sinks, lines.Record)
	}
	if p.Trace.Database != "" {
		store, err := r.store(ctx, p.Trace.Database)
		if err != nil {
			return err
		}
		sinks = append(sinks, func(ctx context.Context, t *sdk.Trace) {
			if err := store.Record(context.WithoutCancel(ctx), t); err != nil && o.Logger != nil {
				o.Logger.Error("recording a trace", "error", err)
			}
		})
	}
	if all := step.Tee(sinks...); all != nil {
		c.Traces = step.Redact(all, r.secrets()...)
	}
	return nil
}

// store opens a SQLite file that Close closes.
func (r *Router) store(ctx context.Context, path string) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, r.path(path))
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	r.closers = append(r.closers, store.Close)
	return store, nil
}

// secrets are the keys of the policy, which must never reach a trace.
func (r *Router) secrets() []string {
	var list []string
	add := func(s policies.Secret) {
		if v := s.Reveal(); len(v) >= 4 {
			list = append(list, v)
		}
	}
	for i := range r.policy.Models {
		add(r.policy.Models[i].APIKey)
		for _, d := range r.policy.Models[i].Deployments {
			add(d.APIKey)
		}
	}
	return list
}

// path returns a path of the policy as seen from the process: relative ones begin
// at the policy file.
func (r *Router) path(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(r.policy.Path, "library:") {
		return path
	}
	return filepath.Join(filepath.Dir(r.policy.Path), path)
}

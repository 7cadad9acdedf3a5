package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// setup is one policy in operation, with everything that was opened for it.
type setup struct {
	stores []Store // the ones that the policy names
	policy *policies.Policy
	config middleware.Config
	model  *middleware.Model
	watch  *watch

	host    PluginHost // runs the setup's own plugins; nil if it has none
	closers []func() error
	steps   sync.WaitGroup // running steps
}

// newSetup opens a policy that replaces the setup before, which can be nil and stays open. The two share
// accounts, conversations and files.
func (r *Router) newSetup(ctx context.Context, p *policies.Policy, before *setup) (*setup, error) {
	if p == nil {
		return nil, errors.New("opening a policy: policy is nil")
	}
	s := &setup{policy: p}
	c, err := s.configure(ctx, r)
	if err == nil {
		if before != nil {
			c.Replaces = before.model
		}
		s.model, err = middleware.New(c)
		c.Replaces = nil
	}
	s.config = c
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening policy %s: %w", p.Path, err), s.release())
	}
	return s, nil
}

func (s *setup) startPlugins(ctx context.Context) error {
	if s.host == nil {
		return nil
	}
	if err := s.host.Start(ctx); err != nil {
		return fmt.Errorf("starting the plugins of %s: %w", s.policy.Path, err)
	}
	return nil
}

func (s *setup) close() error {
	s.steps.Wait()
	return errors.Join(s.model.Close(), s.release())
}

func (s *setup) release() error {
	var faults []error
	for _, closeIt := range slices.Backward(s.closers) {
		faults = append(faults, closeIt())
	}
	s.closers = nil
	return errors.Join(faults...)
}

func (s *setup) configure(ctx context.Context, r *Router) (middleware.Config, error) {
	p, o := s.policy, &r.o
	c := middleware.Config{
		Mode: middleware.Mode(p.Mode), Baseline: p.Baseline, Stream: middleware.StreamMode(p.Stream.Mode),
		OptionalTools: p.OptionalTools, CancelDrafts: p.Stream.CancelDrafts, MinTokenProbability: p.Stream.MinTokenProbability,
		Breaker: middleware.BreakerConfig{Failures: p.Retry.BreakAfter, Delay: p.Retry.BreakFor},
		Redact:  redact.New(s.secrets()...), Callbacks: o.Callbacks, Interceptors: o.Interceptors,
	}
	if p.Retry.BreakAfter == 0 {
		c.Breaker.Failures = -1
	}
	seed := cmp.Or(o.Seed, rand.Uint64())
	if p.Shadow != nil {
		c.Shadow = middleware.ShadowConfig{Sample: p.Shadow.Share, CapUSD: p.Shadow.MaxUSD, Coin: newCoin(^seed)}
	}
	plugins, err := s.plugins(o)
	if err != nil {
		return c, err
	}
	a, err := Assemble(p, seed, time.Now, plugins)
	if err != nil {
		return c, err
	}
	c.Step, c.Route, c.Session = a.Step, a.Route, a.Sessions
	c.Step.Checks = o.Checks
	if o.Verify != nil {
		c.Step.Verifiers = append(c.Step.Verifiers, step.Verifier{Name: VerifyName, Verifier: o.Verify})
	}
	for i, candidate := range a.Step.Candidates {
		m := &p.Models[i]
		if o.priorMeans != nil {
			candidate.Quality.Mean = o.priorMeans[i]
		}
		var servers []middleware.Deployment
		if !m.SharesServers() {
			if servers, err = s.deployments(m, o); err != nil {
				return c, err
			}
		}
		c.Models = append(c.Models, middleware.Candidate{
			Model: candidate.Model, Deployments: servers, Quality: candidate.Quality, OutputTokens: candidate.OutputTokens, Timeout: m.Timeout,
			SampleTemperature: m.SampleTemperature, ReasoningEffort: m.ReasoningEffort(), OverrideEffort: m.Effort == "arm",
		})
	}
	for i := range p.Embedders {
		m := &p.Embedders[i]
		servers, err := s.deployments(m, o)
		if err != nil {
			return c, err
		}
		c.Embedders = append(c.Embedders, middleware.Candidate{Model: m.SDK(), Deployments: servers, Timeout: m.Timeout})
	}
	if c.Step.Ledger, err = s.ledger(ctx, r, a); err != nil {
		return c, err
	}
	if shared := r.o.Store; shared != nil {
		c.Circuits, c.Conversations = shared, shared
		s.retain(shared)
		if a.pacer != nil {
			s.closers = append(s.closers, shared.Pace(c.Step.Policy, a.pacer))
		}
	}
	c.Step.Traces, err = s.traces(ctx, r)
	s.watch.pacer = a.pacer
	if p.Holdout != nil {
		c.Holdout = s.watch.assignHoldout
	}
	return c, err
}

// ledger opens the accounts for the caps; nil if there are none. With a store of the process it is never
// nil, because that store also holds the caps of the gateway's keys.
func (s *setup) ledger(ctx context.Context, r *Router, a *Assembly) (step.Ledger, error) {
	if shared := r.o.Store; shared != nil {
		return shared.Ledger(a.Caps), nil
	}
	switch {
	case !a.Caps.Any():
		return nil, nil
	case s.policy.Budget.Ledger == "":
		return r.accounts.With(a.Caps), nil
	}
	shared, err := s.store(ctx, r, s.policy.Budget.Ledger)
	if err != nil {
		return nil, err
	}
	return shared.Ledger(a.Caps), nil
}

func (s *setup) traces(ctx context.Context, r *Router) (step.Sink, error) {
	p, o := s.policy, &r.o
	log := &onceLogger{log: loggerOrDefault(o.Logger), logged: map[string]bool{}}
	s.watch = &watch{policy: p, log: log}
	isOnlyJudge := o.Verify != nil && len(p.Estimators) == 0 && len(p.Verifiers) == 0
	sinks := []step.Sink{recoverPanics(o.Traces, log), s.watch.record, r.runs.record, warnSteps(log, p, isOnlyJudge)}
	if o.Logger != nil {
		sinks = append(sinks, step.Log(o.Logger))
	}
	if p.Trace.File != "" {
		path := s.policy.Locate(p.Trace.File)
		lines, err := acquireFile(s, r, path, func() (*step.JSONLines, error) {
			lines, err := step.OpenJSONLines(path, int64(p.Trace.MaxSize), p.Trace.MaxFiles)
			if err == nil {
				lines.Fault = func(err error) { loggerOrDefault(o.Logger).Error("traces are lost", "error", err) }
			}
			return lines, err
		})
		if err != nil {
			return nil, err
		}
		lines.SetLimits(int64(p.Trace.MaxSize), p.Trace.MaxFiles)
		sinks = append(sinks, lines.Record)
	}
	if shared := o.Store; shared != nil {
		sinks = append(sinks, shared.Record)
	}
	if p.Trace.Database != "" {
		shared, err := s.store(ctx, r, p.Trace.Database)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, shared.Record)
	}
	secrets := redact.New(s.secrets()...)
	return step.Tee(warnLeftOut(log, secrets), warnInconclusive(log, secrets), step.Redact(step.Tee(sinks...), secrets)), nil
}

// store opens the store at a path or URL. Setups that name the same one share it.
func (s *setup) store(ctx context.Context, r *Router, address string) (Store, error) {
	if r.o.OpenStore == nil {
		return nil, fmt.Errorf("the policy stores data in %s, but the program has no store: set Options.OpenStore, or open the policy by package adapters/full", address)
	}
	if !strings.Contains(address, "://") {
		address = s.policy.Locate(address)
	}
	opened, err := acquireFile(s, r, address, func() (Store, error) { return r.o.OpenStore(ctx, address, r.o.Logger) })
	if err == nil {
		s.stores = append(s.stores, opened)
		s.retain(opened)
	}
	return opened, err
}

func (s *setup) retain(opened Store) {
	if r := s.policy.Retention; r != nil {
		s.closers = append(s.closers, opened.Retain(r.Traces, r.Accounts, r.Sessions))
	}
}

// secrets returns the values that the policy read from the environment, for redaction, except those so
// short that they occur in ordinary words.
func (s *setup) secrets() []string {
	return slices.DeleteFunc(slices.Clone(s.policy.Secrets()), func(v string) bool { return len(v) < 4 })
}

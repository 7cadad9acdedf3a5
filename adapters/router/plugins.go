package router

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
	"github.com/stepfall/stepfall/sdk/step"
)

// plugins sets the verifiers and estimators that are plugins.
func (s *setup) plugins(o *Options, c *middleware.Config) error {
	p := s.policy
	if len(p.Verifiers)+len(p.Estimators) == 0 {
		return nil
	}
	source := o.Plugins
	if source == nil {
		h, err := host.New(s.hostConfig(o))
		if err != nil {
			return fmt.Errorf("starting the plugin host: %w", err)
		}
		s.closers = append(s.closers, h.Close)
		s.start = h.Start
		source = h
	}
	for i := range p.Verifiers {
		v := &p.Verifiers[i]
		plugin, err := source.Verifier(v.Name, v.Plugin, v.Config.Reveal())
		if err != nil {
			return fmt.Errorf("verifier %s: %w", v.Name, err)
		}
		if v.MaxUSD > 0 {
			plugin = budgeted{plugin, v.MaxUSD}
		}
		own := step.Verifier{
			Name: v.Name, Verifier: plugin, Models: v.Models, MaxCostUSD: v.MaxUSD, Timeout: v.Timeout,
			OnUnavailable: map[string]step.Unavailable{"fail": step.UnavailableFail, "accept": step.UnavailableAccept}[v.OnUnavailable],
		}
		if !v.When.Empty() {
			own.Applies = v.When.Matches
		}
		c.Verifiers = append(c.Verifiers, own)
	}
	chain := estimators{last: c.Quality}
	for i := range p.Estimators {
		e := &p.Estimators[i]
		plugin, err := source.QualityEstimator(e.Name, e.Plugin, e.Config.Reveal())
		if err != nil {
			return fmt.Errorf("estimator %s: %w", e.Name, err)
		}
		chain.plugins = append(chain.plugins, estimator{e, plugin})
	}
	if len(chain.plugins) > 0 {
		c.Quality = chain
	}
	return nil
}

// budgeted keeps the model calls of a verification within its max_usd.
type budgeted struct {
	sdk.Verifier
	usd float64
}

// Verify implements [sdk.Verifier].
func (b budgeted) Verify(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	return b.Verifier.Verify(wire.WithModelBudget(ctx, b.usd), req)
}

// hostConfig turns the policy's plugin blocks into the host's settings.
func (s *setup) hostConfig(o *Options) host.Config {
	p := s.policy
	c := host.Config{Logger: o.Logger, Plugins: map[string]host.PluginConfig{}, Models: wire.ModelCallerFunc(s.ask)}
	if !strings.HasPrefix(p.Path, "library:") {
		c.Dir = filepath.Dir(p.Path)
	}
	for i := range p.Plugins {
		b := &p.Plugins[i]
		settings := host.PluginConfig{
			PassEnv: b.Env, SHA256: b.Checksum, StartTimeout: b.StartTimeout, CallTimeout: b.CallTimeout, VerifyTimeout: verifyTimeout(p, b),
			Isolation: host.Isolation(b.Isolation), Memory: int64(b.Memory), Require: b.Require,
			Models: wire.ModelLimits{Calls: b.ModelCalls, CostUSD: b.ModelUSD, Timeout: b.ModelTimeout},
		}
		if b.Path != "" {
			settings.Path = s.path(b.Path)
		}
		for _, path := range b.Read {
			settings.Read = append(settings.Read, s.path(path))
		}
		c.Plugins[b.Name] = settings
	}
	return c
}

// ask calls a model for a plugin, a judge for instance: one of the plugin's policy,
// whichever policy is at work by then.
func (s *setup) ask(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
	return s.model.Ask(ctx, model, q)
}

// verifyTimeout is the longest that any verifier block of the plugin asks for, or
// the plugin's call_timeout; the block's own timeout bounds each verification.
func verifyTimeout(p *policies.Policy, b *policies.Plugin) time.Duration {
	longest := b.CallTimeout
	for i := range p.Verifiers {
		if p.Verifiers[i].Plugin == b.Name {
			longest = max(longest, p.Verifiers[i].Timeout)
		}
	}
	return longest
}

// estimators asks plugins in the order of the policy; the first that does not
// abstain on a model counts, then the fitted estimator.
type estimators struct {
	plugins []estimator
	last    sdk.QualityEstimator
}

type estimator struct {
	block  *policies.Estimator
	plugin sdk.QualityEstimator
}

// EstimateQuality implements [sdk.QualityEstimator].
func (c estimators) EstimateQuality(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	out := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i := range out.Estimates {
		out.Estimates[i] = sdk.Abstain()
	}
	open := len(req.Models)
	take := func(resp *sdk.QualityResponse, speaksOf []string) {
		for i, e := range resp.Estimates {
			if out.Estimates[i].Abstains() && !e.Abstains() && (speaksOf == nil || slices.Contains(speaksOf, req.Models[i])) {
				out.Estimates[i] = e
				open--
			}
		}
	}
	for _, e := range c.plugins {
		if open == 0 {
			return out, nil
		}
		if !e.block.When.Matches(req.Query) {
			continue
		}
		resp, err := e.ask(ctx, req)
		out.CostUSD += sdk.SpentUSD(err)
		switch {
		case err == nil:
			out.CostUSD += resp.CostUSD
			take(resp, e.block.Models)
		case e.block.OnUnavailable == "fail":
			return nil, fmt.Errorf("%w: %s: %w", step.ErrEstimatorUnavailable, e.block.Name, err)
		}
	}
	if c.last == nil || open == 0 {
		return out, nil
	}
	resp, err := c.last.EstimateQuality(ctx, req)
	if err == nil && len(resp.Estimates) == len(req.Models) {
		out.CostUSD += resp.CostUSD
		take(resp, nil)
	}
	return out, err
}

func (e estimator) ask(ctx context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	if e.block.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.block.Timeout)
		defer cancel()
	}
	resp, err := e.plugin.EstimateQuality(ctx, req)
	if err == nil && (resp == nil || len(resp.Estimates) != len(req.Models)) {
		err = fmt.Errorf("want %d estimates", len(req.Models))
	}
	return resp, err
}

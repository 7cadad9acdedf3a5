package router

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/plugin/wire"
)

// plugins returns what gives out the policy's plugins: the caller's, or a host of its
// own.
func (s *setup) plugins(o *Options) (Plugins, error) {
	inner, err := s.hosted(o)
	if err != nil || o.Verifiers == nil {
		return inner, err
	}
	return judged{inner, o.Verifiers}, nil
}

// judged are plugins of which others judge.
type judged struct {
	Plugins
	verifiers func(block string) sdk.Verifier
}

// Verifier implements [Plugins].
func (j judged) Verifier(name, _ string, _ map[string]any) (sdk.Verifier, error) {
	return j.verifiers(name), nil
}

func (s *setup) hosted(o *Options) (Plugins, error) {
	if o.Plugins != nil || len(s.policy.Verifiers)+len(s.policy.Estimators) == 0 {
		return o.Plugins, nil
	}
	h, err := host.New(s.hostConfig(o))
	if err != nil {
		return nil, fmt.Errorf("starting the plugin host: %w", err)
	}
	s.closers = append(s.closers, h.Close)
	s.start, s.stats = h.Start, h.Stats
	return h, nil
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

package router

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Plugins provides the estimators and verifiers that are plugins: a [PluginHost], or an application's
// replacement for one.
type Plugins interface {
	// Verifier returns the plugin with this configuration under the name of its block.
	Verifier(name, plugin string, config map[string]any) (sdk.Verifier, error)
	// QualityEstimator does the same for a block that estimates quality.
	QualityEstimator(name, plugin string, config map[string]any) (sdk.QualityEstimator, error)
	// CostEstimator does the same for a block that estimates costs.
	CostEstimator(name, plugin string, config map[string]any) (sdk.CostEstimator, error)
}

// PluginHost runs the plugins of one policy.
type PluginHost interface {
	Plugins
	// Start starts those that have not been started by their first use.
	Start(ctx context.Context) error
	// Close stops them.
	Close() error
}

// PluginHosts runs plugins, each policy's in a host of its own.
type PluginHosts interface {
	// Host returns a host for the policy's plugins. They call models by ask; nil is no logger.
	Host(p *policies.Policy, ask func(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error), logger hclog.Logger) (PluginHost, error)
	// Schemas returns the schemas by which the config blocks of the policy at a path are
	// checked while it is loaded.
	Schemas(ctx context.Context, policy string) policies.SchemaSource
}

// plugins returns the plugins of the policy, from the caller or a host of its own.
func (s *setup) plugins(o *Options) (Plugins, error) {
	inner, err := s.openPlugins(o)
	if err != nil || o.Verifiers == nil {
		return inner, err
	}
	return replacedVerifiers{inner, o.Verifiers}, nil
}

// replacedVerifiers are plugins with other verifiers.
type replacedVerifiers struct {
	Plugins
	verifiers func(block string) sdk.Verifier
}

func (j replacedVerifiers) Verifier(name, _ string, _ map[string]any) (sdk.Verifier, error) {
	return j.verifiers(name), nil
}

func (s *setup) openPlugins(o *Options) (Plugins, error) {
	isPlugin := func(e policies.Estimator) bool { return !e.BuiltIn() }
	if o.Plugins != nil || len(s.policy.Verifiers) == 0 && !slices.ContainsFunc(s.policy.Estimators, isPlugin) {
		return o.Plugins, nil
	}
	if o.PluginHosts == nil {
		return nil, errors.New("the policy has plugins, and the program has nothing that runs them: set Options.PluginHosts, or open the policy by package adapters/full")
	}
	h, err := o.PluginHosts.Host(s.policy, s.ask, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("starting the plugin host: %w", err)
	}
	s.closers = append(s.closers, h.Close)
	s.host = h
	return h, nil
}

// ask calls a model of this policy for a plugin, even after a newer policy is at work.
func (s *setup) ask(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
	return s.model.Ask(ctx, model, q)
}

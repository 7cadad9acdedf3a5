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

// Plugins provides the estimators and verifiers that are plugins. It is a [PluginHost], or an application's
// replacement for one.
type Plugins interface {
	// Verifier returns the verifier of the named plugin with this configuration. name is the name of its block.
	Verifier(name, plugin string, config map[string]any) (sdk.Verifier, error)
	// QualityEstimator does the same for an estimator of quality.
	QualityEstimator(name, plugin string, config map[string]any) (sdk.QualityEstimator, error)
	// CostEstimator does the same for an estimator of costs.
	CostEstimator(name, plugin string, config map[string]any) (sdk.CostEstimator, error)
}

// PluginHost runs the plugins of one policy.
type PluginHost interface {
	Plugins
	// Start starts the plugins that have not been started by their first use.
	Start(ctx context.Context) error
	// Close stops the plugins.
	Close() error
}

// PluginHosts runs plugins, with a separate host for each policy.
type PluginHosts interface {
	// Host returns a host for the policy's plugins, which call models through ask. A nil logger discards messages.
	Host(p *policies.Policy, ask func(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error), logger hclog.Logger) (PluginHost, error)
	// Schemas returns the schemas for checking the plugins' config blocks while the policy at the given path
	// is loaded.
	Schemas(ctx context.Context, policy string) policies.SchemaSource
}

// plugins returns the policy's plugins, from the caller or from a host that the setup owns.
func (s *setup) plugins(o *Options) (Plugins, error) {
	inner, err := s.openPlugins(o)
	if err != nil || o.Verifiers == nil {
		return inner, err
	}
	return replacedVerifiers{inner, o.Verifiers}, nil
}

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
		return nil, errors.New("the policy has plugins, but the program cannot run them: set Options.PluginHosts, or open the policy by package adapters/full")
	}
	h, err := o.PluginHosts.Host(s.policy, s.ask, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("starting the plugin host: %w", err)
	}
	s.closers = append(s.closers, h.Close)
	s.host = h
	return h, nil
}

// ask calls a model of this policy for a plugin, even after a newer policy has replaced it.
func (s *setup) ask(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
	return s.model.Ask(ctx, model, q)
}

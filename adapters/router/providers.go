package router

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

func (s *setup) deployments(m *policies.Model, o *Options) ([]middleware.Deployment, error) {
	if m.Provider == "go" {
		llm, isGiven := o.Models[m.Name]
		if isGiven && llm == nil {
			return nil, fmt.Errorf("model %s is nil in Options.Models", m.Name)
		}
		if llm == nil {
			return nil, fmt.Errorf("model %s has the provider \"go\": pass it in Options.Models", m.Name)
		}
		return []middleware.Deployment{{LLM: llm}}, nil
	}
	served := []policies.Deployment{{Served: m.Served, BaseURL: m.BaseURL, APIKey: m.APIKey}}
	served = append(served, m.Deployments...)
	list := make([]middleware.Deployment, len(served))
	for i, p := range served {
		llm, err := s.provider(m, &p, o)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
		list[i] = middleware.Deployment{Name: p.Name, LLM: llm}
	}
	return list, nil
}

func (s *setup) provider(m *policies.Model, d *policies.Deployment, o *Options) (llms.Model, error) {
	open := o.Providers[m.Provider]
	if open == nil {
		return nil, fmt.Errorf("the program has no client for provider %q: pass one in Options.Providers, or open the policy by package adapters/full, which has them all", m.Provider)
	}
	key := d.APIKey
	if !key.Set() {
		key = m.APIKey
	}
	return open(middleware.ClientConfig{
		Model: cmp.Or(d.Served, m.Served, m.Name), APIKey: key.Reveal(), BaseURL: d.BaseURL, API: m.API, MaxTokensField: m.MaxTokensField,
		MaxOutputTokens: m.MaxOutputTokens, ContextTokens: m.ContextTokens, TopLogProbs: s.topLogProbs(m), Transport: o.Transport,
	})
}

// topLogProbs returns the number of alternatives to request for each token. They make answers several times
// as long on the wire, so the number that package feature needs is requested only for an estimator, or for
// records to which one can be fitted.
func (s *setup) topLogProbs(m *policies.Model) int {
	p := s.policy
	records := p.Mode == string(middleware.Observe) || p.Mode == string(middleware.Shadow) || p.Trace.Explore > 0
	wanted := records || p.Fit != nil || slices.ContainsFunc(p.Estimators, func(e policies.Estimator) bool { return !e.BuiltIn() })
	switch {
	case !m.SDK().Capabilities.LogProbs:
		return 0
	case wanted:
		return 5
	case s.policy.Stream.MinTokenProbability > 0:
		return 1
	}
	return 0
}

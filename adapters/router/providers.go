package router

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/anthropic"
	"github.com/stepfall/stepfall/adapters/provider/gemini"
	"github.com/stepfall/stepfall/adapters/provider/ollama"
	"github.com/stepfall/stepfall/adapters/provider/openai"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// deployments returns the model's own server and the others, in order.
func (s *setup) deployments(m *policies.Model, o *Options) ([]middleware.Deployment, error) {
	if m.Provider == "go" {
		llm := o.Models[m.Name]
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

// baseURLs are the environment variables that say where a provider is, where a policy
// does not.
var baseURLs = map[string]string{"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL", "ollama": "OLLAMA_HOST"}

// mistral speaks OpenAI's chat completions.
const mistral = "https://api.mistral.ai/v1"

// provider makes the client of one deployment of a model.
func (s *setup) provider(m *policies.Model, p *policies.Deployment, o *Options) (llms.Model, error) {
	served, key := cmp.Or(p.Served, m.Served, m.Name), p.APIKey
	if !key.Set() {
		key = m.APIKey
	}
	// What the providers' own clients read from the environment holds here too.
	if variable := baseURLs[m.Provider]; p.BaseURL == "" && variable != "" {
		p.BaseURL = os.Getenv(variable)
		if m.Provider == "ollama" && p.BaseURL != "" && !strings.Contains(p.BaseURL, "://") {
			p.BaseURL = "http://" + p.BaseURL // as Ollama itself takes it
		}
	}
	switch m.Provider {
	case "openai", "mistral":
		c := openai.Options{
			Model: served, APIKey: key.Reveal(), BaseURL: p.BaseURL, MaxTokensField: m.MaxTokensField, TopLogProbs: s.topLogProbs(m), Transport: o.Transport,
		}
		if m.API == "responses" {
			c.API = middleware.DialectResponses
		}
		if m.Provider == "mistral" {
			c.BaseURL = cmp.Or(c.BaseURL, mistral)
		}
		return refuseNil(openai.New(c))
	case "anthropic":
		return refuseNil(anthropic.New(anthropic.Options{
			Model: served, APIKey: key.Reveal(), BaseURL: p.BaseURL, MaxTokens: m.MaxOutputTokens, Transport: o.Transport,
		}))
	case "gemini":
		return refuseNil(gemini.New(gemini.Options{Model: served, APIKey: key.Reveal(), BaseURL: p.BaseURL, TopLogProbs: s.topLogProbs(m), Transport: o.Transport}))
	case "ollama":
		return refuseNil(ollama.New(ollama.Options{
			Model: served, APIKey: key.Reveal(), BaseURL: p.BaseURL, ContextTokens: m.ContextTokens, TopLogProbs: s.topLogProbs(m), Transport: o.Transport,
		}))
	}
	return nil, fmt.Errorf("unknown provider %q", m.Provider)
}

// refuseNil keeps a nil pointer from becoming a non-nil interface.
func refuseNil[M llms.Model](m M, err error) (llms.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// topLogProbs is how many alternatives to ask for at each token: what the features of
// package feature use, where the model gives them and somebody in the policy
// estimates. They make answers several times as long on the wire.
func (s *setup) topLogProbs(m *policies.Model) int {
	wanted := len(s.policy.Estimators) > 0 || s.policy.Fit != nil
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

package router

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/anthropic"
	"github.com/tmc/langchaingo/llms/mistral"
	"github.com/tmc/langchaingo/llms/ollama"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/logprob"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// noKey is sent to servers that want none: the openai client refuses to be made
// without.
const noKey = "none"

// deployments returns the model's own server and the others, in order.
func (s *setup) deployments(m *policies.Model, o *Options) ([]middleware.Deployment, error) {
	if m.Provider == "go" {
		llm := o.Models[m.Name]
		if llm == nil {
			return nil, fmt.Errorf("model %s has the provider \"go\": pass it in Options.Models", m.Name)
		}
		return []middleware.Deployment{{LLM: llm}}, nil
	}
	places := []policies.Deployment{{Served: m.Served, BaseURL: m.BaseURL, APIKey: m.APIKey}}
	places = append(places, m.Deployments...)
	list := make([]middleware.Deployment, len(places))
	for i, p := range places {
		d, err := s.provider(m, &p, o)
		if err != nil {
			return nil, fmt.Errorf("model %s: making the %s client: %w", m.Name, m.Provider, err)
		}
		d.Name = p.Name
		list[i] = d
	}
	return list, nil
}

// provider makes the langchaingo client for one place where a model is served.
func (s *setup) provider(m *policies.Model, p *policies.Deployment, o *Options) (middleware.Deployment, error) {
	served, key := cmp.Or(p.Served, m.Served, m.Name), p.APIKey
	if !key.Set() {
		key = m.APIKey
	}
	tapped := &http.Client{Transport: &logprob.Transport{Base: o.Transport}}
	d := middleware.Deployment{Tap: logprob.Tap{Options: s.tapOptions(m)}}
	var err error
	switch m.Provider {
	case "openai":
		options := []openai.Option{openai.WithModel(served), openai.WithToken(cmp.Or(key.Reveal(), noKey)), openai.WithHTTPClient(tapped)}
		if p.BaseURL != "" {
			options = append(options, openai.WithBaseURL(p.BaseURL))
		}
		d.LLM, err = refuseNil(openai.New(options...))
	case "anthropic":
		options := []anthropic.Option{anthropic.WithModel(served), anthropic.WithToken(cmp.Or(key.Reveal(), noKey)), anthropic.WithHTTPClient(tapped)}
		if p.BaseURL != "" {
			options = append(options, anthropic.WithBaseURL(p.BaseURL))
		}
		d.LLM, err = refuseNil(anthropic.New(options...))
	case "ollama":
		options := []ollama.Option{ollama.WithModel(served), ollama.WithHTTPClient(tapped)}
		if p.BaseURL != "" {
			options = append(options, ollama.WithServerURL(p.BaseURL))
		}
		d.LLM, err = refuseNil(ollama.New(options...))
	case "mistral":
		// Its client takes no HTTP client, so there is nothing to tap; retries are ours.
		options := []mistral.Option{mistral.WithModel(served), mistral.WithAPIKey(key.Reveal()), mistral.WithMaxRetries(1)}
		if p.BaseURL != "" {
			options = append(options, mistral.WithEndpoint(p.BaseURL))
		}
		if m.Timeout > 0 {
			options = append(options, mistral.WithTimeout(m.Timeout))
		}
		d.Tap = nil
		d.LLM, err = refuseNil(mistral.New(options...))
	default:
		err = fmt.Errorf("unknown provider %q", m.Provider)
	}
	return d, err
}

// refuseNil keeps a nil pointer from becoming a non-nil interface.
func refuseNil[M llms.Model](m M, err error) (llms.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// topLogProbs is how many alternatives are asked for at each token: what the
// features of package feature use.
const topLogProbs = 5

// tapOptions asks for log-probabilities where the model gives them and somebody in
// the policy estimates: they make answers several times as long on the wire.
func (s *setup) tapOptions(m *policies.Model) logprob.Options {
	wanted := len(s.policy.Estimators) > 0 || s.policy.Fit != nil
	if !wanted || m.Provider != "openai" || !m.SDK().Capabilities.LogProbs {
		return logprob.Options{}
	}
	return logprob.Options{TopLogProbs: topLogProbs}
}

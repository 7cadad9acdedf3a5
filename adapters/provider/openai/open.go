package openai

import (
	"cmp"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Open is a [middleware.OpenClient] for OpenAI and the servers that speak like it, at
// OPENAI_BASE_URL where the configuration names no address.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	c.BaseURL = cmp.Or(c.BaseURL, os.Getenv("OPENAI_BASE_URL"))
	return open(c)
}

// OpenMistral is a [middleware.OpenClient] for Mistral, which speaks OpenAI's chat completions.
func OpenMistral(c middleware.ClientConfig) (llms.Model, error) {
	c.BaseURL = cmp.Or(c.BaseURL, "https://api.mistral.ai/v1")
	return open(c)
}

func open(c middleware.ClientConfig) (llms.Model, error) {
	o := Options{
		Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL, MaxTokensField: c.MaxTokensField, TopLogProbs: c.TopLogProbs, Transport: c.Transport,
	}
	if c.API == "responses" {
		o.API = middleware.DialectResponses
	}
	m, err := New(o)
	if err != nil {
		return nil, err // a nil *Model would not be a nil llms.Model
	}
	return m, nil
}

package gemini

import (
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Open is a [middleware.OpenClient] for Gemini.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	m, err := New(Options{Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL, TopLogProbs: c.TopLogProbs, Transport: c.Transport})
	if err != nil {
		return nil, err // a nil *Model would not be a nil llms.Model
	}
	return m, nil
}

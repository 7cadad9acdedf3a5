package anthropic

import (
	"cmp"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Open is a [middleware.OpenClient] for Anthropic, at ANTHROPIC_BASE_URL where the
// configuration names no address.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	m, err := New(Options{
		Model: c.Model, APIKey: c.APIKey, BaseURL: cmp.Or(c.BaseURL, os.Getenv("ANTHROPIC_BASE_URL")), MaxTokens: c.MaxOutputTokens, Transport: c.Transport,
	})
	if err != nil {
		return nil, err // a nil *Model would not be a nil llms.Model
	}
	return m, nil
}

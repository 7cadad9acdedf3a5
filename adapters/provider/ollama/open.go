package ollama

import (
	"cmp"
	"os"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Open is a [middleware.OpenClient] for Ollama, at OLLAMA_HOST where the configuration names no
// address. Like Ollama's own programs it takes a host without a scheme.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	url := cmp.Or(c.BaseURL, os.Getenv("OLLAMA_HOST"))
	if c.BaseURL == "" && url != "" && !strings.Contains(url, "://") {
		url = "http://" + url
	}
	m, err := New(Options{Model: c.Model, APIKey: c.APIKey, BaseURL: url, ContextTokens: c.ContextTokens, TopLogProbs: c.TopLogProbs, Transport: c.Transport})
	if err != nil {
		return nil, err // a nil *Model would not be a nil llms.Model
	}
	return m, nil
}

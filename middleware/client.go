package middleware

import (
	"net/http"

	"github.com/tmc/langchaingo/llms"
)

// ClientConfig says which model a client calls, and where. Zero values mean the provider's own
// defaults.
type ClientConfig struct {
	// Model is the name under which the provider serves the model.
	Model string
	// APIKey and BaseURL, where empty, come from the environment variables that the
	// provider's own clients read.
	APIKey, BaseURL string
	// API is the provider's API if it has several: "chat" or "responses".
	API string
	// MaxTokensField is the request field that limits the length of an answer, if a server's differs from
	// its API's.
	MaxTokensField string
	// MaxOutputTokens and ContextTokens are the model's limits; 0 is unknown.
	MaxOutputTokens, ContextTokens int
	// TopLogProbs is how many alternatives to request at each token; 0 is none.
	TopLogProbs int
	// Transport makes the HTTP requests; nil means the connection pool that all providers share.
	Transport http.RoundTripper
}

// OpenClient creates the client of one model of a provider. Package provider has implementations.
type OpenClient func(ClientConfig) (llms.Model, error)

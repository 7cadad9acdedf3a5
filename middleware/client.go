package middleware

import (
	"net/http"

	"github.com/tmc/langchaingo/llms"
)

// ClientConfig says which model a client asks, and where. Zero values are the provider's own
// defaults.
type ClientConfig struct {
	// Model is the name under which the provider serves the model.
	Model string
	// APIKey and BaseURL, where empty, come from the environment variables that the
	// provider's own clients read.
	APIKey, BaseURL string
	// API is the provider's API where it has several: "chat" or "responses".
	API string
	// MaxTokensField is the field of a request for the longest answer, where a server has
	// another one than its API.
	MaxTokensField string
	// MaxOutputTokens and ContextTokens are the model's limits; 0 is unknown.
	MaxOutputTokens, ContextTokens int
	// TopLogProbs is how many alternatives to ask for at each token; 0 is none.
	TopLogProbs int
	// Transport makes the HTTP requests; nil means the connections that all providers share.
	Transport http.RoundTripper
}

// OpenClient makes the client of one model of a provider. Package provider has those that there are.
type OpenClient func(ClientConfig) (llms.Model, error)

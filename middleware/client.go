package middleware

import (
	"net/http"

	"github.com/tmc/langchaingo/llms"
)

// ClientConfig says which model a client calls, and where. Zero values mean the provider's defaults.
type ClientConfig struct {
	// Model is the name under which the provider serves the model.
	Model string
	// APIKey and BaseURL default to the environment variables that the provider's own clients read.
	APIKey, BaseURL string
	// API selects one of the provider's APIs if it has several: "chat" or "responses".
	API string
	// MaxTokensField is the request field that limits the length of an answer, if the server's differs from
	// the API's.
	MaxTokensField string
	// MaxOutputTokens and ContextTokens are the model's limits; 0 means unknown.
	MaxOutputTokens, ContextTokens int
	// TopLogProbs is the number of alternatives to request for each token; 0 requests none.
	TopLogProbs int
	// Transport makes the HTTP requests; nil means the connection pool shared by all providers.
	Transport http.RoundTripper
}

// OpenClient creates the client of one model of a provider. Package provider implements it.
type OpenClient func(ClientConfig) (llms.Model, error)

package anthropic

import (
	"cmp"
	"net/http"
	"os"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

// Options configure a Model. Model is the only field that must be set.
type Options struct {
	// Model is the provider's name of the model.
	Model string
	// APIKey is sent as x-api-key; a server that wants none gets none.
	APIKey string
	// BaseURL is where the API begins; empty means https://api.anthropic.com.
	BaseURL string
	// MaxTokens limits an answer for which the caller names no limit, since the API
	// takes no request without; 0 means 8,192.
	MaxTokens int
	// Transport makes the requests; nil is a pool that all providers share. MaxAnswer
	// bounds an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

// Model is a model behind Anthropic's API. It is safe for concurrent use.
type Model struct{ *wire.Model }

var (
	_ llms.Model         = (*Model)(nil)
	_ middleware.Speaker = (*Model)(nil)
	_ middleware.Limiter = (*Model)(nil)
)

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	server, address, err := wire.NewServer(wire.Config{
		Provider: "anthropic", Model: o.Model, DefaultURL: "https://api.anthropic.com",
		BaseURL:   strings.TrimSuffix(strings.TrimSuffix(o.BaseURL, "/"), "/v1"), // langchaingo's client had the version in the address
		KeyHeader: "X-Api-Key", APIKey: o.APIKey, Transport: o.Transport, MaxAnswer: o.MaxAnswer,
	})
	if err != nil {
		return nil, err
	}
	server.URL = address.JoinPath("/v1/messages").String()
	server.Header.Set("Anthropic-Version", "2023-06-01")
	call := dialect.Call{Model: o.Model, MaxTokens: cmp.Or(o.MaxTokens, 8192), Limits: dialect.Anthropic(o.Model)}
	return &Model{wire.NewModel(middleware.DialectAnthropic, server, call, 0)}, nil
}

// Open is a [middleware.OpenClient] for Anthropic, at ANTHROPIC_BASE_URL where the
// configuration names no address.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	return wire.AsModel(New(Options{
		Model: c.Model, APIKey: c.APIKey, BaseURL: cmp.Or(c.BaseURL, os.Getenv("ANTHROPIC_BASE_URL")), MaxTokens: c.MaxOutputTokens, Transport: c.Transport,
	}))
}

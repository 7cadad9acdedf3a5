package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Options configure a Model. Model is the only field that must be set.
type Options struct {
	// Model is the provider's name of the model.
	Model string
	// APIKey is sent as a bearer token. A server that wants none gets none.
	APIKey string
	// BaseURL is where the API begins; empty means https://api.openai.com/v1.
	BaseURL string
	// API is the dialect: chat completions when empty, or the Responses API.
	API middleware.Dialect
	// MaxTokensField is how chat completions spell the limit of an answer. Empty means
	// max_completion_tokens for OpenAI and Azure, and max_tokens for all others, of
	// which many know nothing else and would answer without a limit.
	MaxTokensField string
	// TopLogProbs asks for that many alternatives at each token of each answer, whether
	// the caller wants them or not: estimators do.
	TopLogProbs int
	// Transport makes the requests; nil is a pool that all providers share. MaxAnswer
	// bounds an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

// Model is a model behind OpenAI's API, or one like it. It is safe for concurrent use.
type Model struct {
	*wire.Model

	name   string
	server *wire.Server
	embed  string // the address for embeddings
}

var (
	_ llms.Model                     = (*Model)(nil)
	_ middleware.Speaker             = (*Model)(nil)
	_ middleware.Embedder            = (*Model)(nil)
	_ middleware.Limiter             = (*Model)(nil)
	_ middleware.UnsupportedReporter = (*Model)(nil)
)

const provider = "openai"

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	server, address, err := wire.NewServer(wire.Config{
		Provider: provider, Model: o.Model, BaseURL: o.BaseURL, DefaultURL: "https://api.openai.com/v1",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ", APIKey: o.APIKey, Transport: o.Transport, MaxAnswer: o.MaxAnswer,
	})
	if err != nil {
		return nil, err
	}
	api, path := cmp.Or(o.API, middleware.DialectChat), "/chat/completions"
	switch api {
	case middleware.DialectChat:
	case middleware.DialectResponses:
		path = "/responses"
	default:
		return nil, fmt.Errorf("making a model of openai: unknown API %q", o.API)
	}
	if o.MaxTokensField == "" {
		o.MaxTokensField = "max_tokens"
		if dialect.IsOpenAI(address.Hostname()) {
			o.MaxTokensField = "max_completion_tokens"
		}
	}
	server.URL = address.JoinPath(path).String()
	call := dialect.Call{Model: o.Model, MaxTokensField: o.MaxTokensField, Limits: dialect.OpenAI(api, address.Hostname(), o.Model)}
	return &Model{Model: wire.NewModel(api, server, call, o.TopLogProbs), name: o.Model, server: server, embed: address.JoinPath("/embeddings").String()}, nil
}

// Open is a [middleware.OpenClient] for OpenAI and the servers that speak like it, at
// OPENAI_BASE_URL where the configuration names no address.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	return open(c, os.Getenv("OPENAI_BASE_URL"))
}

// OpenMistral is a [middleware.OpenClient] for Mistral, which speaks OpenAI's chat completions.
func OpenMistral(c middleware.ClientConfig) (llms.Model, error) {
	return open(c, "https://api.mistral.ai/v1")
}

func open(c middleware.ClientConfig, address string) (llms.Model, error) {
	o := Options{
		Model: c.Model, APIKey: c.APIKey, BaseURL: cmp.Or(c.BaseURL, address), MaxTokensField: c.MaxTokensField, TopLogProbs: c.TopLogProbs, Transport: c.Transport,
	}
	if c.API == "responses" {
		o.API = middleware.DialectResponses
	}
	return wire.AsModel(New(o))
}

// Embed asks for embeddings: it implements [middleware.Embedder]. Fields go to the server
// as they are, but for the model.
func (m *Model) Embed(ctx context.Context, request json.RawMessage) (json.RawMessage, sdk.Usage, error) {
	none := sdk.Usage{}
	var body dialect.Object
	if err := json.Unmarshal(request, &body); err != nil || body == nil {
		return nil, none, wire.RefusedField(provider, "", "the request is no JSON object: %v", err)
	}
	body["model"] = m.name
	answer, x, err := m.server.PostWhole(ctx, m.embed, body)
	if err != nil {
		return nil, none, err
	}
	var in struct {
		Data  []json.RawMessage `json:"data"`
		Usage struct {
			Prompt dialect.Count `json:"prompt_tokens"`
			Total  dialect.Count `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(answer, &in); err != nil {
		return nil, none, x.UnreadableError(provider, err)
	}
	if in.Data == nil { // some servers say 200 to an error
		return nil, none, x.ServerError(provider, answer)
	}
	if dialect.AnyBroken(in.Usage.Prompt, in.Usage.Total) {
		return answer, dialect.BrokenUsage, nil
	}
	return answer, sdk.Usage{InputTokens: int(max(in.Usage.Prompt, in.Usage.Total))}, nil
}

package ollama

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
	// Model is Ollama's name of the model.
	Model string
	// BaseURL is the server's address; empty means http://127.0.0.1:11434.
	BaseURL string
	// APIKey is sent as a bearer token, for servers behind one that asks for it.
	APIKey string
	// ContextTokens is the context to load the model with; 0 leaves it to the server,
	// whose own may be as short as 4,096 tokens. A prompt that is longer than the
	// context is an error instead of losing its beginning.
	ContextTokens int
	// TopLogProbs asks for that many alternatives at each token of each answer.
	TopLogProbs int
	// Transport makes the requests; nil is a pool that all providers share. MaxAnswer
	// bounds an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

// Model is a model that Ollama serves. It is safe for concurrent use.
type Model struct {
	*wire.Model

	o      Options
	server *wire.Server
	embed  string // the address for embeddings
}

var (
	_ llms.Model          = (*Model)(nil)
	_ middleware.Speaker  = (*Model)(nil)
	_ middleware.Limiter  = (*Model)(nil)
	_ middleware.Embedder = (*Model)(nil)
)

const provider = "ollama"

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	server, address, err := wire.NewServer(wire.Config{
		Provider: provider, Model: o.Model, BaseURL: o.BaseURL, DefaultURL: "http://127.0.0.1:11434",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ", APIKey: o.APIKey, Transport: o.Transport, MaxAnswer: o.MaxAnswer,
	})
	if err != nil {
		return nil, err
	}
	server.URL, server.HasLines = address.JoinPath("api/chat").String(), true
	call := dialect.Call{Model: o.Model, ContextTokens: o.ContextTokens, Limits: dialect.Ollama}
	return &Model{Model: wire.NewModel(middleware.DialectOllama, server, call, o.TopLogProbs), o: o, server: server, embed: address.JoinPath("api/embed").String()}, nil
}

// Open is a [middleware.OpenClient] for Ollama, at OLLAMA_HOST where the configuration names no
// address. Like Ollama's own programs it takes a host without a scheme.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	url := cmp.Or(c.BaseURL, os.Getenv("OLLAMA_HOST"))
	if c.BaseURL == "" && url != "" && !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return wire.AsModel(New(Options{Model: c.Model, APIKey: c.APIKey, BaseURL: url, ContextTokens: c.ContextTokens, TopLogProbs: c.TopLogProbs, Transport: c.Transport}))
}

package gemini

import (
	"net/http"
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
	// APIKey is the key of the Gemini API.
	APIKey string
	// BaseURL is where the API begins; empty means Google's.
	BaseURL string
	// TopLogProbs asks for that many alternatives at each token of each answer.
	TopLogProbs int
	// Transport makes the requests; nil is a pool that all providers share. MaxAnswer
	// bounds an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

// Model is a model behind the Gemini API. It is safe for concurrent use.
type Model struct{ *wire.Model }

var (
	_ llms.Model         = (*Model)(nil)
	_ middleware.Speaker = (*Model)(nil)
	_ middleware.Limiter = (*Model)(nil)
)

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	server, address, err := wire.NewServer(wire.Config{
		Provider: "gemini", Model: o.Model, BaseURL: o.BaseURL, DefaultURL: "https://generativelanguage.googleapis.com/",
		KeyHeader: "X-Goog-Api-Key", APIKey: o.APIKey, Transport: o.Transport, MaxAnswer: o.MaxAnswer,
	})
	if err != nil {
		return nil, err
	}
	name := o.Model
	if !strings.HasPrefix(name, "models/") && !strings.HasPrefix(name, "tunedModels/") {
		name = "models/" + name
	}
	server.URL = address.JoinPath("v1beta", name+":generateContent").String()
	server.StreamURL = address.JoinPath("v1beta", name+":streamGenerateContent").String() + "?alt=sse"
	return &Model{wire.NewModel(middleware.DialectGemini, server, dialect.Call{Model: o.Model, Limits: dialect.Gemini}, o.TopLogProbs)}, nil
}

// Open is a [middleware.OpenClient] for Gemini.
func Open(c middleware.ClientConfig) (llms.Model, error) {
	return wire.AsModel(New(Options{Model: c.Model, APIKey: c.APIKey, BaseURL: c.BaseURL, TopLogProbs: c.TopLogProbs, Transport: c.Transport}))
}

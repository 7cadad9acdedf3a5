package provider

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Options say which model to ask, and where. Model is the only field that must be set.
type Options struct {
	// API is the model's; empty means chat completions.
	API middleware.Dialect
	// Model is the provider's name of the model.
	Model string
	// APIKey is sent in the header that the API has for it. A server that wants none gets
	// none.
	APIKey string
	// BaseURL is where the API begins; empty means the vendor's own.
	BaseURL string
	// VendorHost is the host whose limits on requests hold, where BaseURL is that of a proxy before
	// it; empty means the host of BaseURL.
	VendorHost string
	// MaxTokensField is how chat completions spell the limit of an answer. Empty means
	// max_completion_tokens for OpenAI and Azure, and max_tokens for all others, of
	// which many know nothing else and would answer without a limit.
	MaxTokensField string
	// MaxTokens limits an answer for which the caller names no limit, in Messages, which
	// takes no request without; 0 means 8,192.
	MaxTokens int
	// ContextTokens is the context that Ollama loads the model with; 0 leaves it to the
	// server, whose own may be as short as 4,096 tokens.
	ContextTokens int
	// TopLogProbs asks for that many alternatives at each token of each answer, whether
	// the caller wants them or not: estimators do.
	TopLogProbs int
	// Transport makes the requests; nil is a pool that all models share. MaxAnswer
	// bounds an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

type vendor struct {
	name, url            string
	keyHeader, keyPrefix string
	path, embeddings     string // "" makes no embeddings
}

var vendors = map[middleware.Dialect]vendor{
	middleware.DialectChat:      {"openai", "https://api.openai.com/v1", "Authorization", "Bearer ", "chat/completions", "embeddings"},
	middleware.DialectResponses: {"openai", "https://api.openai.com/v1", "Authorization", "Bearer ", "responses", "embeddings"},
	middleware.DialectAnthropic: {"anthropic", "https://api.anthropic.com", "X-Api-Key", "", "v1/messages", ""},
	middleware.DialectGemini:    {"gemini", "https://generativelanguage.googleapis.com/", "X-Goog-Api-Key", "", "v1beta", ""},
	middleware.DialectOllama:    {"ollama", "http://127.0.0.1:11434", "Authorization", "Bearer ", "api/chat", "api/embed"},
}

// New returns a model. It sends nothing. The model is safe for concurrent use, and a
// [middleware.NativeModel], [middleware.Limiter] and [middleware.UnsupportedReporter]; one of
// OpenAI's APIs or of Ollama is a [middleware.Embedder], too.
func New(o Options) (llms.Model, error) {
	o.API = cmp.Or(o.API, middleware.DialectChat)
	v, ok := vendors[o.API]
	if !ok {
		return nil, fmt.Errorf("making a model: unknown API %q", o.API)
	}
	if o.Model == "" {
		return nil, fmt.Errorf("making a model of %s: no model is named", v.name)
	}
	base := cmp.Or(o.BaseURL, v.url)
	if o.API == middleware.DialectAnthropic {
		base = strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1") // langchaingo's client had the version in the address
	}
	address, err := url.Parse(base)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("making a model of %s: %q is no address", v.name, base)
	}
	host := address.Hostname()
	m := &model{
		client: dialect.Clients[o.API], provider: v.name, http: newClient(o.Transport), origin: dialect.Origin(address.Host, o.Model), topLogProbs: o.TopLogProbs,
		call:   dialect.Call{Model: o.Model, MaxTokens: cmp.Or(o.MaxTokens, 8192), MaxTokensField: o.MaxTokensField, ContextTokens: o.ContextTokens, Limits: dialect.LimitsOf(o.API, cmp.Or(o.VendorHost, host), o.Model)},
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {userAgent}},
		url:    address.JoinPath(v.path).String(), hasLines: o.API == middleware.DialectOllama, maxAnswer: cmp.Or(max(o.MaxAnswer, 0), maxAnswer),
	}
	if o.APIKey != "" {
		m.header.Set(v.keyHeader, v.keyPrefix+o.APIKey)
	}
	switch o.API {
	case middleware.DialectChat:
		own := "max_tokens"
		if dialect.IsOpenAI(host) {
			own = "max_completion_tokens"
		}
		m.call.MaxTokensField = cmp.Or(o.MaxTokensField, own)
	case middleware.DialectAnthropic:
		m.header.Set("Anthropic-Version", "2023-06-01")
	case middleware.DialectGemini:
		address.Path = strings.TrimSuffix(strings.TrimSuffix(address.Path, "/"), "/"+v.path) // Google writes addresses with it
		name := o.Model
		if !strings.HasPrefix(name, "models/") && !strings.HasPrefix(name, "tunedModels/") {
			name = "models/" + name
		}
		m.url, m.streamURL = address.JoinPath(v.path, name+":generateContent").String(), address.JoinPath(v.path, name+":streamGenerateContent").String()+"?alt=sse"
	}
	if user := address.User; user != nil && m.header.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: m.header}).SetBasicAuth(user.Username(), password)
	}
	m.secrets = redact.New(keys(m.header)...)
	const shortest = 16 // a word that stands for a key, as local servers take, may be in an answer
	if long := m.secrets.AtLeast(shortest); long != nil {
		m.inAnswer, m.inEvents = long.InJSON(false), long.InJSON(true)
	}
	if v.embeddings != "" {
		return &embeddingModel{m, address.JoinPath(v.embeddings).String()}, nil
	}
	return m, nil
}

// opener is how a provider's models are opened: its API, the variable that the provider's own
// programs read an address from, and the vendor's host, where the API is another vendor's.
type opener struct {
	api            middleware.Dialect
	variable, host string
}

var openers = map[string]opener{
	"openai":    {middleware.DialectChat, "OPENAI_BASE_URL", ""},
	"mistral":   {middleware.DialectChat, "MISTRAL_BASE_URL", "api.mistral.ai"},
	"anthropic": {middleware.DialectAnthropic, "ANTHROPIC_BASE_URL", ""},
	"gemini":    {middleware.DialectGemini, "GOOGLE_GEMINI_BASE_URL", ""},
	"ollama":    {middleware.DialectOllama, "OLLAMA_HOST", ""},
}

// AddressVariable returns the environment variable that a provider's own programs read its
// address from.
func AddressVariable(provider string) string { return openers[provider].variable }

// Clients are what opens the models of policies, by the provider that they name. Where the
// configuration has no address, it is the one of [AddressVariable].
func Clients() map[string]middleware.OpenClient {
	list := map[string]middleware.OpenClient{}
	for name, p := range openers {
		list[name] = func(c middleware.ClientConfig) (llms.Model, error) {
			address := os.Getenv(p.variable)
			if p.host != "" {
				address = cmp.Or(address, "https://"+p.host+"/v1")
			}
			if name == "ollama" && address != "" && !strings.Contains(address, "://") {
				address = "http://" + address // Ollama's own programs take a host
			}
			api := p.api
			if c.API == "responses" && api == middleware.DialectChat {
				api = middleware.DialectResponses
			}
			return New(Options{
				API: api, Model: c.Model, APIKey: c.APIKey, BaseURL: cmp.Or(c.BaseURL, address), VendorHost: p.host, MaxTokensField: c.MaxTokensField, MaxTokens: c.MaxOutputTokens,
				ContextTokens: c.ContextTokens, TopLogProbs: c.TopLogProbs, Transport: c.Transport,
			})
		}
	}
	return list
}

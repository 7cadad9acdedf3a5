package provider

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Options describe which model to call, and where. Only Model is required.
type Options struct {
	// API is the model's API; empty means chat completions.
	API middleware.Dialect
	// Model is the provider's name for the model.
	Model string
	// APIKey is sent in the header that the API defines for it. Leave it empty for servers without keys.
	APIKey string
	// BaseURL is the base URL of the API; empty means the vendor's own.
	BaseURL string
	// VendorHost is the host whose request limits apply, if BaseURL is the URL of a proxy in front of it;
	// empty means the host of BaseURL.
	VendorHost string
	// MaxTokensField is the field of chat completions that limits the length of an answer. Empty means
	// max_completion_tokens for OpenAI and Azure, and max_tokens for all others, many of which would ignore
	// any other name and answer without a limit.
	MaxTokensField string
	// MaxTokens limits an answer for which the caller sets no limit, in Messages, which requires one; 0
	// means 8,192.
	MaxTokens int
	// ContextTokens is the context size with which Ollama loads the model; 0 leaves it to the server, whose
	// default can be as small as 4,096 tokens.
	ContextTokens int
	// TopLogProbs is the number of alternatives to request for each token of each answer, for estimators, even
	// if the caller does not request any.
	TopLogProbs int
	// Transport makes the requests; nil means a connection pool that all models share. MaxAnswer limits the
	// size of an answer in bytes; 0 means 32 MiB.
	Transport http.RoundTripper
	MaxAnswer int64
}

type vendor struct {
	name, url            string
	keyHeader, keyPrefix string
	path, embeddings     string // "" if the API has no embeddings
}

var vendors = map[middleware.Dialect]vendor{
	middleware.DialectChat:      {"openai", "https://api.openai.com/v1", "Authorization", "Bearer ", "chat/completions", "embeddings"},
	middleware.DialectResponses: {"openai", "https://api.openai.com/v1", "Authorization", "Bearer ", "responses", "embeddings"},
	middleware.DialectAnthropic: {"anthropic", "https://api.anthropic.com", "X-Api-Key", "", "v1/messages", ""},
	middleware.DialectGemini:    {"gemini", "https://generativelanguage.googleapis.com/", "X-Goog-Api-Key", "", "v1beta", ""},
	middleware.DialectOllama:    {"ollama", "http://127.0.0.1:11434", "Authorization", "Bearer ", "api/chat", "api/embed"},
}

// New returns a model. It does not contact the server. The model is safe for concurrent use and implements
// [middleware.NativeModel]; a model of one of OpenAI's APIs or of Ollama also implements [middleware.Embedder].
func New(o Options) (llms.Model, error) {
	o.API = cmp.Or(o.API, middleware.DialectChat)
	v, ok := vendors[o.API]
	if !ok {
		return nil, fmt.Errorf("making a model: unknown API %q", o.API)
	}
	if o.Model == "" {
		return nil, fmt.Errorf("making a model of %s: missing model name", v.name)
	}
	if strings.ContainsFunc(o.APIKey, unicode.IsControl) {
		return nil, fmt.Errorf("making a model of %s: the API key has a line break or another control character", v.name)
	}
	base := cmp.Or(o.BaseURL, v.url)
	if o.API == middleware.DialectAnthropic {
		base = strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1") // langchaingo's client has the version in its URL
	}
	address, err := url.Parse(base)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("making a model of %s: invalid URL %q", v.name, base)
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
		address.Path = strings.TrimSuffix(strings.TrimSuffix(address.Path, "/"), "/"+v.path) // Google's documentation includes the version in URLs
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
	const shortest = 16 // shorter values, such as placeholders for local servers, can occur in an answer by chance
	if long := m.secrets.AtLeast(shortest); long != nil {
		m.inAnswer, m.inEvents = long.InJSON(false), long.InJSON(true)
	}
	if v.embeddings != "" {
		return &embeddingModel{m, address.JoinPath(v.embeddings).String()}, nil
	}
	return m, nil
}

// opener describes how to open a provider's models: the API, the environment variable from which the provider's own
// programs read a URL, and the vendor's host if the API was defined by another vendor.
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

// AddressVariable returns the environment variable from which a provider's own programs read the server's
// address.
func AddressVariable(provider string) string { return openers[provider].variable }

// Clients returns the functions that open the models of policies, by provider name. If the configuration has no
// base URL, the value of [AddressVariable] is used.
func Clients() map[string]middleware.OpenClient {
	list := map[string]middleware.OpenClient{}
	for name, p := range openers {
		list[name] = func(c middleware.ClientConfig) (llms.Model, error) {
			address := os.Getenv(p.variable)
			if p.host != "" {
				address = cmp.Or(address, "https://"+p.host+"/v1")
			}
			if name == "ollama" && address != "" && !strings.Contains(address, "://") {
				address = "http://" + address // Ollama's own programs accept a host
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

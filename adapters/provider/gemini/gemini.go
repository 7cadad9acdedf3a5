package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"google.golang.org/genai"

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
type Model struct {
	o      Options
	client *genai.Client
	origin string // of the state that the model is given back
}

var (
	_ llms.Model         = (*Model)(nil)
	_ middleware.Speaker = (*Model)(nil)
	_ middleware.Limiter = (*Model)(nil)
)

const provider = "gemini"

// maxValues is what the log-probabilities of 80,000 tokens come to, five alternatives
// each. The SDK takes microseconds for each value: 32 MiB of them would be half a minute.
const maxValues = 2 << 20

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	if o.Model == "" {
		return nil, errors.New("making a Gemini model: no model is named")
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: cmp.Or(o.APIKey, "none"),
		HTTPClient:  wire.Client(&wire.Transport{Base: o.Transport, MaxAnswer: o.MaxAnswer, MaxValues: maxValues}),
		HTTPOptions: genai.HTTPOptions{BaseURL: cmp.Or(o.BaseURL, "https://generativelanguage.googleapis.com/")},
	})
	if err != nil {
		return nil, fmt.Errorf("making a Gemini model: %w", err)
	}
	return &Model{o: o, client: client, origin: dialect.Origin(client.ClientConfig().HTTPOptions.BaseURL, o.Model)}, nil
}

// Dialect implements [middleware.Speaker].
func (*Model) Dialect() middleware.Dialect { return middleware.DialectGemini }

// Exclude implements [middleware.Limiter].
func (*Model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	return dialect.Gemini.Exclude(messages, o, p)
}

// Call answers a single prompt.
//
// Deprecated: llms.Model asks for it. Use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// GenerateContent makes one request and returns its answer. An error is a
// [middleware.ProviderError] wherever the server was asked.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (out *llms.ContentResponse, err error) {
	o, p := middleware.Resolve(options...)
	wire.Thinking(&o, &p)
	messages, lost := dialect.Own(messages, middleware.DialectGemini, m.origin, m.o.Model)
	messages, unfit := dialect.Gemini.Fit(messages, &o, &p)
	config, notSent, err := m.config(&o, &p)
	if err != nil {
		return nil, err
	}
	notSent = slices.Concat(notSent, lost, unfit)
	contents, err := converse(config, messages)
	if err != nil {
		return nil, err
	}
	if strings.Contains(m.o.Model, "gemini-3") {
		signCalls(contents)
	}
	ctx, x := wire.Begin(ctx)
	emit, streams := wire.Stream(ctx, &o, &p)
	a := &answer{x: x, emit: emit, origin: m.origin, extra: middleware.Extra{NotSent: notSent}}
	theirs := true // the SDK is at work, which panics at answers of another shape
	defer func() {
		if !theirs {
			return
		}
		if odd := recover(); odd != nil {
			out, err = nil, a.blame(x.Garbled(provider, fmt.Errorf("%v", odd)))
		}
	}()
	take := func(resp *genai.GenerateContentResponse) error {
		theirs = false
		err := a.take(resp)
		theirs = true
		return err
	}
	if !streams {
		resp, err := m.client.Models.GenerateContent(ctx, m.o.Model, contents, config)
		if err != nil {
			return nil, m.failed(ctx, x, err)
		}
		if err := take(resp); err != nil {
			return nil, err
		}
		theirs = false
		return a.response()
	}
	for resp, err := range m.client.Models.GenerateContentStream(ctx, m.o.Model, contents, config) {
		if err != nil {
			return nil, a.blame(m.failed(ctx, x, err))
		}
		if err := take(resp); err != nil {
			return nil, err
		}
	}
	theirs = false
	if !a.ended() {
		return nil, a.blame(x.Garbled(provider, errors.New("the stream ended before the answer did")))
	}
	return a.response()
}

// failed makes the error of a call.
func (m *Model) failed(ctx context.Context, x *wire.Exchange, err error) error {
	said, told := errors.AsType[genai.APIError](err)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case ctx.Err() != nil:
		err = errors.Join(ctx.Err(), x.Fail(provider, err))
	case told && x.Status < 300:
		data, fault := json.Marshal(map[string]any{"error": said})
		if fault != nil {
			return x.Fail(provider, err)
		}
		err = x.Told(provider, data)
	case errors.Is(err, wire.ErrTooLarge) || x.Status >= 300 || x.Status == 0:
		err = x.Fail(provider, err)
	case syntax || x.Status < 300:
		err = x.Garbled(provider, err)
	}
	return err
}

package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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
type Model struct {
	o      Options
	client *http.Client
	url    string // of the endpoint
	header http.Header
	limits dialect.Limits
	origin string // of the state that the model is given back
}

var (
	_ llms.Model         = (*Model)(nil)
	_ middleware.Speaker = (*Model)(nil)
	_ middleware.Limiter = (*Model)(nil)
)

const provider = "anthropic"

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	if o.Model == "" {
		return nil, errors.New("making an Anthropic model: no model is named")
	}
	o.BaseURL, o.MaxTokens = cmp.Or(o.BaseURL, "https://api.anthropic.com"), cmp.Or(o.MaxTokens, 8192)
	// langchaingo's client had the version in the address.
	o.BaseURL = strings.TrimSuffix(strings.TrimSuffix(o.BaseURL, "/"), "/v1")
	address, err := url.Parse(o.BaseURL)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("making an Anthropic model: %q is no address", o.BaseURL)
	}
	m := &Model{
		o: o, limits: dialect.Anthropic(o.Model), origin: dialect.Origin(address.Host, o.Model), url: address.JoinPath("/v1/messages").String(), client: wire.Client(&wire.Transport{Base: o.Transport, MaxAnswer: o.MaxAnswer}),
		header: http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {wire.UserAgent}, "Anthropic-Version": {"2023-06-01"},
		},
	}
	if o.APIKey != "" {
		m.header.Set("X-Api-Key", o.APIKey)
	}
	return m, nil
}

// Dialect implements [middleware.Speaker].
func (*Model) Dialect() middleware.Dialect { return middleware.DialectAnthropic }

// Exclude implements [middleware.Limiter].
func (m *Model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	return m.limits.Exclude(messages, o, p)
}

// Call answers a single prompt.
//
// Deprecated: llms.Model asks for it. Use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// GenerateContent makes one request and returns its answer. An error is a
// [middleware.ProviderError] wherever the server was asked.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	o, p := middleware.Resolve(options...)
	wire.Thinking(&o, &p)
	body, notSent, err := m.request(messages, &o, &p)
	if err != nil {
		return nil, err
	}
	ctx, x := wire.Begin(ctx)
	emit, streams := wire.Stream(ctx, &o, &p)
	body.Extra(&p, middleware.DialectAnthropic)
	notSent = append(notSent, m.settle(body)...)
	body["stream"] = streams
	if !streams {
		delete(body, "stream")
	}
	header := m.header
	if list := betas(&o, body); len(list) > 0 {
		header = header.Clone()
		header["Anthropic-Beta"] = list
	}
	data, err := body.JSON()
	if err != nil {
		return nil, err
	}
	resp, err := wire.Post(ctx, m.client, m.url, header, data)
	if err != nil {
		return nil, x.Fail(provider, err)
	}
	defer resp.Body.Close()
	a := &answer{x: x, emit: emit, origin: m.origin, extra: middleware.Extra{NotSent: notSent, RequestID: x.RequestID()}}
	out, err := a.read(resp, streams)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out, err
}

// betas are the API's features that langchaingo's options ask for, or the field that
// stands for the header anthropic-beta where there are no headers, as on Bedrock. The
// API itself does not know that field.
func betas(o *llms.CallOptions, body wire.Object) []string {
	const field = "anthropic_beta"
	list, _ := o.Metadata["anthropic:beta_headers"].([]string)
	if raw, ok := body[field].(json.RawMessage); ok {
		delete(body, field)
		var more []string
		if json.Unmarshal(raw, &more) == nil { // what is no list of names asks for none
			list = append(slices.Clone(list), more...)
		}
	}
	return list
}

func (a *answer) read(resp *http.Response, streams bool) (*llms.ContentResponse, error) {
	if !streams || strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, a.broken(err)
		}
		a.extra.Raw = data
		if err := a.message(data); err != nil {
			return nil, err
		}
		return a.response()
	}
	events := wire.NewEvents(resp.Body)
	for events.Next() {
		if err := a.event(events.Data()); err != nil {
			return nil, a.blame(err)
		}
	}
	if err := events.Err(); err != nil {
		return nil, a.blame(a.broken(err))
	}
	if !a.ended {
		return nil, a.blame(a.x.Garbled(provider, errors.New("the stream ended before the answer did")))
	}
	return a.response()
}

func (a *answer) broken(err error) error {
	if errors.Is(err, wire.ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return a.x.Fail(provider, err)
	}
	return a.x.Garbled(provider, err)
}

// blame adds what the answer has cost so far to an error.
func (a *answer) blame(err error) error {
	if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
		e.Usage = a.extra.Usage
	}
	return err
}

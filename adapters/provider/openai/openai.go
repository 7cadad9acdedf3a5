package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
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
	o      Options
	client *http.Client
	url    string // of the endpoint
	embed  string // of that for embeddings
	header http.Header
	field  string
	limits dialect.Limits
	origin string // of the state that the model is given back

	unsupported unsupported
}

var (
	_ llms.Model          = (*Model)(nil)
	_ middleware.Speaker  = (*Model)(nil)
	_ middleware.Embedder = (*Model)(nil)
	_ middleware.Limiter  = (*Model)(nil)
)

// New returns a Model. It sends nothing.
func New(o Options) (*Model, error) {
	if o.Model == "" {
		return nil, errors.New("making an OpenAI model: no model is named")
	}
	o.API, o.BaseURL = cmp.Or(o.API, middleware.DialectChat), cmp.Or(o.BaseURL, "https://api.openai.com/v1")
	if o.API != middleware.DialectChat && o.API != middleware.DialectResponses {
		return nil, fmt.Errorf("making an OpenAI model: unknown API %q", o.API)
	}
	address, err := url.Parse(o.BaseURL)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("making an OpenAI model: %q is no address", o.BaseURL)
	}
	m := &Model{o: o, field: o.MaxTokensField, origin: dialect.Origin(address.Host, o.Model)}
	m.limits = dialect.OpenAI(o.API, address.Hostname(), o.Model)
	if m.field == "" {
		m.field = "max_tokens"
		if dialect.IsOpenAI(address.Hostname()) {
			m.field = "max_completion_tokens"
		}
	}
	path := "/chat/completions"
	if o.API == middleware.DialectResponses {
		path = "/responses"
	}
	m.url, m.embed = address.JoinPath(path).String(), address.JoinPath("/embeddings").String()
	m.client = wire.Client(&wire.Transport{Base: o.Transport, MaxAnswer: o.MaxAnswer})
	m.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {wire.UserAgent}}
	if o.APIKey != "" {
		m.header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return m, nil
}

// Exclude implements [middleware.Limiter].
func (m *Model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	return m.limits.Exclude(messages, o, p)
}

// Dialect implements [middleware.Speaker].
func (m *Model) Dialect() middleware.Dialect { return m.o.API }

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
	build := m.chat
	if m.o.API == middleware.DialectResponses {
		build = m.responses
	}
	messages, lost := dialect.Own(messages, m.o.API, m.origin, m.o.Model)
	messages, unfit := m.limits.Fit(messages, &o, &p)
	body, notSent, err := build(messages, &o, &p)
	if err != nil {
		return nil, err
	}
	notSent = slices.Concat(notSent, lost, unfit)
	ctx, x := wire.Begin(ctx)
	emit, streams := wire.Stream(ctx, &o, &p)
	if streams {
		body["stream"] = true
		if m.o.API == middleware.DialectChat {
			body["stream_options"] = wire.Object{"include_usage": true}
		}
	}
	for name := range p.Extra {
		if p.Dialect == m.o.API && name != "stream" && name != "stream_options" {
			body[name] = p.Extra[name]
		}
	}
	notSent = append(notSent, m.unsupported.take(body)...)
	var resp *http.Response
	for range 4 {
		if resp, err = m.post(ctx, body); err == nil {
			break
		}
		err = x.Fail(provider, err)
		dropped, again := m.unsupported.learn(err, body, &p)
		if !again {
			return nil, err
		}
		notSent = append(notSent, dropped...)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &answer{x: x, notSent: notSent, emit: emit, origin: m.origin}
	read := a.readChat
	if m.o.API == middleware.DialectResponses {
		read = a.readResponses
	}
	out, err := read(resp, streams)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out, err
}

const provider = "openai"

func (m *Model) post(ctx context.Context, body wire.Object) (*http.Response, error) {
	data, err := body.JSON()
	if err != nil {
		return nil, err
	}
	return wire.Post(ctx, m.client, m.url, m.header, data)
}

// answer is one on its way.
type answer struct {
	x       *wire.Exchange
	notSent []string
	emit    wire.Emit
	origin  string
}

// streamed reports whether an answer comes in events. Servers that say something else than
// that it does are believed by how it begins.
func streamed(resp *http.Response) bool {
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return true
	}
	from := bufio.NewReader(resp.Body)
	resp.Body = &peeked{from, resp.Body}
	for {
		first, err := from.Peek(1)
		if err != nil || !slices.Contains([]byte(" \t\r\n"), first[0]) {
			return err == nil && first[0] != '{' && first[0] != '['
		}
		_, _ = from.Discard(1) // it is there
	}
}

// peeked is a body of which something was read.
type peeked struct {
	io.Reader
	io.Closer
}

// events calls each with the events of a stream, and reports whether its end mark came.
func (a *answer) events(resp *http.Response, each func(data []byte) error) (done bool, err error) {
	events := wire.NewEvents(resp.Body)
	for events.Next() {
		if bytes.HasPrefix(events.Data(), []byte("[DONE]")) {
			drain(resp.Body)
			return true, nil
		}
		if err := each(events.Data()); err != nil {
			return false, err
		}
	}
	if err := events.Err(); err != nil {
		if errors.Is(err, wire.ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return false, a.x.Fail(provider, err)
		}
		return false, a.x.Garbled(provider, err)
	}
	return false, nil
}

// drain reads to the end of a stream whose last event has come, so that its connection
// serves the next request too. A server that does not end it is not waited for.
func drain(body io.ReadCloser) {
	const patience, most = 50 * time.Millisecond, 4 << 10
	tooLong := time.AfterFunc(patience, func() { body.Close() })
	defer tooLong.Stop()
	_, _ = io.CopyN(io.Discard, body, most) // whatever comes says nothing more
}

// whole reads an answer that is not streamed.
func (a *answer) whole(resp *http.Response) ([]byte, error) {
	data, err := wire.ReadAll(resp.Body)
	if err != nil {
		if errors.Is(err, wire.ErrTooLarge) {
			return nil, a.x.Fail(provider, err)
		}
		return nil, a.x.Garbled(provider, err)
	}
	return data, nil
}

package wire

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
	"github.com/stepfall/stepfall/middleware"
)

// Model is a model behind an API. It is safe for concurrent use.
type Model struct {
	client dialect.Client
	server *Server
	call   dialect.Call // what all calls have in common
	origin string       // of the state that the model is given back
	// topLogProbs are asked for where the caller says nothing of them.
	topLogProbs int

	unsupported unsupported
}

// Server is where a model is asked.
type Server struct {
	// Provider names the vendor in errors.
	Provider string
	// URL is the endpoint's, StreamURL the one for streams where that is another.
	URL, StreamURL string
	Host           string
	Header         http.Header
	// HasLines is set where a stream is lines of JSON instead of events.
	HasLines bool
	client   *http.Client
}

// Config is what makes a Server, of the fields of a provider's options.
type Config struct {
	Provider, Model      string
	BaseURL, DefaultURL  string
	KeyHeader, KeyPrefix string
	APIKey               string
	Transport            http.RoundTripper
	MaxAnswer            int64
}

// NewServer returns the server of a configuration, with the address of its base.
func NewServer(c Config) (*Server, *url.URL, error) {
	if c.Model == "" {
		return nil, nil, fmt.Errorf("making a model of %s: no model is named", c.Provider)
	}
	base := cmp.Or(c.BaseURL, c.DefaultURL)
	address, err := url.Parse(base)
	if err != nil || address.Host == "" {
		return nil, nil, fmt.Errorf("making a model of %s: %q is no address", c.Provider, base)
	}
	s := &Server{
		Provider: c.Provider, Host: address.Host, client: Client(&Transport{Base: c.Transport, MaxAnswer: c.MaxAnswer}),
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {UserAgent}},
	}
	if c.APIKey != "" {
		s.Header.Set(c.KeyHeader, c.KeyPrefix+c.APIKey)
	}
	return s, address, nil
}

// Post sends a request to an address of the server's. Only a response of success is
// returned; its body is the caller's to close.
func (s *Server) Post(ctx context.Context, address string, body dialect.Object) (*http.Response, error) {
	data, err := body.JSON()
	if err != nil {
		return nil, err
	}
	return Post(ctx, s.client, address, s.Header, data)
}

// PostWhole sends a request and returns its answer whole.
func (s *Server) PostWhole(ctx context.Context, address string, body dialect.Object) ([]byte, *Exchange, error) {
	ctx, x := Begin(ctx)
	resp, err := s.Post(ctx, address, body)
	if err != nil {
		return nil, x, x.Fail(s.Provider, err)
	}
	defer resp.Body.Close()
	data, err := ReadAll(resp.Body)
	if err != nil {
		return nil, x, x.readError(ctx, s.Provider, err)
	}
	return data, x, nil
}

// NewModel returns a model that is asked at a server.
func NewModel(d middleware.Dialect, s *Server, call dialect.Call, topLogProbs int) *Model {
	return &Model{client: dialect.Clients[d], server: s, call: call, origin: dialect.Origin(s.Host, call.Model), topLogProbs: topLogProbs}
}

// AsModel returns what a constructor returned as an llms.Model: a nil pointer is not a nil one.
func AsModel[M llms.Model](m M, err error) (llms.Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Dialect implements [middleware.Speaker].
func (m *Model) Dialect() middleware.Dialect { return m.client.Dialect() }

// Exclude implements [middleware.Limiter].
func (m *Model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	return m.call.Limits.Exclude(messages, o, p)
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
	readThinking(&o, &p)
	c := m.call
	c.Options, c.Params = &o, &p
	messages, lost := dialect.Own(messages, m.Dialect(), m.origin, c.Model)
	messages, unfit := c.Limits.Fit(messages, &o, &p)
	c.Messages, c.NotSent = messages, slices.Concat(lost, unfit)
	ownLogProbs := p.LogProbs == nil && m.topLogProbs > 0
	if ownLogProbs {
		p.LogProbs, p.TopLogProbs = new(true), new(min(m.topLogProbs, 20))
	}
	ctx, x := Begin(ctx)
	emit, streams := Stream(ctx, &o, &p)
	c.Stream = streams
	body, err := m.client.Write(&c)
	if err != nil {
		if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
			e.Provider = m.server.Provider
		}
		return nil, err
	}
	resp, err := m.post(ctx, x, &c, body, ownLogProbs)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var stopped error // of who receives the stream
	reply := &dialect.Reply{Origin: m.origin, Extra: middleware.Extra{NotSent: c.NotSent, RequestID: x.RequestID()}, Emit: func(d *middleware.Delta) error {
		stopped = emit(d)
		return stopped
	}}
	err = m.read(resp, m.client.Reader(reply), streams)
	var out *llms.ContentResponse
	if err == nil {
		out, err = reply.Response()
	}
	switch said, isServers := errors.AsType[dialect.ServerError](err); {
	case err == nil:
		return out, nil
	case stopped != nil:
		err = stopped
	case isServers:
		err = x.ServerError(m.server.Provider, said)
	default:
		err = x.readError(ctx, m.server.Provider, err)
	}
	if e, ok := errors.AsType[*middleware.ProviderError](err); ok { // what the answer has cost so far
		e.Usage = reply.Extra.Usage
	}
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return nil, err
}

// post sends a request, again without what the server says that it does not support.
func (m *Model) post(ctx context.Context, x *Exchange, c *dialect.Call, body dialect.Object, ownLogProbs bool) (resp *http.Response, err error) {
	s := *m.server
	address := s.URL
	if c.Stream && s.StreamURL != "" {
		address = s.StreamURL
	}
	if len(c.Betas) > 0 {
		s.Header = s.Header.Clone()
		s.Header["Anthropic-Beta"] = c.Betas
	}
	c.NotSent = append(c.NotSent, m.unsupported.take(body)...)
	for range 4 {
		if resp, err = s.Post(ctx, address, body); err == nil {
			return resp, nil
		}
		err = x.Fail(s.Provider, err)
		dropped, again := m.unsupported.learn(err, body, ownLogProbs)
		if !again {
			break
		}
		c.NotSent = append(c.NotSent, dropped...)
	}
	return nil, err
}

// read reads an answer, whole or streamed.
func (m *Model) read(resp *http.Response, to dialect.Reader, streams bool) error {
	switch {
	case streams && m.server.HasLines:
		if err := Lines(resp.Body, to.Event); err != nil {
			return err
		}
		return to.End(false)
	case !streams || !isStream(resp):
		data, err := ReadAll(resp.Body)
		if err == nil {
			err = to.Whole(data)
		}
		if err != nil {
			return err
		}
		return to.End(true)
	}
	events := NewEvents(resp.Body)
	for events.Next() {
		if bytes.HasPrefix(events.Data(), []byte("[DONE]")) {
			drain(resp.Body)
			return to.End(true)
		}
		if err := to.Event(events.Data()); err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return err
	}
	return to.End(false)
}

// isStream reports whether an answer comes in events. Servers that say something else than
// that it does are believed by how it begins.
func isStream(resp *http.Response) bool {
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return true
	}
	from := bufio.NewReader(resp.Body)
	resp.Body = &peekedBody{from, resp.Body}
	for {
		first, err := from.Peek(1)
		if err != nil || !slices.Contains([]byte(" \t\r\n"), first[0]) {
			return err == nil && first[0] != '{' && first[0] != '['
		}
		_, _ = from.Discard(1) // it is there
	}
}

// peekedBody is a body of which something was read.
type peekedBody struct {
	io.Reader
	io.Closer
}

// drain reads to the end of a stream whose last event has come, so that its connection
// serves the next request too. A server that does not end it is not waited for.
func drain(body io.ReadCloser) {
	const patience, most = 50 * time.Millisecond, 4 << 10
	tooLong := time.AfterFunc(patience, func() { body.Close() })
	defer tooLong.Stop()
	_, _ = io.CopyN(io.Discard, body, most) // whatever comes says nothing more
}

// readThinking reads langchaingo's own way to ask for reasoning, where p does not.
func readThinking(o *llms.CallOptions, p *middleware.Params) {
	config, ok := o.Metadata["thinking_config"].(*llms.ThinkingConfig)
	if !ok || config == nil {
		return
	}
	if p.ReasoningEffort == "" && config.Mode != llms.ThinkingModeAuto {
		p.ReasoningEffort = string(config.Mode)
	}
	if p.ReasoningTokens == nil && config.BudgetTokens > 0 {
		p.ReasoningTokens = &config.BudgetTokens
	}
}

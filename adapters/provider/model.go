package provider

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk/redact"
)

type model struct {
	client   dialect.Client
	call     dialect.Call // the part that all calls share
	provider string       // the vendor's name, in errors
	origin   string       // marks the model's state
	// topLogProbs is the number of alternatives to request if the caller does not set it.
	topLogProbs int

	url, streamURL string // streamURL is "" if it equals url
	header         http.Header
	hasLines       bool // a stream consists of lines of JSON, not of events
	http           *http.Client
	maxAnswer      int64
	// secrets are the keys in header. inAnswer and inEvents remove long keys from whole answers and from events;
	// they are nil if there are none.
	secrets, inAnswer, inEvents *redact.Redactor

	unsupported unsupportedSet
}

// Dialect implements [middleware.NativeModel].
func (m *model) Dialect() middleware.Dialect { return m.client.Dialect() }

// Exclude returns why the model cannot be sent a request, or "". The middleware finds it by assertion.
func (m *model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	if kind := dialect.Foreign(messages, m.Dialect(), m.origin, m.call.Model); kind != "" {
		return "rejects " + kind + " of another API"
	}
	own, _ := dialect.Own(messages, m.Dialect(), m.origin, m.call.Model)
	return m.call.Limits.Exclude(own, o, p)
}

// Call answers a single prompt.
//
// Deprecated: it exists for the interface llms.Model. Use GenerateContent.
func (m *model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// GenerateContent sends one request and returns its answer. The error is a [middleware.ProviderError] if the
// server was called.
func (m *model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	o, p := middleware.Resolve(options...)
	m.readThinking(&o, &p)
	c := m.call
	c.Options, c.Params = &o, &p
	messages, lost := dialect.Own(messages, m.Dialect(), m.origin, c.Model)
	if p.Dialect != m.Dialect() && len(o.Tools)+len(o.Functions) == 0 { // tools of another API are not sent
		o.ToolChoice, o.FunctionCallBehavior, p.ParallelToolCalls = nil, "", nil
	}
	c.Effort = p.ReasoningEffort
	messages, unfit := c.Limits.Fit(messages, &o, &p)
	c.Messages, c.NotSent = messages, slices.Concat(lost, unfit)
	ownLogProbs := p.LogProbs == nil && m.topLogProbs > 0
	if ownLogProbs {
		p.LogProbs, p.TopLogProbs = new(true), new(min(m.topLogProbs, 20))
	}
	x := &exchange{provider: m.provider}
	emit, streams := receiver(ctx, &o, &p)
	c.Stream = streams
	body, err := m.client.Write(&c)
	if err != nil {
		if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
			e.Provider = m.provider
		}
		return nil, err
	}
	resp, err := m.ask(ctx, x, &c, body, ownLogProbs)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var stopped error // the error of the stream's receiver
	hasBegun := false
	reply := &dialect.Reply{Origin: m.origin, ToolNames: c.ToolNames(), Extra: middleware.Extra{NotSent: c.NotSent, RequestID: x.requestID()}}
	reply.Emit = func(d *middleware.Delta) {
		if stopped != nil {
			return
		}
		if !hasBegun && streams {
			hasBegun, d.Extra = true, new(reply.Extra)
		}
		if d.Tool != nil {
			d.Tool.Name = reply.ToolName(d.Tool.Name)
		}
		stopped = emit(d)
	}
	err = m.read(resp, m.client.Reader(reply), streams, func() error { return stopped })
	var out *llms.ContentResponse
	if err == nil {
		out, err = reply.Response()
	}
	if err == nil {
		return out, nil
	}
	if err = x.fail(ctx, err); stopped != nil {
		err = stopped
	}
	if e, ok := errors.AsType[*middleware.ProviderError](err); ok { // the cost of the answer so far
		e.Usage = reply.Extra.Usage
	}
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return nil, err
}

// ask sends a request, and repeats it without parameters that the server does not support.
func (m *model) ask(ctx context.Context, x *exchange, c *dialect.Call, body dialect.Object, ownLogProbs bool) (resp *http.Response, err error) {
	address, header := m.url, m.header
	if c.Stream && m.streamURL != "" {
		address = m.streamURL
	}
	if len(c.Betas) > 0 {
		header = header.Clone()
		header.Set("Anthropic-Beta", strings.Join(c.Betas, ","))
	}
	c.NotSent = append(c.NotSent, dialect.NameNotSent(m.Dialect(), m.unsupported.removeFrom(body))...)
	for range 4 {
		if resp, err = m.post(ctx, x, address, header, body); err == nil {
			return resp, nil
		}
		err = x.fail(ctx, err)
		dropped, again := m.unsupported.learn(err, c, body, ownLogProbs)
		if !again {
			break
		}
		c.NotSent = append(c.NotSent, dialect.NameNotSent(m.Dialect(), dropped)...)
	}
	return nil, err
}

// errMarked ends a stream at its end marker [DONE], errEnded at its last event: some proxies never close it.
var (
	errMarked = errors.New("the end is marked")
	errEnded  = errors.New("the last event was read")
)

// read reads an answer to its end, or until stopped returns an error.
func (m *model) read(resp *http.Response, to dialect.Reader, streams bool, stopped func() error) error {
	hasLines := m.hasLines
	if !streams || !hasLines && !isStream(resp) {
		data, err := readAll(resp.Body)
		if err == nil {
			err = to.Whole(data)
		}
		if err == nil {
			err = to.End(true)
		}
		return cmp.Or(err, stopped())
	}
	var halves dialect.Halves
	err := events(resp.Body, hasLines, func(data []byte) error {
		if !hasLines && bytes.HasPrefix(data, []byte("[DONE]")) {
			return errMarked
		}
		if err := cmp.Or(to.Event(halves.Join(data)), stopped()); err != nil || !to.HasEnded() {
			return err
		}
		return errEnded
	})
	isMarked := errors.Is(err, errMarked)
	if isMarked || errors.Is(err, errEnded) {
		drain(resp.Body)
	} else if err != nil {
		return err
	}
	return cmp.Or(to.End(isMarked), stopped())
}

// isStream reports whether an answer consists of events, by its Content-Type or else by its first byte, because
// some servers send events with another type.
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
		_, _ = from.Discard(1) // cannot fail after Peek
	}
}

type peekedBody struct {
	io.Reader
	io.Closer
}

// drain reads the rest of a stream after its last event, so that the connection can be reused. It gives up if
// the server does not end the stream soon.
func drain(body io.ReadCloser) {
	const patience, most = 50 * time.Millisecond, 4 << 10
	tooLong := time.AfterFunc(patience, func() { body.Close() })
	defer tooLong.Stop()
	_, _ = io.CopyN(io.Discard, body, most) // the rest has no meaning
}

// readThinking applies langchaingo's thinking_config to p, unless p sets the reasoning itself.
func (m *model) readThinking(o *llms.CallOptions, p *middleware.Params) {
	config, ok := o.Metadata["thinking_config"].(*llms.ThinkingConfig)
	if !ok || config == nil {
		return
	}
	if p.ReasoningTokens == nil && config.BudgetTokens > 0 {
		p.ReasoningTokens = &config.BudgetTokens
	}
	if p.ReasoningEffort != "" || config.Mode == llms.ThinkingModeAuto {
		return
	}
	p.ReasoningEffort = string(config.Mode)
	if m.Dialect() == middleware.DialectAnthropic && p.ReasoningTokens == nil {
		if budget := m.call.BudgetFor(p.ReasoningEffort, p); budget > 0 {
			p.ReasoningEffort, p.ReasoningTokens = "", &budget
		}
	}
}

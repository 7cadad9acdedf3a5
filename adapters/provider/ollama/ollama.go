package ollama

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
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
	o      Options
	url    string
	embed  string // the address for embeddings
	client *http.Client
	origin string // of the state that the model is given back
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
	if o.Model == "" {
		return nil, errors.New("making an Ollama model: no model is named")
	}
	o.BaseURL = cmp.Or(o.BaseURL, "http://127.0.0.1:11434")
	address, err := url.Parse(o.BaseURL)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("making an Ollama model: %q is no address", o.BaseURL)
	}
	return &Model{
		o: o, origin: dialect.Origin(address.Host, o.Model), url: address.JoinPath("api/chat").String(), embed: address.JoinPath("api/embed").String(),
		client: wire.Client(&wire.Transport{Base: o.Transport, MaxAnswer: o.MaxAnswer}),
	}, nil
}

// Dialect implements [middleware.Speaker].
func (*Model) Dialect() middleware.Dialect { return middleware.DialectOllama }

// Exclude implements [middleware.Limiter].
func (*Model) Exclude(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) string {
	return dialect.Ollama.Exclude(messages, o, p)
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
	messages, lost := dialect.Own(messages, middleware.DialectOllama, m.origin, m.o.Model)
	messages, unfit := dialect.Ollama.Fit(messages, &o, &p)
	body, notSent, err := m.request(messages, &o, &p)
	if err != nil {
		return nil, err
	}
	notSent = slices.Concat(notSent, lost, unfit)
	ctx, x := wire.Begin(ctx)
	emit, streams := wire.Stream(ctx, &o, &p)
	body.Extra(&p, middleware.DialectOllama)
	body["stream"] = streams
	if own, ok := p.Extra["options"]; ok && p.Dialect == middleware.DialectOllama {
		var more map[string]any
		if err := json.Unmarshal(own, &more); err != nil {
			return nil, wire.Refused(provider, "options is no JSON object: %s", err)
		}
		all := m.options(&o, &p)
		maps.Copy(all, more)
		body["options"] = all
	}
	resp, err := m.post(ctx, m.url, body)
	if err != nil {
		return nil, x.Fail(provider, err)
	}
	defer resp.Body.Close()
	a := &answer{x: x, emit: emit, origin: m.origin, extra: middleware.Extra{NotSent: notSent, RequestID: x.RequestID()}}
	if !streams {
		// A whole answer is one line too.
		a.emit = func(*middleware.Delta) error { return nil }
	}
	if err := wire.Lines(resp.Body, a.line); err != nil {
		if _, ours := errors.AsType[*middleware.ProviderError](err); !ours && !errors.Is(err, errCaller) {
			if errors.Is(err, wire.ErrTooLarge) || ctx.Err() != nil {
				err = x.Fail(provider, err)
			} else {
				err = x.Garbled(provider, err)
			}
		}
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return nil, err
	}
	if !a.done {
		return nil, x.Garbled(provider, errors.New("the stream ended before the answer did"))
	}
	return a.response(), nil
}

// post sends a request. Only a response of success is returned; its body is the
// caller's to close.
func (m *Model) post(ctx context.Context, address string, body wire.Object) (*http.Response, error) {
	data, err := body.JSON()
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {wire.UserAgent}}
	if m.o.APIKey != "" {
		header.Set("Authorization", "Bearer "+m.o.APIKey)
	}
	return wire.Post(ctx, m.client, address, header, data)
}

func (m *Model) options(o *llms.CallOptions, p *middleware.Params) wire.Object {
	b := wire.Object{}
	wire.Set(b, "temperature", p.Temperature)
	wire.Set(b, "top_p", p.TopP)
	wire.Set(b, "top_k", p.TopK)
	wire.Set(b, "seed", p.Seed)
	wire.Set(b, "num_predict", p.MaxTokens)
	wire.Set(b, "repeat_penalty", p.RepetitionPenalty)
	wire.Set(b, "frequency_penalty", p.FrequencyPenalty)
	wire.Set(b, "presence_penalty", p.PresencePenalty)
	if len(o.StopWords) > 0 {
		b["stop"] = o.StopWords
	}
	if m.o.ContextTokens > 0 {
		b["num_ctx"] = m.o.ContextTokens
	}
	return b
}

// request writes a request of the chat API.
func (m *Model) request(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (wire.Object, []string, error) {
	b := wire.Object{"model": m.o.Model, "truncate": false}
	if options := m.options(o, p); len(options) > 0 {
		b["options"] = options
	}
	switch {
	case p.Schema != nil:
		b["format"] = p.Schema.Schema
	case o.JSONMode || o.ResponseMIMEType == "application/json":
		b["format"] = "json"
	}
	switch p.ReasoningEffort {
	case "":
	case "none":
		b["think"] = false
	default:
		b["think"] = p.ReasoningEffort
	}
	wire.Set(b, "logprobs", p.LogProbs)
	wire.Set(b, "top_logprobs", p.TopLogProbs)
	if p.LogProbs == nil && m.o.TopLogProbs > 0 {
		b["logprobs"], b["top_logprobs"] = true, min(m.o.TopLogProbs, 20)
	}
	var tools []any
	for _, f := range wire.Tools(o) {
		function := wire.Object{"name": f.Name, "parameters": f.Parameters}
		if f.Parameters == nil {
			function["parameters"] = wire.Object{"type": "object", "properties": wire.Object{}}
		}
		function.Text("description", f.Description)
		tools = append(tools, wire.Object{"type": "function", "function": function})
	}
	if p.Dialect == middleware.DialectOllama {
		for _, raw := range p.RawTools {
			tools = append(tools, raw)
		}
	}
	notSent := wire.NotSent(p, middleware.DialectOllama, "Temperature", "TopP", "TopK", "Seed", "MaxTokens", "RepetitionPenalty", "FrequencyPenalty", "PresencePenalty",
		"Schema", "ReasoningEffort", "LogProbs", "TopLogProbs")
	mode, function, other := wire.Choice(o)
	if mode != "none" && len(tools) > 0 {
		b["tools"] = tools
	}
	if mode == "required" || function != "" || other != nil {
		notSent = append(notSent, "ToolChoice")
	}
	list, err := chat(messages)
	if err != nil {
		return nil, nil, err
	}
	b["messages"] = list
	return b, notSent, nil
}

func chat(messages []llms.MessageContent) ([]wire.Object, error) {
	c := conversation{names: map[string]string{}}
	for i := range messages {
		if err := c.add(&messages[i]); err != nil {
			return nil, err
		}
	}
	return c.list, nil
}

// conversation becomes the messages of a request.
type conversation struct {
	list  []wire.Object
	names map[string]string // of tools, by call

	// Of the message that is being added; a result is one of its own.
	message wire.Object
	text    string
	said    bool // it has text, be it empty
	images  []string
	calls   []any
}

func (c *conversation) add(m *llms.MessageContent) error {
	role := "user"
	switch wire.Role(m.Role) {
	case llms.ChatMessageTypeSystem:
		role = "system"
	case llms.ChatMessageTypeAI:
		role = "assistant"
	case llms.ChatMessageTypeHuman, llms.ChatMessageTypeTool:
	default:
		return wire.Refused(provider, "unknown role %q", m.Role)
	}
	c.message, c.text, c.said, c.images, c.calls = wire.Object{"role": role}, "", false, nil, nil
	if err := wire.Flat(m.Parts, c.part); err != nil {
		return err
	}
	if !c.said && c.images == nil && c.calls == nil && len(c.message) == 1 {
		return nil
	}
	c.message["content"] = c.text
	if c.images != nil {
		c.message["images"] = c.images
	}
	if c.calls != nil {
		c.message["tool_calls"] = c.calls
	}
	c.list = append(c.list, c.message)
	return nil
}

func (c *conversation) part(p llms.ContentPart, _ *llms.CacheControl) error {
	switch p := p.(type) {
	case middleware.NamePart: // the API has no names
	case llms.TextContent:
		c.text, c.said = c.text+p.Text, true
	case llms.BinaryContent:
		return c.image(p.MIMEType, p.Data)
	case llms.ImageURLContent:
		mime, data, ok := wire.Data(p.URL)
		if !ok {
			return wire.Refused(provider, "the API takes no image by its address: %s", p.URL)
		}
		return c.image(mime, data)
	case middleware.FilePart:
		if p.Data == nil {
			return wire.Refused(provider, "the API takes no file by its address or name")
		}
		return c.image(p.MIMEType, p.Data)
	case llms.ToolCall:
		if p.FunctionCall != nil {
			c.names[p.ID] = p.FunctionCall.Name
			c.calls = append(c.calls, wire.Object{"id": p.ID, "function": wire.Object{"name": p.FunctionCall.Name, "arguments": wire.Arguments(p.FunctionCall.Arguments)}})
		}
	case llms.ToolCallResponse:
		c.list = append(c.list, c.result(p))
	case middleware.ResultPart:
		c.list = append(c.list, c.result(p.ToolCallResponse))
		return wire.Flat(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error {
			if b, ok := inner.(llms.BinaryContent); ok {
				return c.image(b.MIMEType, b.Data)
			}
			return nil
		})
	case middleware.RawPart:
		c.raw(&p)
	default:
		return wire.Refused(provider, "a %T cannot be sent in a message", p)
	}
	return nil
}

func (c *conversation) image(mime string, data []byte) error {
	if !strings.HasPrefix(mime, "image/") {
		return wire.Refused(provider, "the API takes images, and no %s", mime)
	}
	c.images = append(c.images, base64.StdEncoding.EncodeToString(data))
	return nil
}

// raw takes the members of a message as they are.
func (c *conversation) raw(p *middleware.RawPart) {
	var members map[string]json.RawMessage
	if json.Unmarshal(p.Raw, &members) == nil {
		for name, v := range members {
			c.message[name] = v
		}
	}
	c.text, c.said = c.text+p.Text, c.said || p.Text != ""
}

func (c *conversation) result(p llms.ToolCallResponse) wire.Object {
	o := wire.Object{"role": "tool", "content": p.Content}
	o.Text("tool_name", cmp.Or(p.Name, c.names[p.ToolCallID]))
	o.Text("tool_call_id", p.ToolCallID)
	return o
}

// line is one of an answer's.
type line struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Message   struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done       bool            `json:"done"`
	DoneReason string          `json:"done_reason"`
	LogProbs   []wire.Token    `json:"logprobs"`
	PromptEval wire.Count      `json:"prompt_eval_count"`
	Eval       wire.Count      `json:"eval_count"`
	Error      json.RawMessage `json:"error"`
}

// errCaller marks errors of who receives the stream.
var errCaller = errors.New("receiving the stream")

// answer is one on its way.
type answer struct {
	x              *wire.Exchange
	emit           wire.Emit
	origin         string
	extra          middleware.Extra
	text, thinking strings.Builder
	calls          []llms.ToolCall
	stop           string
	done           bool
}

func (a *answer) line(data []byte) error {
	var in line
	if err := json.Unmarshal(data, &in); err != nil {
		return a.x.Garbled(provider, err)
	}
	if len(in.Error) > 0 && string(in.Error) != "null" {
		return a.x.Told(provider, data)
	}
	d := middleware.Delta{Text: in.Message.Content, Reasoning: in.Message.Thinking, LogProbs: wire.Tokens(in.LogProbs)}
	a.text.WriteString(d.Text)
	a.thinking.WriteString(d.Reasoning)
	x := &a.extra
	x.LogProbs = append(x.LogProbs, d.LogProbs...)
	x.Served, x.Created = in.Model, in.CreatedAt.Unix()
	if d.Text+d.Reasoning != "" || len(d.LogProbs) > 0 {
		if err := a.emit(&d); err != nil {
			return errors.Join(errCaller, err)
		}
	}
	for _, t := range in.Message.ToolCalls {
		n := len(a.calls)
		id := cmp.Or(t.ID, fmt.Sprintf("call_%x_%d", in.CreatedAt.UnixNano(), n))
		call := llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: t.Function.Name, Arguments: string(wire.Arguments(string(t.Function.Arguments)))}}
		a.calls = append(a.calls, call)
		if err := a.emit(&middleware.Delta{Tool: &middleware.ToolDelta{Index: n, ID: id, Name: call.FunctionCall.Name, Arguments: call.FunctionCall.Arguments}}); err != nil {
			return errors.Join(errCaller, err)
		}
	}
	if in.Done {
		a.done, a.stop = true, cmp.Or(in.DoneReason, "stop")
		x.StopReason = in.DoneReason
		x.Usage = sdk.Usage{InputTokens: int(in.PromptEval), OutputTokens: int(in.Eval)}
	}
	return nil
}

func (a *answer) response() *llms.ContentResponse {
	own := &llms.ContentChoice{Content: a.text.String(), ReasoningContent: a.thinking.String(), StopReason: a.stop, ToolCalls: a.calls}
	if len(a.calls) > 0 {
		own.FuncCall = a.calls[0].FunctionCall
	}
	if own.ReasoningContent != "" {
		raw, err := json.Marshal(map[string]string{"thinking": own.ReasoningContent})
		if err == nil {
			a.extra.Parts = append(a.extra.Parts, middleware.RawPart{Dialect: middleware.DialectOllama, Model: a.origin, Raw: raw}, llms.TextContent{Text: own.Content})
			for _, t := range a.calls {
				a.extra.Parts = append(a.extra.Parts, t)
			}
		}
	}
	own.GenerationInfo = wire.Info(&a.extra, own.ReasoningContent)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{own}}
}

package scripted

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Request is a decoded client request.
type Request struct {
	Model    string
	Messages []message
	// Tools are the names of the offered tools.
	Tools []string
	// Stream is set if the client requests server-sent events.
	Stream bool
	// LogProbs is set if the client requests log-probabilities; TopLogProbs is the number of alternatives for
	// each token.
	LogProbs    bool
	TopLogProbs int
	// MaxTokens limits the answer; 0 means no limit.
	MaxTokens int
	// N is the number of requested choices, at least 1.
	N int
	// JSON is set if the client requests a JSON value.
	JSON bool
	// Header is the header of the HTTP request, without its credentials.
	Header http.Header
	// Seq counts the server's requests for this model from 0.
	Seq int

	in *dialect.Request
}

// message is one turn of the conversation; Content is its text parts joined.
type message struct {
	Role       string
	Content    string
	ToolCallID string
	ToolCalls  []ToolCall
}

// ToolCall is a model's call of a tool. Arguments is JSON.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
}

// LastUser returns the text of the last message of the user, or "".
func (r *Request) LastUser() string {
	for _, v := range slices.Backward(r.Messages) {
		if v.Role == "user" {
			return v.Content
		}
	}
	return ""
}

// Turns returns the number of the model's messages in the conversation so far.
func (r *Request) Turns() int {
	turns := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turns++
		}
	}
	return turns
}

// Text returns the text of the whole conversation, including tool calls.
func (r *Request) Text() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Content)
		b.WriteByte('\n')
		for _, c := range m.ToolCalls {
			b.WriteString(c.Name + c.Arguments + "\n")
		}
	}
	return b.String()
}

func newRequest(in *dialect.Request, header http.Header) *Request {
	o, _ := middleware.Resolve(in.Options...)
	p := &in.Params
	req := &Request{Model: in.Model, Stream: in.Stream, N: 1, JSON: o.JSONMode || p.Schema != nil, Header: header.Clone(), in: in}
	set(&req.LogProbs, p.LogProbs)
	set(&req.TopLogProbs, p.TopLogProbs)
	set(&req.MaxTokens, p.MaxTokens)
	set(&req.N, p.N)
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		req.Header.Del(name)
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		req.Messages = append(req.Messages, newMessages(m)...)
	}
	return req
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

var roles = map[llms.ChatMessageType]string{llms.ChatMessageTypeSystem: "system", llms.ChatMessageTypeAI: "assistant", llms.ChatMessageTypeTool: "tool"}

// newMessages returns a turn, or the tool results in it as separate messages.
func newMessages(from llms.MessageContent) (list []message) {
	m := message{Role: cmp.Or(roles[from.Role], "user")}
	var texts []string
	for _, p := range from.Parts {
		if cached, ok := p.(llms.CachedContent); ok {
			p = cached.ContentPart
		}
		switch p := p.(type) {
		case llms.TextContent:
			texts = append(texts, p.Text)
		case middleware.RawPart:
			texts = append(texts, p.Text)
		case llms.ToolCall:
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: p.ID, Name: p.FunctionCall.Name, Arguments: p.FunctionCall.Arguments})
		case llms.ToolCallResponse:
			list = append(list, message{Role: m.Role, Content: p.Content, ToolCallID: p.ToolCallID})
		case middleware.ResultPart:
			list = append(list, message{Role: m.Role, Content: p.Content, ToolCallID: p.ToolCallID})
		}
	}
	if list != nil {
		return list
	}
	m.Content = strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "\n")
	return []message{m}
}

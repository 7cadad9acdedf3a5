package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Request is what a client asked for, decoded.
type Request struct {
	Model    string
	Messages []Message
	// Tools are the names of the tools on offer.
	Tools []string
	// Stream says that the client wants server-sent events.
	Stream bool
	// LogProbs says that the client wants log-probabilities, TopLogProbs how
	// many alternatives for each token.
	LogProbs    bool
	TopLogProbs int
	// MaxTokens limits the answer; 0 means no limit.
	MaxTokens int
	// N is the number of choices wanted, at least 1.
	N           int
	Temperature float64
	// JSON says that the client wants one JSON value.
	JSON bool
	// Header is the header of the HTTP request, without its credentials.
	Header http.Header
	// Seq counts the server's requests for this model from 0.
	Seq int

	includeUsage bool
}

// Message is one turn of the conversation; Content is its text parts joined.
type Message struct {
	Role       string
	Content    string
	ToolCallID string
	ToolCalls  []ToolCall
}

// ToolCall is a call of a tool that a model asks for. Arguments is JSON.
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

// Turns returns how often the model has spoken in the conversation so far.
func (r *Request) Turns() int {
	turns := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turns++
		}
	}
	return turns
}

// Text returns the text of the whole conversation, tool calls included.
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

// wireRequest is the body of POST /v1/chat/completions, as far as it is read.
type wireRequest struct {
	Model               string          `json:"model"`
	Messages            []wireMessage   `json:"messages"`
	Tools               []wireTool      `json:"tools"`
	Stream              bool            `json:"stream"`
	LogProbs            bool            `json:"logprobs"`
	TopLogProbs         int             `json:"top_logprobs"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	N                   int             `json:"n"`
	Temperature         float64         `json:"temperature"`
	ResponseFormat      *wireFormat     `json:"response_format"`
	StreamOptions       *wireStreamOpts `json:"stream_options"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []wireToolCall  `json:"tool_calls"`
}

type wireToolCall struct {
	Index    *int             `json:"index,omitempty"`
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Function wireFunctionCall `json:"function"`
}

type wireFunctionCall struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type wireFormat struct {
	Type string `json:"type"`
}

type wireStreamOpts struct {
	IncludeUsage bool `json:"include_usage"`
}

// decode turns the body of a request into a Request.
func decode(body []byte, header http.Header) (*Request, error) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	if len(w.Messages) == 0 {
		return nil, fmt.Errorf("the request has no messages")
	}
	req := &Request{
		Model: w.Model, Stream: w.Stream, LogProbs: w.LogProbs, TopLogProbs: w.TopLogProbs,
		MaxTokens: max(w.MaxTokens, w.MaxCompletionTokens), N: max(w.N, 1), Temperature: w.Temperature,
		JSON:         w.ResponseFormat != nil && strings.HasPrefix(w.ResponseFormat.Type, "json"),
		includeUsage: w.StreamOptions != nil && w.StreamOptions.IncludeUsage,
		Header:       header.Clone(),
	}
	req.Header.Del("Authorization")
	for _, t := range w.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	for i, m := range w.Messages {
		content, err := contentText(m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		message := Message{Role: m.Role, Content: content, ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.ToolCalls = append(message.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		req.Messages = append(req.Messages, message)
	}
	return req, nil
}

// contentText reads a message's content: a string, a list of parts, or null.
func contentText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content is neither text nor a list of parts: %w", err)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// request is what a client asked for, in langchaingo's terms.
type request struct {
	model    string
	messages []llms.MessageContent
	options  []llms.CallOption
	format   sdk.ResponseFormat
	labels   map[string]string
	tools    bool
	choices  int

	stream, usage bool
}

// wireRequest is the body of POST /v1/chat/completions.
type wireRequest struct {
	Model               string            `json:"model"`
	Messages            []wireMessage     `json:"messages"`
	Tools               []wireTool        `json:"tools"`
	ToolChoice          any               `json:"tool_choice"`
	ResponseFormat      *wireFormat       `json:"response_format"`
	Temperature         *float64          `json:"temperature"`
	TopP                *float64          `json:"top_p"`
	MaxTokens           *int              `json:"max_tokens"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	N                   *int              `json:"n"`
	Stop                json.RawMessage   `json:"stop"`
	Seed                *int              `json:"seed"`
	FrequencyPenalty    *float64          `json:"frequency_penalty"`
	PresencePenalty     *float64          `json:"presence_penalty"`
	Stream              bool              `json:"stream"`
	StreamOptions       *wireStreamOption `json:"stream_options"`
	Metadata            map[string]string `json:"metadata"`
	LogProbs            bool              `json:"logprobs"`
	Functions           json.RawMessage   `json:"functions"`
	Modalities          []string          `json:"modalities"`
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []wireToolCall  `json:"tool_calls"`
}

type wirePart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
}

type wireTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  any    `json:"parameters"`
		Strict      bool   `json:"strict"`
	} `json:"function"`
}

type wireFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

type wireStreamOption struct {
	IncludeUsage bool `json:"include_usage"`
}

// read decodes and checks a request.
func (g *gateway) read(body []byte) (*request, *apiError) {
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, invalid("the body is not a chat completion request: %v", err)
	}
	if refused := w.unsupported(); refused != nil {
		return nil, refused
	}
	req := &request{
		model: w.Model, labels: w.Metadata, tools: len(w.Tools) > 0, choices: 1,
		stream: w.Stream, usage: w.StreamOptions != nil && w.StreamOptions.IncludeUsage,
	}
	switch {
	case w.Model == "" || w.Model == g.o.Name:
		req.model = g.o.Name
	case slices.Contains(g.o.Models(), w.Model):
		req.options = append(req.options, llms.WithModel(w.Model))
	case !g.o.AnyModel:
		return nil, refuse(http.StatusNotFound, "model_not_found", "no model %q here; ask for %q, which lets the policy choose, or for one of: %s",
			w.Model, g.o.Name, strings.Join(g.o.Models(), ", "))
	}
	if len(w.Messages) == 0 {
		return nil, invalid("messages is empty")
	}
	for i := range w.Messages {
		m, err := w.Messages[i].message()
		if err != nil {
			return nil, invalid("messages[%d]: %v", i, err)
		}
		req.messages = append(req.messages, m)
	}
	if err := req.readOptions(&w); err != nil {
		return nil, invalid("%v", err)
	}
	return req, nil
}

// unsupported refuses what would be lost on the way.
func (w *wireRequest) unsupported() *apiError {
	switch {
	case w.LogProbs:
		return invalid("logprobs cannot be had through this gateway: the answer may come from models that have none")
	case len(w.Functions) > 0 && string(w.Functions) != "null":
		return invalid("functions is deprecated and not read here: send tools")
	case slices.ContainsFunc(w.Modalities, func(m string) bool { return m != "text" }):
		return invalid("modalities %s: only text is answered", strings.Join(w.Modalities, ", "))
	case w.N != nil && *w.N < 1:
		return invalid("n is %d: want at least 1", *w.N)
	}
	return nil
}

// readOptions turns the parameters of a request into call options.
func (req *request) readOptions(w *wireRequest) error {
	add := func(o llms.CallOption) { req.options = append(req.options, o) }
	if w.Temperature != nil {
		add(llms.WithTemperature(*w.Temperature))
	}
	if w.TopP != nil {
		add(llms.WithTopP(*w.TopP))
	}
	if w.MaxCompletionTokens != nil {
		add(llms.WithMaxTokens(*w.MaxCompletionTokens))
	} else if w.MaxTokens != nil {
		add(llms.WithMaxTokens(*w.MaxTokens))
	}
	if w.N != nil {
		req.choices = *w.N
		add(llms.WithN(*w.N))
	}
	if w.Seed != nil {
		add(llms.WithSeed(*w.Seed))
	}
	if w.FrequencyPenalty != nil {
		add(llms.WithFrequencyPenalty(*w.FrequencyPenalty))
	}
	if w.PresencePenalty != nil {
		add(llms.WithPresencePenalty(*w.PresencePenalty))
	}
	stop, err := stopWords(w.Stop)
	if err != nil {
		return err
	}
	if len(stop) > 0 {
		add(llms.WithStopWords(stop))
	}
	if err := req.readFormat(w.ResponseFormat); err != nil {
		return err
	}
	return req.readTools(w)
}

func stopWords(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("stop is neither a string nor a list of strings")
	}
	return list, nil
}

func (req *request) readFormat(f *wireFormat) error {
	if f == nil || f.Type == "text" {
		return nil
	}
	switch f.Type {
	case "json_object":
	case "json_schema":
		if len(f.JSONSchema.Schema) == 0 {
			return fmt.Errorf("response_format has the type json_schema and no json_schema.schema")
		}
		req.format.Schema = f.JSONSchema.Schema
	default:
		return fmt.Errorf("response_format has the type %q: want text, json_object or json_schema", f.Type)
	}
	req.format.JSON = true
	req.options = append(req.options, llms.WithJSONMode())
	return nil
}

func (req *request) readTools(w *wireRequest) error {
	tools := make([]llms.Tool, len(w.Tools))
	for i, t := range w.Tools {
		if t.Type != "function" {
			return fmt.Errorf("tools[%d] has the type %q: want function", i, t.Type)
		}
		if t.Function.Name == "" {
			return fmt.Errorf("tools[%d] has no name", i)
		}
		tools[i] = llms.Tool{Type: t.Type, Function: &llms.FunctionDefinition{
			Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters, Strict: t.Function.Strict,
		}}
	}
	if len(tools) > 0 {
		req.options = append(req.options, llms.WithTools(tools))
	}
	if w.ToolChoice != nil {
		req.options = append(req.options, llms.WithToolChoice(w.ToolChoice))
	}
	return nil
}

// message turns one message into langchaingo's form.
func (m *wireMessage) message() (llms.MessageContent, error) {
	parts, err := m.parts()
	if err != nil {
		return llms.MessageContent{}, err
	}
	out := llms.MessageContent{Parts: parts}
	switch m.Role {
	case "system", "developer":
		out.Role = llms.ChatMessageTypeSystem
	case "user":
		out.Role = llms.ChatMessageTypeHuman
	case "assistant":
		out.Role = llms.ChatMessageTypeAI
		for _, c := range m.ToolCalls {
			out.Parts = append(out.Parts, llms.ToolCall{
				ID: c.ID, Type: "function", FunctionCall: &llms.FunctionCall{Name: c.Function.Name, Arguments: c.Function.Arguments},
			})
		}
	case "tool":
		if m.ToolCallID == "" {
			return out, fmt.Errorf("a message of the role tool needs a tool_call_id")
		}
		var text strings.Builder
		for _, p := range parts {
			content, ok := p.(llms.TextContent)
			if !ok {
				return out, fmt.Errorf("a message of the role tool holds something else than text")
			}
			text.WriteString(content.Text)
		}
		out.Role = llms.ChatMessageTypeTool
		out.Parts = []llms.ContentPart{llms.ToolCallResponse{ToolCallID: m.ToolCallID, Name: m.Name, Content: text.String()}}
	default:
		return out, fmt.Errorf("unknown role %q: want system, developer, user, assistant or tool", m.Role)
	}
	return out, nil
}

// parts reads a message's content: a string, a list of parts, or null.
func (m *wireMessage) parts() ([]llms.ContentPart, error) {
	raw := bytes.TrimSpace(m.Content)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return []llms.ContentPart{llms.TextPart(text)}, nil
	}
	var list []wirePart
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("content is neither text nor a list of parts")
	}
	parts := make([]llms.ContentPart, len(list))
	for i, p := range list {
		switch p.Type {
		case "text":
			parts[i] = llms.TextPart(p.Text)
		case "image_url":
			if p.ImageURL.URL == "" {
				return nil, fmt.Errorf("content[%d] is an image without a URL", i)
			}
			parts[i] = llms.ImageURLWithDetailPart(p.ImageURL.URL, p.ImageURL.Detail)
		default:
			return nil, fmt.Errorf("content[%d] has the type %q: want text or image_url", i, p.Type)
		}
	}
	return parts, nil
}

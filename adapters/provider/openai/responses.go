package openai

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

// responses writes a request of the Responses API.
func (m *Model) responses(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (wire.Object, []string, error) {
	b := wire.Object{"model": m.o.Model}
	input, err := items(messages)
	if err != nil {
		return nil, nil, err
	}
	b["input"] = input
	wire.Set(b, "temperature", p.Temperature)
	wire.Set(b, "top_p", p.TopP)
	wire.Set(b, "max_output_tokens", p.MaxTokens)
	wire.Set(b, "parallel_tool_calls", p.ParallelToolCalls)
	wire.Set(b, "store", p.Store)
	if len(p.Metadata) > 0 {
		b["metadata"] = p.Metadata
	}
	b.Text("user", p.User)
	b.Text("service_tier", p.ServiceTier)
	b.Text("safety_identifier", p.SafetyIdentifier)
	b.Text("prompt_cache_key", p.PromptCacheKey)
	reasoning := wire.Object{}
	reasoning.Text("effort", p.ReasoningEffort)
	reasoning.Text("summary", p.ReasoningSummary)
	if len(reasoning) > 0 {
		b["reasoning"] = reasoning
	}
	var include []string
	if m.limits.Sealed || p.Store != nil && !*p.Store {
		// What a server need not have stored is sent back whole by a later turn.
		include = append(include, "reasoning.encrypted_content")
	}
	if top := p.TopLogProbs; p.LogProbs != nil && *p.LogProbs || p.LogProbs == nil && m.o.TopLogProbs > 0 {
		include = append(include, "message.output_text.logprobs")
		wire.Set(b, "top_logprobs", top)
		if p.LogProbs == nil {
			b["top_logprobs"] = min(m.o.TopLogProbs, 20)
		}
	}
	if include != nil {
		b["include"] = include
	}
	text := wire.Object{}
	text.Text("verbosity", p.Verbosity)
	switch s := p.Schema; {
	case s != nil:
		format := wire.Object{"type": "json_schema", "name": nameOf(s), "schema": s.Schema}
		format.Text("description", s.Description)
		wire.Set(format, "strict", s.Strict)
		text["format"] = format
	case o.JSONMode || o.ResponseMIMEType == "application/json":
		text["format"] = wire.Object{"type": "json_object"}
	}
	if len(text) > 0 {
		b["text"] = text
	}
	var tools []any
	for _, f := range wire.Tools(o) {
		// Without strict the API takes it for true, and changes the schema.
		tool := wire.Object{"type": "function", "name": f.Name, "strict": f.Strict}
		tool.Text("description", f.Description)
		tool["parameters"] = f.Parameters
		tools = append(tools, tool)
	}
	if p.Dialect == middleware.DialectResponses {
		for _, raw := range p.RawTools {
			tools = append(tools, raw)
		}
	}
	if len(tools) > 0 {
		b["tools"] = tools
	}
	switch mode, function, other := wire.Choice(o); {
	case function != "":
		b["tool_choice"] = wire.Object{"type": "function", "name": function}
	case other != nil:
		b["tool_choice"] = other
	default:
		b.Text("tool_choice", mode)
	}
	notSent := wire.NotSent(p, middleware.DialectResponses, "Temperature", "TopP", "MaxTokens", "ParallelToolCalls", "Store", "Metadata", "User", "ServiceTier",
		"SafetyIdentifier", "PromptCacheKey", "ReasoningEffort", "ReasoningSummary", "LogProbs", "TopLogProbs", "Verbosity", "Schema")
	if len(o.StopWords) > 0 {
		notSent = append(notSent, "StopWords")
	}
	return b, notSent, nil
}

// items are a conversation as the API's input.
func items(messages []llms.MessageContent) (list []any, err error) {
	for i := range messages {
		role, kind := "user", "input_text"
		switch wire.Role(messages[i].Role) {
		case llms.ChatMessageTypeSystem:
			role = "system"
		case llms.ChatMessageTypeHuman, llms.ChatMessageTypeTool:
		case llms.ChatMessageTypeAI:
			role, kind = "assistant", "output_text"
		default:
			return nil, wire.Refused(provider, "unknown role %q", messages[i].Role)
		}
		var content []any
		flush := func() {
			if content != nil {
				list = append(list, wire.Object{"type": "message", "role": role, "content": content})
				content = nil
			}
		}
		err := wire.Flat(messages[i].Parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
			switch p := p.(type) {
			case middleware.NamePart: // the API has no names
			case llms.TextContent:
				content = append(content, wire.Object{"type": kind, "text": p.Text})
			case middleware.RawPart:
				if strings.HasPrefix(typeOf(p.Raw), "input_") {
					content = append(content, p.Raw)
					return nil
				}
				flush()
				list = append(list, p.Raw)
			case llms.ToolCall:
				flush()
				if p.FunctionCall != nil {
					list = append(list, wire.Object{"type": "function_call", "call_id": p.ID, "name": p.FunctionCall.Name, "arguments": string(wire.Arguments(p.FunctionCall.Arguments))})
				}
			case llms.ToolCallResponse:
				flush()
				list = append(list, wire.Object{"type": "function_call_output", "call_id": p.ToolCallID, "output": p.Content})
			case middleware.ResultPart:
				flush()
				out := any(p.Content)
				if len(p.Parts) > 0 {
					var parts []any
					if err := wire.Flat(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error {
						one, err := inputPart(inner)
						parts = append(parts, one)
						return err
					}); err != nil {
						return err
					}
					out = parts
				}
				list = append(list, wire.Object{"type": "function_call_output", "call_id": p.ToolCallID, "output": out})
			default:
				one, err := inputPart(p)
				if err != nil {
					return err
				}
				content = append(content, one)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		flush()
	}
	return list, nil
}

func typeOf(raw json.RawMessage) string {
	var item struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &item) // the server refuses what is no item
	return item.Type
}

// inputPart is a part of what a user says.
func inputPart(p llms.ContentPart) (wire.Object, error) {
	switch p := p.(type) {
	case llms.TextContent:
		return wire.Object{"type": "input_text", "text": p.Text}, nil
	case llms.ImageURLContent:
		o := wire.Object{"type": "input_image", "image_url": p.URL}
		o.Text("detail", p.Detail)
		return o, nil
	case llms.BinaryContent:
		return inputPart(middleware.FilePart{MIMEType: p.MIMEType, Data: p.Data})
	case middleware.FilePart:
		url := p.URL
		if p.Data != nil {
			url = wire.DataURL(p.MIMEType, p.Data)
		}
		if strings.HasPrefix(p.MIMEType, "image/") {
			o := wire.Object{"type": "input_image"}
			o.Text("image_url", url)
			o.Text("file_id", p.ID)
			return o, nil
		}
		o := wire.Object{"type": "input_file"}
		o.Text("file_id", p.ID)
		o.Text("filename", p.Name)
		if p.Data != nil {
			o["file_data"] = url
		} else {
			o.Text("file_url", url)
		}
		return o, nil
	}
	return nil, wire.Refused(provider, "a %T cannot be sent in a message", p)
}

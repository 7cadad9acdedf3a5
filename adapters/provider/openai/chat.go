package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

// chat writes a request of chat completions.
func (m *Model) chat(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (wire.Object, []string, error) {
	b := wire.Object{"model": m.o.Model}
	list, err := chatMessages(messages)
	if err != nil {
		return nil, nil, err
	}
	for _, message := range list {
		if _, thought := message["reasoning_content"]; m.limits.Thoughts && message["tool_calls"] != nil && !thought {
			message["reasoning_content"] = ""
		}
	}
	b["messages"] = list
	wire.Set(b, "temperature", p.Temperature)
	wire.Set(b, "top_p", p.TopP)
	wire.Set(b, "frequency_penalty", p.FrequencyPenalty)
	wire.Set(b, "presence_penalty", p.PresencePenalty)
	wire.Set(b, "seed", p.Seed)
	wire.Set(b, "n", p.N)
	wire.Set(b, m.field, p.MaxTokens)
	wire.Set(b, "parallel_tool_calls", p.ParallelToolCalls)
	wire.Set(b, "store", p.Store)
	wire.Set(b, "logprobs", p.LogProbs)
	wire.Set(b, "top_logprobs", p.TopLogProbs)
	if p.LogProbs == nil && m.o.TopLogProbs > 0 {
		b["logprobs"], b["top_logprobs"] = true, min(m.o.TopLogProbs, 20)
	}
	if len(o.StopWords) > 0 {
		b["stop"] = o.StopWords
	}
	if len(p.LogitBias) > 0 {
		b["logit_bias"] = p.LogitBias
	}
	if len(p.Metadata) > 0 {
		b["metadata"] = p.Metadata
	}
	if len(p.Prediction) > 0 {
		b["prediction"] = p.Prediction
	}
	b.Text("reasoning_effort", p.ReasoningEffort)
	b.Text("user", p.User)
	b.Text("service_tier", p.ServiceTier)
	b.Text("verbosity", p.Verbosity)
	b.Text("safety_identifier", p.SafetyIdentifier)
	b.Text("prompt_cache_key", p.PromptCacheKey)
	can := []string{
		"Temperature", "TopP", "FrequencyPenalty", "PresencePenalty", "Seed", "N", "MaxTokens", "ParallelToolCalls", "Store", "LogProbs", "TopLogProbs", "LogitBias",
		"Metadata", "Prediction", "ReasoningEffort", "User", "ServiceTier", "Verbosity", "SafetyIdentifier", "PromptCacheKey", "Schema",
	}
	if m.field == "max_tokens" {
		// Servers like OpenAI's know these, OpenAI does not.
		wire.Set(b, "top_k", p.TopK)
		wire.Set(b, "repetition_penalty", p.RepetitionPenalty)
		can = append(can, "TopK", "RepetitionPenalty")
	}
	switch s := p.Schema; {
	case s != nil:
		schema := wire.Object{"name": nameOf(s), "schema": s.Schema}
		schema.Text("description", s.Description)
		wire.Set(schema, "strict", s.Strict)
		b["response_format"] = wire.Object{"type": "json_schema", "json_schema": schema}
	case o.JSONMode || o.ResponseMIMEType == "application/json":
		b["response_format"] = wire.Object{"type": "json_object"}
	}
	var tools []any
	for _, f := range wire.Tools(o) {
		function := wire.Object{"name": f.Name}
		function.Text("description", f.Description)
		if f.Parameters != nil {
			function["parameters"] = f.Parameters
		}
		if f.Strict {
			function["strict"] = true
		}
		tools = append(tools, wire.Object{"type": "function", "function": function})
	}
	if p.Dialect == middleware.DialectChat {
		for _, raw := range p.RawTools {
			tools = append(tools, raw)
		}
	}
	if len(tools) > 0 {
		b["tools"] = tools
	}
	switch mode, function, other := wire.Choice(o); {
	case function != "":
		b["tool_choice"] = wire.Object{"type": "function", "function": wire.Object{"name": function}}
	case other != nil:
		b["tool_choice"] = other
	default:
		b.Text("tool_choice", mode)
	}
	return b, wire.NotSent(p, middleware.DialectChat, can...), nil
}

func nameOf(s *middleware.Schema) string {
	if s.Name == "" {
		return "answer"
	}
	return s.Name
}

func chatMessages(messages []llms.MessageContent) ([]wire.Object, error) {
	var list []wire.Object
	for i := range messages {
		var err error
		switch role := wire.Role(messages[i].Role); role {
		case llms.ChatMessageTypeSystem, llms.ChatMessageTypeHuman:
			name := map[llms.ChatMessageType]string{llms.ChatMessageTypeSystem: "system", llms.ChatMessageTypeHuman: "user"}[role]
			list, err = said(list, name, messages[i].Parts)
		case llms.ChatMessageTypeAI:
			list, err = answered(list, messages[i].Parts)
		case llms.ChatMessageTypeTool:
			list, err = returned(list, messages[i].Parts)
		default:
			err = wire.Refused(provider, "unknown role %q", messages[i].Role)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// said adds a message of a system or of a user.
func said(list []wire.Object, role string, parts []llms.ContentPart) ([]wire.Object, error) {
	message := wire.Object{"role": role}
	var content []any
	err := wire.Flat(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case middleware.NamePart:
			message["name"] = p.Name
		case middleware.RawPart:
			content = append(content, p.Raw)
		case llms.ToolCallResponse, middleware.ResultPart:
			var err error
			list, err = returned(list, []llms.ContentPart{p})
			return err
		default:
			one, err := chatPart(p)
			if err != nil {
				return err
			}
			content = append(content, one)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(content) == 0:
		return list, nil
	}
	message["content"] = content
	if one, ok := content[0].(wire.Object); ok && len(content) == 1 && one["type"] == "text" {
		message["content"] = one["text"]
	}
	return append(list, message), nil
}

// chatPart is a part of what a user says.
func chatPart(p llms.ContentPart) (wire.Object, error) {
	image := func(url, detail string) wire.Object {
		o := wire.Object{"url": url}
		o.Text("detail", detail)
		return wire.Object{"type": "image_url", "image_url": o}
	}
	switch p := p.(type) {
	case llms.TextContent:
		return wire.Object{"type": "text", "text": p.Text}, nil
	case llms.ImageURLContent:
		return image(p.URL, p.Detail), nil
	case llms.BinaryContent:
		return chatPart(middleware.FilePart{MIMEType: p.MIMEType, Data: p.Data})
	case middleware.FilePart:
		switch {
		case strings.HasPrefix(p.MIMEType, "image/") && p.Data != nil:
			return image(wire.DataURL(p.MIMEType, p.Data), ""), nil
		case strings.HasPrefix(p.MIMEType, "image/") && p.URL != "":
			return image(p.URL, ""), nil
		case strings.HasPrefix(p.MIMEType, "audio/") && p.Data != nil:
			format := strings.TrimPrefix(strings.TrimPrefix(p.MIMEType, "audio/"), "x-")
			if format == "mpeg" {
				format = "mp3"
			}
			return wire.Object{"type": "input_audio", "input_audio": wire.Object{"data": base64.StdEncoding.EncodeToString(p.Data), "format": format}}, nil
		}
		file := wire.Object{}
		file.Text("filename", p.Name)
		switch {
		case p.ID != "":
			file["file_id"] = p.ID
		case p.Data != nil:
			file["file_data"] = wire.DataURL(p.MIMEType, p.Data)
		default:
			return nil, wire.Refused(provider, "chat completions take no file by its address: %s", p.URL)
		}
		return wire.Object{"type": "file", "file": file}, nil
	}
	return nil, wire.Refused(provider, "a %T cannot be sent in a message", p)
}

// answered adds a message of the model.
func answered(list []wire.Object, parts []llms.ContentPart) ([]wire.Object, error) {
	message, text, calls := wire.Object{"role": "assistant"}, "", []any(nil)
	var extras []callExtra
	err := wire.Flat(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case llms.TextContent:
			text += p.Text
		case llms.ToolCall:
			if p.FunctionCall != nil {
				call := wire.Object{"id": p.ID, "type": "function", "function": wire.Object{
					"name": p.FunctionCall.Name, "arguments": string(wire.Arguments(p.FunctionCall.Arguments))}}
				for _, x := range extras {
					if x.ID == p.ID {
						call["extra_content"] = x.Extra
					}
				}
				calls = append(calls, call)
			}
		case middleware.NamePart:
			message["name"] = p.Name
		case middleware.RawPart:
			text += p.Text
			var members map[string]json.RawMessage
			if json.Unmarshal(p.Raw, &members) == nil {
				_ = json.Unmarshal(members["tool_calls"], &extras) // what are no calls say nothing of any
				delete(members, "tool_calls")
				for name, v := range members {
					message[name] = v
				}
			}
		default:
			return wire.Refused(provider, "a %T cannot be sent in an answer", p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	if text != "" || len(message) == 1 {
		message["content"] = text
	}
	return append(list, message), nil
}

// returned adds results of tools. They hold text only: what else a tool returned
// follows as a message of the user.
func returned(list []wire.Object, parts []llms.ContentPart) ([]wire.Object, error) {
	var more []llms.ContentPart
	err := wire.Flat(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case llms.ToolCallResponse:
			list = append(list, wire.Object{"role": "tool", "tool_call_id": p.ToolCallID, "content": p.Content})
		case middleware.ResultPart:
			var own strings.Builder
			_ = wire.Flat(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error { // fails for none
				if t, ok := inner.(llms.TextContent); ok {
					own.WriteString(t.Text)
				} else {
					more = append(more, inner)
				}
				return nil
			})
			text := cmp.Or(own.String(), p.Content)
			list = append(list, wire.Object{"role": "tool", "tool_call_id": p.ToolCallID, "content": text})
		default:
			return wire.Refused(provider, "a %T is no result of a tool", p)
		}
		return nil
	})
	if err != nil || len(more) == 0 {
		return list, err
	}
	return said(list, "user", more)
}

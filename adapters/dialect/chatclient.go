package dialect

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// chatFields are the parameters of chat completions, samplerFields those that servers like
// OpenAI's know beside them.
var (
	chatFields = append(newParamFields(
		"frequency_penalty", "FrequencyPenalty", "presence_penalty", "PresencePenalty", "seed", "Seed", "n", "N", "logprobs", "LogProbs", "logit_bias", "LogitBias",
		"prediction", "Prediction", "reasoning_effort", "ReasoningEffort", "verbosity", "Verbosity",
	), commonFields...)
	samplerFields = append(newParamFields("top_k", "TopK", "repetition_penalty", "RepetitionPenalty"), chatFields...)
)

func (chat) Dialect() middleware.Dialect { return middleware.DialectChat }

func (chat) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b := Object{"model": c.Model}
	list, err := chatMessages(c.Messages)
	if err != nil {
		return nil, err
	}
	for _, message := range list {
		if _, thought := message["reasoning_content"]; c.Limits.Thoughts && message["tool_calls"] != nil && !thought {
			message["reasoning_content"] = ""
		}
	}
	b["messages"] = list
	fields := chatFields
	if c.MaxTokensField == "max_tokens" {
		fields = samplerFields
	}
	fields.write(b, p)
	setValue(b, c.MaxTokensField, p.MaxTokens)
	if len(o.StopWords) > 0 {
		b["stop"] = o.StopWords
	}
	switch s := p.Schema; {
	case s != nil:
		b["response_format"] = Object{"type": "json_schema", "json_schema": schemaObject(s)}
	case isJSON(o):
		b["response_format"] = Object{"type": "json_object"}
	}
	b.tools(c, middleware.DialectChat, func(f *llms.FunctionDefinition) Object {
		function := Object{"name": f.Name}
		function.text("description", f.Description)
		if f.Parameters != nil {
			function["parameters"] = f.Parameters
		}
		if f.Strict {
			function["strict"] = true
		}
		return Object{"type": "function", "function": function}
	})
	switch mode, function, other := toolChoice(o); {
	case function != "":
		b["tool_choice"] = Object{"type": "function", "function": Object{"name": function}}
	case other != nil:
		b["tool_choice"] = other
	default:
		b.text("tool_choice", mode)
	}
	b.extra(p, middleware.DialectChat)
	delete(b, "stream")
	delete(b, "stream_options")
	if c.Stream {
		b["stream"], b["stream_options"] = true, Object{"include_usage": true}
	}
	c.NotSent = append(c.NotSent, fields.missing(p, middleware.DialectChat, "MaxTokens", "Schema")...)
	return b, nil
}

// schemaObject is an answer's schema as OpenAI's APIs have it.
func schemaObject(s *middleware.Schema) Object {
	o := Object{"name": cmp.Or(s.Name, "answer"), "schema": s.Schema}
	o.text("description", s.Description)
	setValue(o, "strict", s.Strict)
	return o
}

func chatMessages(messages []llms.MessageContent) (list []Object, err error) {
	for i := range messages {
		role, err := roleOf(messages[i].Role)
		if err != nil {
			return nil, err
		}
		switch parts := messages[i].Parts; role {
		case llms.ChatMessageTypeSystem:
			list, err = appendSpeech(list, "system", parts)
		case llms.ChatMessageTypeHuman:
			list, err = appendSpeech(list, "user", parts)
		case llms.ChatMessageTypeAI:
			list, err = appendAssistant(list, parts)
		default:
			list, err = appendResults(list, parts)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// appendSpeech adds a message of a system or of a user.
func appendSpeech(list []Object, role string, parts []llms.ContentPart) ([]Object, error) {
	message := Object{"role": role}
	var content []any
	var unknown memberWriter
	err := eachPart(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case middleware.NamePart:
			message["name"] = p.Name
		case middleware.RawPart:
			if !unknown.take(p) {
				content = append(content, p.Raw)
			}
		case llms.ToolCallResponse, middleware.ResultPart:
			var err error
			list, err = appendResults(list, []llms.ContentPart{p})
			return err
		default:
			one, err := chatPart(p)
			if err != nil {
				return err
			}
			content = append(content, unknown.addTo(one))
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(content) == 0:
		return list, nil
	}
	message["content"] = chatContent(content)
	return append(list, unknown.addToMessage(message)), nil
}

// chatContent is the content of a message: a text where it is nothing else.
func chatContent(parts []any) any {
	if one, ok := parts[0].(Object); ok && len(parts) == 1 && len(one) == 2 && one["type"] == "text" {
		return one["text"]
	}
	return parts
}

// chatPart is a part of what a user says.
func chatPart(p llms.ContentPart) (Object, error) {
	image := func(url, detail string) Object {
		o := Object{"url": url}
		o.text("detail", detail)
		return Object{"type": "image_url", "image_url": o}
	}
	switch p := p.(type) {
	case llms.TextContent:
		return Object{"type": "text", "text": p.Text}, nil
	case llms.ImageURLContent:
		return image(p.URL, p.Detail), nil
	case llms.BinaryContent:
		return chatPart(middleware.FilePart{MIMEType: p.MIMEType, Data: p.Data})
	case middleware.FilePart:
		switch {
		case strings.HasPrefix(p.MIMEType, "image/") && p.Data != nil:
			return image(dataURL(p.MIMEType, p.Data), ""), nil
		case strings.HasPrefix(p.MIMEType, "image/") && p.URL != "":
			return image(p.URL, ""), nil
		case strings.HasPrefix(p.MIMEType, "audio/") && p.Data != nil:
			format := strings.TrimPrefix(strings.TrimPrefix(p.MIMEType, "audio/"), "x-")
			if format == "mpeg" {
				format = "mp3"
			}
			return Object{"type": "input_audio", "input_audio": Object{"data": base64.StdEncoding.EncodeToString(p.Data), "format": format}}, nil
		}
		file := Object{}
		file.text("filename", p.Name)
		switch {
		case p.ID != "":
			file["file_id"] = p.ID
		case p.Data != nil:
			file["file_data"] = dataURL(p.MIMEType, p.Data)
		default:
			return nil, refuseCall("chat completions take no file by its address: %s", p.URL)
		}
		return Object{"type": "file", "file": file}, nil
	}
	return nil, refusePart(p)
}

// appendAssistant adds a message of the model.
func appendAssistant(list []Object, parts []llms.ContentPart) ([]Object, error) {
	message, text, calls := Object{"role": "assistant"}, "", []any(nil)
	var content []any // where its parts have members of their own
	var extras []callExtra
	var unknown memberWriter
	err := eachPart(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case llms.TextContent:
			if unknown.part.Exists() || content != nil {
				content = append(content, unknown.addTo(Object{"type": "text", "text": p.Text}))
				break
			}
			text += p.Text
		case llms.ToolCall:
			if p.FunctionCall != nil {
				call := unknown.addTo(Object{"id": p.ID, "type": "function", "function": Object{
					"name": p.FunctionCall.Name, "arguments": string(argumentsObject(p.FunctionCall.Arguments))}})
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
			if unknown.take(p) {
				break
			}
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
			return refusePart(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	switch {
	case content != nil && text != "":
		message["content"] = append([]any{Object{"type": "text", "text": text}}, content...)
	case content != nil:
		message["content"] = content
	case text != "" || len(message) == 1:
		message["content"] = text
	}
	return append(list, unknown.addToMessage(message)), nil
}

// appendResults adds results of tools. They hold text only: what else a tool returned
// follows as a message of the user.
func appendResults(list []Object, parts []llms.ContentPart) ([]Object, error) {
	var more []llms.ContentPart
	var unknown memberWriter
	add := func(id, text string) {
		list = append(list, unknown.addToMessage(Object{"role": "tool", "tool_call_id": id, "content": text}))
	}
	err := eachPart(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case middleware.RawPart:
			if !unknown.take(p) {
				return refusePart(p)
			}
		case llms.ToolCallResponse:
			add(p.ToolCallID, p.Content)
		case middleware.ResultPart:
			var own strings.Builder
			_ = eachPart(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error { // fails for none
				if t, ok := inner.(llms.TextContent); ok {
					own.WriteString(t.Text)
				} else {
					more = append(more, inner)
				}
				return nil
			})
			add(p.ToolCallID, cmp.Or(own.String(), p.Content))
		default:
			return refuseCall("a %T is no result of a tool", p)
		}
		return nil
	})
	if err != nil || len(more) == 0 {
		return list, err
	}
	return appendSpeech(list, "user", more)
}

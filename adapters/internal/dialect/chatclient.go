package dialect

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// chatFields are the parameters of chat completions, samplerFields include those that only compatible servers
// accept.
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
	var list []Object
	err := eachMessage(c.Messages, func(role llms.ChatMessageType, parts []llms.ContentPart) (err error) {
		switch role {
		case llms.ChatMessageTypeSystem:
			list, err = appendSpeech(list, "system", parts)
		case llms.ChatMessageTypeHuman:
			list, err = appendSpeech(list, "user", parts)
		case llms.ChatMessageTypeAI:
			list, err = appendAssistant(list, parts)
		default:
			list, err = appendResults(list, parts)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	b["messages"] = c.fitChat(list)
	fields := chatFields
	if c.MaxTokensField == "max_tokens" {
		fields = samplerFields
	}
	fields.write(b, p)
	setValue(b, c.MaxTokensField, p.MaxTokens)
	if !deref(p.LogProbs) { // otherwise rejected: "only allowed when 'logprobs' is enabled"
		delete(b, "top_logprobs")
		c.omit(p.TopLogProbs != nil, "TopLogProbs")
	}
	setList(b, "stop", o.StopWords)
	switch s := p.Schema; {
	case s != nil:
		b["response_format"] = Object{"type": "json_schema", "json_schema": schemaObject(s)}
	case isJSON(o):
		b["response_format"] = Object{"type": "json_object"}
	}
	b.tools(c, middleware.DialectChat, func(f *llms.FunctionDefinition) Object {
		return Object{"type": "function", "function": c.functionObject(f, "parameters", nil)}
	})
	b.toolChoice(c, func(name string) Object { return Object{"type": "function", "function": Object{"name": name}} })
	if c.Stream {
		b["stream_options"] = Object{"include_usage": true}
	}
	b.addExtra(p, middleware.DialectChat)
	b.setStream(c)
	c.NotSent = append(c.NotSent, fields.missing(p, middleware.DialectChat, "MaxTokens", "Schema")...)
	c.fitMembers(b)
	return b, nil
}

func (c *Call) fitMembers(b Object) {
	if !c.Stream {
		delete(b, "stream_options")
	}
	for name, other := range c.Limits.Renamed {
		if value, ok := b[name]; ok {
			b[other] = value
			delete(b, name)
		}
	}
	taken := slices.DeleteFunc(b.keepOnly(c.Limits.Members), func(name string) bool { return name == "stream_options" }) // set without the caller's request
	c.NotSent = append(c.NotSent, NameNotSent(middleware.DialectChat, taken)...)
	c.removeRefused(b)
}

// removeRefused removes what other vendors accept and this one rejects.
func (c *Call) removeRefused(b Object) {
	if c.Limits.Refuses != nil {
		c.NotSent = addNew(c.NotSent, removeAll(b, c.Limits.Refuses)...)
	}
}

func (c *Call) fitChat(list []Object) []Object {
	var fitting []Object
	var taken []string
	for i, message := range list {
		if c.Limits.ThoughtParts {
			message.thinkInContent()
		}
		taken = append(taken, message.keepOnly(c.Limits.MessageMembers)...)
		if c.Limits.Thoughts && message["role"] == "assistant" && message["reasoning_content"] == nil {
			message["reasoning_content"] = ""
		}
		if c.Limits.AnswerAfterResults && message["role"] == "user" && i > 0 && list[i-1]["role"] == "tool" {
			fitting = append(fitting, Object{"role": "assistant", "content": "OK."})
		}
		fitting = append(fitting, message)
	}
	if n := len(fitting); c.Limits.Prefix && n > 0 && fitting[n-1]["role"] == "assistant" {
		fitting[n-1]["prefix"] = true
	}
	c.NotSent = distinct(append(c.NotSent, taken...))
	return fitting
}

// thinkInContent moves reasoning_content to the front of the content.
func (o Object) thinkInContent() {
	thought, _ := o["reasoning_content"].(json.RawMessage)
	text := gjson.ParseBytes(thought).Str
	if text == "" {
		return
	}
	content := []any{Object{"type": "thinking", "thinking": []any{newPart("text", "text", text)}}}
	switch rest := o["content"].(type) {
	case []any:
		content = append(content, rest...)
	case string:
		content = append(content, newPart("text", "text", rest))
	}
	o["content"] = content
	delete(o, "reasoning_content")
}

// SplitCalls splits each turn with several calls in a request of chat completions into turns of one call
// each, followed by its result, and reports whether there was any.
func (o Object) SplitCalls() (isChanged bool) {
	list, _ := o["messages"].([]Object)
	var own []Object
	for len(list) > 0 {
		message := list[0]
		list = list[1:]
		calls, _ := message["tool_calls"].([]any)
		if len(calls) < 2 {
			own = append(own, message)
			continue
		}
		isChanged = true
		var results []Object
		for len(list) > 0 && list[0]["role"] == "tool" {
			results, list = append(results, list[0]), list[1:]
		}
		for k, call := range calls {
			turn := Object{"role": "assistant"}
			if k == 0 {
				turn = maps.Clone(message)
			}
			turn["tool_calls"] = []any{call}
			own = append(own, turn)
			id := gjson.GetBytes(rawJSON(call), "id").Str
			results = slices.DeleteFunc(results, func(result Object) bool {
				if result["tool_call_id"] != id {
					return false
				}
				own = append(own, result)
				return true
			})
		}
		own = append(own, results...) // results without a call
	}
	o["messages"] = own
	return isChanged
}

func schemaObject(s *middleware.Schema) Object {
	o := Object{"name": cmp.Or(s.Name, "answer"), "schema": s.Schema}
	o.text("description", s.Description)
	setValue(o, "strict", s.Strict)
	return o
}

func appendSpeech(list []Object, role string, parts []llms.ContentPart) ([]Object, error) {
	if len(parts) == 1 { // the most frequent case
		if p, ok := parts[0].(llms.TextContent); ok {
			return append(list, Object{"role": role, "content": p.Text}), nil
		}
	}
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
		case middleware.ResultPart:
			var err error
			list, err = appendResults(list, []llms.ContentPart{p})
			return err
		default:
			one, err := chatParts.write(p)
			if err != nil {
				return err
			}
			content = append(content, unknown.addTo(one))
		}
		return nil
	})
	if err != nil || len(content) == 0 {
		return list, err
	}
	message["content"] = chatContent(content)
	return append(list, unknown.addToMessage(message)), nil
}

// chatContent returns the content of a message, as a string if it is a single text.
func chatContent(parts []any) any {
	if one, ok := parts[0].(Object); ok && len(parts) == 1 && len(one) == 2 && one["type"] == "text" {
		return one["text"]
	}
	return parts
}

func appendAssistant(list []Object, parts []llms.ContentPart) ([]Object, error) {
	w := assistantWriter{message: Object{"role": "assistant"}}
	if err := eachPart(parts, w.part); err != nil {
		return nil, err
	}
	setList(w.message, "tool_calls", w.calls)
	switch message := w.message; {
	case w.content != nil && w.text != "":
		message["content"] = append([]any{newPart("text", "text", w.text)}, w.content...)
	case w.content != nil:
		message["content"] = w.content
	case w.text != "" || len(message) == 1:
		message["content"] = w.text
	}
	return append(list, w.unknown.addToMessage(w.message)), nil
}

type assistantWriter struct {
	message Object
	text    string
	content []any // set if its parts have members of their own
	calls   []any
	extras  []callExtra
	unknown memberWriter
}

func (w *assistantWriter) part(p llms.ContentPart, _ *llms.CacheControl) error {
	switch p := p.(type) {
	case llms.TextContent:
		if w.unknown.part.Exists() || w.content != nil {
			w.content = append(w.content, w.unknown.addTo(Object{"type": "text", "text": p.Text}))
			break
		}
		w.text += p.Text
	case llms.ToolCall:
		call := w.unknown.addTo(Object{"id": p.ID, "type": "function", "function": Object{
			"name": p.FunctionCall.Name, "arguments": string(argumentsObject(p.FunctionCall.Arguments))}})
		for _, x := range w.extras {
			if x.ID == p.ID {
				call["extra_content"] = x.Extra
			}
		}
		w.calls = append(w.calls, call)
	case middleware.NamePart:
		w.message["name"] = p.Name
	case middleware.RawPart:
		w.raw(p)
	default:
		return refusePart(p)
	}
	return nil
}

func (w *assistantWriter) raw(p middleware.RawPart) {
	switch kind := gjson.GetBytes(p.Raw, "type").Str; {
	case w.unknown.take(p):
	case isCustomCall(p):
		w.calls = append(w.calls, p.Raw)
	case kind == "refusal":
		w.content = append(w.content, p.Raw)
	default:
		w.text += p.Text
		var members map[string]json.RawMessage
		if json.Unmarshal(p.Raw, &members) == nil {
			_ = json.Unmarshal(members["tool_calls"], &w.extras) // on an error there are no extras
			delete(members, "tool_calls")
			for name, v := range members {
				w.message[name] = v
			}
		}
	}
}

// appendResults adds tool results. They can only hold text, so files follow in a message of the
// user.
func appendResults(list []Object, parts []llms.ContentPart) ([]Object, error) {
	var more []llms.ContentPart
	var unknown memberWriter
	err := eachPart(parts, func(p llms.ContentPart, _ *llms.CacheControl) error {
		switch p := p.(type) {
		case middleware.RawPart:
			if !unknown.take(p) {
				return refusePart(p)
			}
		case middleware.ResultPart:
			message, others := toolMessage(p, &unknown)
			if list = append(list, unknown.addToMessage(message)); len(others) > 0 {
				more = append(append(more, resultHead(p)), others...)
			}
		default:
			return refuseCall("a %T is not a tool result", p)
		}
		return nil
	})
	if err != nil || len(more) == 0 {
		return list, err
	}
	return appendSpeech(list, "user", more)
}

// resultHead returns the text that introduces the files of a result in the user's message.
func resultHead(p middleware.ResultPart) llms.TextContent {
	return llms.TextContent{Text: "Result of the call " + p.ToolCallID + ":"}
}

// toolMessage returns the message of a result, and the parts that it cannot hold.
func toolMessage(p middleware.ResultPart, unknown *memberWriter) (message Object, others []llms.ContentPart) {
	var own []string
	var texts []any
	isPlain := true
	_ = eachPart(p.Parts, func(inner llms.ContentPart, _ *llms.CacheControl) error { // the callback never fails
		if raw, ok := inner.(middleware.RawPart); ok && unknown.take(raw) {
			isPlain = false
		} else if t, ok := inner.(llms.TextContent); ok {
			own = append(own, t.Text)
			texts = append(texts, unknown.addTo(Object{"type": "text", "text": t.Text}))
		} else {
			others = append(others, inner)
		}
		return nil
	})
	message = Object{"role": "tool", "tool_call_id": p.ToolCallID, "content": texts}
	if isPlain || texts == nil {
		message["content"] = cmp.Or(strings.Join(own, "\n"), p.Content)
	}
	return message, others
}

package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

// request writes a request of the Messages API.
func (m *Model) request(messages []llms.MessageContent, o *llms.CallOptions, p *middleware.Params) (wire.Object, []string, error) {
	messages, lost := dialect.Own(messages, middleware.DialectAnthropic, m.origin, m.o.Model)
	messages, unfit := m.limits.Fit(messages, o, p)
	b := wire.Object{"model": m.o.Model, "max_tokens": m.o.MaxTokens}
	wire.Set(b, "max_tokens", p.MaxTokens)
	wire.Set(b, "temperature", p.Temperature)
	wire.Set(b, "top_p", p.TopP)
	wire.Set(b, "top_k", p.TopK)
	if len(o.StopWords) > 0 {
		b["stop_sequences"] = o.StopWords
	}
	b.Text("service_tier", p.ServiceTier)
	if p.User != "" {
		b["metadata"] = wire.Object{"user_id": p.User}
	}
	if p.ReasoningTokens != nil {
		b["thinking"] = wire.Object{"type": "enabled", "budget_tokens": *p.ReasoningTokens}
	}
	config := wire.Object{}
	switch p.ReasoningEffort {
	case "none":
		b["thinking"] = wire.Object{"type": "disabled"}
	default:
		config.Text("effort", p.ReasoningEffort)
	}
	if p.Schema != nil {
		config["format"] = wire.Object{"type": "json_schema", "schema": p.Schema.Schema}
	}
	if len(config) > 0 {
		b["output_config"] = config
	}
	var tools []any
	for _, f := range wire.Tools(o) {
		tool := wire.Object{"name": f.Name, "input_schema": f.Parameters}
		if f.Parameters == nil {
			tool["input_schema"] = wire.Object{"type": "object"}
		}
		tool.Text("description", f.Description)
		if f.Strict {
			tool["strict"] = true
		}
		tools = append(tools, tool)
	}
	if p.Dialect == middleware.DialectAnthropic {
		for _, raw := range p.RawTools {
			tools = append(tools, raw)
		}
	}
	if len(tools) > 0 {
		b["tools"] = tools
	}
	choice := wire.Object{}
	switch mode, function, other := wire.Choice(o); {
	case function != "":
		choice = wire.Object{"type": "tool", "name": function}
	case other != nil:
		b["tool_choice"] = other
	case mode == "required":
		choice["type"] = "any"
	default:
		choice.Text("type", mode)
	}
	if p.ParallelToolCalls != nil && len(tools) > 0 && choice["type"] != "none" {
		if len(choice) == 0 {
			choice["type"] = "auto"
		}
		choice["disable_parallel_tool_use"] = !*p.ParallelToolCalls
	}
	if len(choice) > 0 {
		b["tool_choice"] = choice
	}
	if err := converse(b, messages); err != nil {
		return nil, nil, err
	}
	can := []string{"MaxTokens", "Temperature", "TopP", "TopK", "ServiceTier", "User", "ReasoningTokens", "ReasoningEffort", "Schema", "ParallelToolCalls"}
	notSent := wire.NotSent(p, middleware.DialectAnthropic, can...)
	if o.JSONMode && p.Schema == nil {
		notSent = append(notSent, "JSONMode")
	}
	return b, slices.Concat(notSent, lost, unfit), nil
}

// settle takes out of a request what the API refuses together, and names it.
func (m *Model) settle(b wire.Object) (notSent []string) {
	if b["temperature"] != nil && b["top_p"] != nil && dialect.IsOneSampler(m.o.Model) {
		delete(b, "top_p")
		notSent = append(notSent, "TopP")
	}
	raw, err := json.Marshal(b["thinking"])
	kind := gjson.GetBytes(raw, "type").Str
	room := leastBudget
	if budget := m.limits.AdaptiveBudget; kind == "adaptive" && budget > 0 {
		room = min(budget, answerTokens(b)-1)
		kind, b["thinking"] = "enabled", wire.Object{"type": "enabled", "budget_tokens": room}
	}
	if err != nil || kind != "enabled" && kind != "adaptive" {
		return notSent
	} else if isForced(b["tool_choice"]) || kind == "enabled" && !mayThink(b) || room < leastBudget {
		b["thinking"] = wire.Object{"type": "disabled"}
		if edits, ok := b["context_management"].(json.RawMessage); ok && bytes.Contains(edits, []byte("clear_thinking")) {
			delete(b, "context_management") // it is refused without thinking
		}
		return append(notSent, "Thinking")
	}
	// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility
	for field, name := range map[string]string{"temperature": "Temperature", "top_k": "TopK"} {
		if b[field] != nil {
			delete(b, field)
			notSent = append(notSent, name)
		}
	}
	return notSent
}

// leastBudget is the smallest budget of thinking that the API takes.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking
const leastBudget = 1024

// answerTokens returns the longest answer that a request allows.
func answerTokens(b wire.Object) int {
	raw, err := json.Marshal(b["max_tokens"])
	if err != nil {
		return 0
	}
	return int(gjson.ParseBytes(raw).Int())
}

// isForced reports whether a choice of tools leaves none: thinking is refused then.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#extended-thinking-with-tool-use
func isForced(choice any) bool {
	raw, err := json.Marshal(choice)
	kind := gjson.GetBytes(raw, "type").Str
	return err == nil && (kind == "any" || kind == "tool")
}

// mayThink reports whether the API takes the conversation with thinking: a turn that is
// within a loop of tool calls has to begin with thinking, which a turn of another model
// does not have.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks
func mayThink(b wire.Object) bool {
	list, _ := b["messages"].([]wire.Object)
	for _, message := range slices.Backward(list) {
		if message["role"] == "assistant" {
			blocks, _ := message["content"].([]any)
			return len(blocks) == 0 || isThinking(blocks[0]) || !slices.ContainsFunc(blocks, isCall)
		}
	}
	return true
}

func isCall(block any) bool {
	o, ok := block.(wire.Object)
	return ok && o["type"] == "tool_use"
}

func isThinking(block any) bool {
	raw, ok := block.(json.RawMessage)
	return ok && strings.HasSuffix(gjson.GetBytes(raw, "type").Str, "thinking")
}

// converse writes the messages: the system's apart, and those of one role together.
func converse(b wire.Object, messages []llms.MessageContent) error {
	var system []any
	var list []wire.Object
	for i := range messages {
		var blocks []any
		err := wire.Flat(messages[i].Parts, func(p llms.ContentPart, cache *llms.CacheControl) error {
			return addBlock(&blocks, p, cache)
		})
		if err != nil {
			return err
		}
		role := "user"
		switch wire.Role(messages[i].Role) {
		case llms.ChatMessageTypeSystem:
			if len(list) == 0 {
				system = append(system, blocks...)
				continue
			}
			// The API has no system message within a conversation.
		case llms.ChatMessageTypeAI:
			role = "assistant"
		case llms.ChatMessageTypeHuman, llms.ChatMessageTypeTool:
		default:
			return wire.Refused(provider, "unknown role %q", messages[i].Role)
		}
		if len(blocks) == 0 {
			continue
		}
		if n := len(list); n > 0 && list[n-1]["role"] == role {
			before, _ := list[n-1]["content"].([]any)
			list[n-1]["content"] = append(before, blocks...)
			continue
		}
		list = append(list, wire.Object{"role": role, "content": blocks})
	}
	if system != nil {
		b["system"] = system
	}
	b["messages"] = list
	return nil
}

// addBlock adds a part to a list of blocks.
func addBlock(to *[]any, p llms.ContentPart, cache *llms.CacheControl) error {
	one, err := block(p)
	if err != nil || one == nil {
		return err
	}
	if o, ok := one.(wire.Object); ok && cache != nil {
		o["cache_control"] = cached(cache)
	}
	*to = append(*to, one)
	return nil
}

func cached(c *llms.CacheControl) wire.Object {
	o := wire.Object{"type": "ephemeral"}
	if c.Duration.Hours() >= 1 {
		o["ttl"] = "1h"
	}
	return o
}

// block is a part of a message, or nil when the API has no word for it and loses
// nothing.
func block(p llms.ContentPart) (any, error) {
	switch p := p.(type) {
	case llms.TextContent:
		if strings.TrimSpace(p.Text) == "" {
			return nil, nil // the API takes no empty text
		}
		return wire.Object{"type": "text", "text": p.Text}, nil
	case llms.ImageURLContent:
		if mime, data, ok := wire.Data(p.URL); ok {
			return block(middleware.FilePart{MIMEType: mime, Data: data})
		}
		return wire.Object{"type": "image", "source": wire.Object{"type": "url", "url": p.URL}}, nil
	case llms.BinaryContent:
		return block(middleware.FilePart{MIMEType: p.MIMEType, Data: p.Data})
	case middleware.FilePart:
		return file(p)
	case llms.ToolCall:
		if p.FunctionCall == nil {
			return nil, nil
		}
		return wire.Object{"type": "tool_use", "id": p.ID, "name": p.FunctionCall.Name, "input": wire.Arguments(p.FunctionCall.Arguments)}, nil
	case llms.ToolCallResponse:
		return wire.Object{"type": "tool_result", "tool_use_id": p.ToolCallID, "content": p.Content}, nil
	case middleware.ResultPart:
		o := wire.Object{"type": "tool_result", "tool_use_id": p.ToolCallID, "content": p.Content}
		if p.Failed {
			o["is_error"] = true
		}
		if len(p.Parts) > 0 {
			var blocks []any
			if err := wire.Flat(p.Parts, func(inner llms.ContentPart, cache *llms.CacheControl) error {
				return addBlock(&blocks, inner, cache)
			}); err != nil {
				return nil, err
			}
			o["content"] = blocks
		}
		return o, nil
	case middleware.RawPart:
		return p.Raw, nil
	case middleware.NamePart:
		return nil, nil
	}
	return nil, wire.Refused(provider, "a %T cannot be sent in a message", p)
}

func file(p middleware.FilePart) (any, error) {
	kind := "document"
	if strings.HasPrefix(p.MIMEType, "image/") {
		kind = "image"
	}
	var source wire.Object
	switch {
	case p.ID != "":
		source = wire.Object{"type": "file", "file_id": p.ID}
	case p.Data != nil && strings.HasPrefix(p.MIMEType, "text/"):
		source = wire.Object{"type": "text", "media_type": "text/plain", "data": string(p.Data)}
	case p.Data != nil:
		source = wire.Object{"type": "base64", "media_type": p.MIMEType, "data": base64.StdEncoding.EncodeToString(p.Data)}
	default:
		source = wire.Object{"type": "url", "url": p.URL}
	}
	if strings.HasPrefix(p.MIMEType, "audio/") || strings.HasPrefix(p.MIMEType, "video/") {
		return nil, wire.Refused(provider, "the API takes no %s", p.MIMEType)
	}
	o := wire.Object{"type": kind, "source": source}
	if kind == "document" {
		o.Text("title", p.Name)
	}
	return o, nil
}

package dialect

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

var messagesFields = newParamFields("max_tokens", "MaxTokens", "temperature", "Temperature", "top_p", "TopP", "top_k", "TopK", "service_tier", "ServiceTier",
	"metadata.user_id", "User", "thinking.budget_tokens", "ReasoningTokens", "output_config.effort", "ReasoningEffort")

func (messages) Dialect() middleware.Dialect { return middleware.DialectAnthropic }

func (messages) Write(c *Call) (Object, error) {
	o, p := c.Options, c.Params
	b := Object{"model": c.Model, "max_tokens": c.MaxTokens}
	messagesFields.write(b, p)
	setList(b, "stop_sequences", o.StopWords)
	if p.ReasoningTokens != nil {
		b.setPath("thinking.type", "enabled")
	}
	if p.ReasoningEffort == "none" {
		b["thinking"] = Object{"type": "disabled"}
		b.Remove("output_config")
	}
	if p.Schema != nil {
		b.setPath("output_config.format", Object{"type": "json_schema", "schema": p.Schema.Schema})
	}
	b.tools(c, middleware.DialectAnthropic, func(f *llms.FunctionDefinition) Object {
		tool := c.functionObject(f, "input_schema", Object{"type": "object"})
		tool.adoptToolMark(f, p)
		return tool
	})
	b.messagesToolChoice(c)
	if err := writeTurns(b, c.Messages); err != nil {
		return nil, err
	}
	c.NotSent = append(c.NotSent, messagesFields.missing(p, middleware.DialectAnthropic, "Schema", "ParallelToolCalls")...)
	c.omit(o.JSONMode && p.Schema == nil, "JSONMode")
	b.addExtra(p, middleware.DialectAnthropic)
	if mark := p.Extra[cacheMark]; isObject(string(mark)) {
		b[cacheMark] = mark
	}
	c.NotSent = append(c.NotSent, removeConflicts(b, c)...)
	const field = "anthropic_beta" // replaces the header on Bedrock, but the API itself does not accept it
	list, _ := o.Metadata["anthropic:beta_headers"].([]string)
	if raw, ok := b[field].(json.RawMessage); ok {
		delete(b, field)
		var more []string
		if json.Unmarshal(raw, &more) == nil { // anything but a list of names requests none
			list = append(slices.Clone(list), more...)
		}
	}
	c.Betas = list
	b.setStream(c)
	if c.Limits.CacheMarks {
		markCache(b)
	}
	return b, nil
}

func (o Object) messagesToolChoice(c *Call) {
	choice, p := Object{}, c.Params
	switch mode, function, other := middleware.ToolChoice(c.Options); {
	case function != "":
		choice = Object{"type": "tool", "name": c.Limits.toolName(function)}
	case other != nil:
		o["tool_choice"] = other
	case mode == "required":
		choice["type"] = "any"
	default:
		choice.text("type", mode)
	}
	if p.ParallelToolCalls != nil && o["tools"] != nil && choice["type"] != "none" {
		if len(choice) == 0 {
			choice["type"] = "auto"
		}
		choice["disable_parallel_tool_use"] = !*p.ParallelToolCalls
	}
	if len(choice) > 0 {
		o["tool_choice"] = choice
	}
}

// removeConflicts removes parameters that the API rejects in combination, and names them.
func removeConflicts(b Object, c *Call) (notSent []string) {
	if b["temperature"] != nil && b["top_p"] != nil && c.Limits.OneSampler {
		delete(b, "top_p")
		notSent = append(notSent, "TopP")
	}
	isThinking, lost := fitThinking(b, c)
	if notSent = append(notSent, lost...); !isThinking {
		return notSent
	}
	// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility
	for _, f := range [...]struct{ field, name string }{{"temperature", "Temperature"}, {"top_k", "TopK"}} {
		if b[f.field] != nil {
			delete(b, f.field)
			notSent = append(notSent, f.name)
		}
	}
	return notSent
}

// fitThinking adapts the thinking to the model and the request, and reports whether the model will think.
func fitThinking(b Object, c *Call) (isThinking bool, notSent []string) {
	kind, room, notSent := mapThinking(b, c)
	if kind != "enabled" && kind != "adaptive" {
		return false, notSent
	}
	if !isForced(b["tool_choice"]) && (kind != "enabled" || mayThink(b)) && room >= leastBudget {
		return true, notSent
	}
	b["thinking"] = Object{"type": "disabled"}
	if edits, _ := b["context_management"].(json.RawMessage); bytes.Contains(edits, []byte("clear_thinking")) {
		delete(b, "context_management") // it is rejected without thinking
	}
	return false, append(notSent, "Thinking")
}

// mapThinking maps the type of thinking to one that the model accepts, and limits its budget. room is the
// resulting budget.
func mapThinking(b Object, c *Call) (kind string, room int, notSent []string) {
	raw := rawJSON(b["thinking"])
	was, budget, most := gjson.GetBytes(raw, "type").Str, gjson.GetBytes(raw, "budget_tokens"), int(gjson.ParseBytes(rawJSON(b["max_tokens"])).Int())-1
	kind, room = was, leastBudget
	if mapped, ok := c.Limits.Thinking[was]; ok {
		kind = mapped
	}
	switch kind {
	case was:
	case "":
		delete(b, "thinking")
		return "", room, []string{"Thinking"}
	case "enabled":
		room = budgetOf(c.Effort, most+1)
		b["thinking"] = Object{"type": kind, "budget_tokens": room}
	default:
		thinking := Object{"type": kind}
		thinking.text("display", gjson.GetBytes(raw, "display").Str)
		b["thinking"] = thinking
		if budget.Exists() {
			notSent = append(notSent, "ReasoningTokens")
		}
	}
	if kind == "enabled" && budget.Num > float64(most) {
		room = most // the API requires it to be below the maximum length of the answer
		b["thinking"] = Object{"type": kind, "budget_tokens": room}
		if room >= leastBudget {
			notSent = append(notSent, budgetAbove(room))
		}
	}
	return kind, room, notSent
}

func budgetAbove(most int) string { return fmt.Sprintf("ReasoningTokens above %d", most) }

// leastBudget is the smallest thinking budget that the API accepts.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking
const leastBudget = 1024

// budgetOf returns the thinking budget that replaces the type adaptive for a model without it: a share, below 1,
// of the maximum length of the answer.
// https://openrouter.ai/docs/use-cases/reasoning-tokens
func budgetOf(effort string, longest int) int {
	const mostCounted = 12_500
	share := cmp.Or(map[string]float64{"minimal": .1, "low": .2, "medium": .5}[strings.ToLower(effort)], .8)
	return int(share * float64(min(longest, mostCounted)))
}

// BudgetFor returns the thinking budget for an effort, as in langchaingo's client, if the model is a Claude that
// does not accept efforts; otherwise 0.
func (c *Call) BudgetFor(effort string, p *middleware.Params) int {
	if mapped, known := c.Limits.Effort[effort]; !known || mapped != "" {
		return 0
	}
	longest := c.MaxTokens
	if p.MaxTokens != nil {
		longest = *p.MaxTokens
	}
	return max(leastBudget, budgetOf(effort, longest))
}

// isForced reports whether a tool_choice forces a call, which the API rejects together with thinking.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#extended-thinking-with-tool-use
func isForced(choice any) bool {
	kind := gjson.GetBytes(rawJSON(choice), "type").Str
	return kind == "any" || kind == "tool"
}

// mayThink reports whether the API accepts the conversation with thinking: a turn with tool calls must begin with
// a thinking block, which turns of other models lack.
// https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks
func mayThink(b Object) bool {
	list, _ := b["messages"].([]Object)
	for _, message := range slices.Backward(list) {
		if message["role"] == "assistant" {
			blocks, _ := message["content"].([]any)
			return len(blocks) == 0 || isThinking(blocks[0]) || !slices.ContainsFunc(blocks, isCall)
		}
	}
	return true
}

func isCall(block any) bool {
	o, ok := block.(Object)
	return ok && o["type"] == "tool_use"
}

func isThinking(block any) bool {
	raw, ok := block.(json.RawMessage)
	return ok && strings.HasSuffix(gjson.GetBytes(raw, "type").Str, "thinking")
}

// writeTurns writes the messages. The last one can be an answer for the model to continue.
func writeTurns(b Object, messages []llms.MessageContent) error {
	system, list, err := writeConversation(messages, "assistant", "content", func(parts []llms.ContentPart, unknown *memberWriter, _ bool) ([]any, error) {
		return blocksOf(parts, unknown)
	})
	if err != nil {
		return err
	}
	if n := len(list); n > 0 && list[n-1]["role"] == "assistant" {
		blocks, _ := list[n-1]["content"].([]any)
		if last, ok := blocks[len(blocks)-1].(Object); ok && last["type"] == "text" {
			// "final assistant content cannot end with trailing whitespace"; https://github.com/tailcallhq/forgecode/issues/1872
			text, _ := last["text"].(string)
			last["text"] = strings.TrimRightFunc(text, unicode.IsSpace)
		}
	}
	setList(b, "system", system)
	b["messages"] = list
	return nil
}

// blocksOf returns the blocks of a message, and keeps members of the message itself in unknown.
func blocksOf(parts []llms.ContentPart, unknown *memberWriter) (list []any, err error) {
	err = eachPart(parts, func(p llms.ContentPart, cache *llms.CacheControl) error {
		if raw, ok := p.(middleware.RawPart); ok {
			if !unknown.take(raw) {
				list = append(list, raw.Raw)
			}
			return nil
		}
		one, err := blockOf(p)
		if err != nil || one == nil {
			unknown.part = gjson.Result{}
			return err
		}
		if cache != nil {
			mark := Object{"type": "ephemeral"}
			if cache.Duration.Hours() >= 1 {
				mark["ttl"] = "1h"
			}
			one["cache_control"] = mark
		}
		list = append(list, unknown.addTo(one))
		return nil
	})
	unknown.markLast(list)
	return list, err
}

// blockOf writes a part of a message, or returns nil for one that can be left out.
func blockOf(p llms.ContentPart) (Object, error) {
	switch p := p.(type) {
	case llms.TextContent:
		if strings.TrimSpace(p.Text) == "" {
			return nil, nil // the API rejects empty texts
		}
		return Object{"type": "text", "text": p.Text}, nil
	case llms.ImageURLContent:
		return fileBlock(imageFile(p))
	case middleware.FilePart:
		return fileBlock(p)
	case llms.ToolCall:
		return Object{"type": "tool_use", "id": p.ID, "name": p.FunctionCall.Name, "input": argumentsObject(p.FunctionCall.Arguments)}, nil
	case middleware.ResultPart:
		return resultBlock(p)
	case middleware.NamePart:
		return nil, nil
	}
	return nil, refusePart(p)
}

func resultBlock(p middleware.ResultPart) (Object, error) {
	o := Object{"type": "tool_result", "tool_use_id": p.ToolCallID, "content": p.Content}
	if p.Failed {
		o["is_error"] = true
	}
	blocks, err := blocksOf(p.Parts, &memberWriter{})
	setList(o, "content", blocks) // empty texts leave no blocks
	return o, err
}

func fileBlock(p middleware.FilePart) (Object, error) {
	kind := "document"
	switch family, _, _ := strings.Cut(p.MIMEType, "/"); family {
	case "audio", "video":
		return nil, refuseCall("the API rejects %s", p.MIMEType)
	case "image":
		kind = "image"
	}
	var source Object
	switch {
	case p.ID != "":
		source = Object{"type": "file", "file_id": p.ID}
	case p.Data != nil && strings.HasPrefix(p.MIMEType, "text/"):
		source = Object{"type": "text", "media_type": "text/plain", "data": string(p.Data)}
	case p.Data != nil:
		source = Object{"type": "base64", "media_type": p.MIMEType, "data": base64.StdEncoding.EncodeToString(p.Data)}
	default:
		source = Object{"type": "url", "url": p.URL}
	}
	o := Object{"type": kind, "source": source}
	if kind == "document" {
		o.text("title", p.Name)
	}
	return o, nil
}

package middleware

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Keys that a step adds to GenerationInfo. Those of the model that answered stay
// as they are: they count that one call, these the whole step.
const (
	KeyPrefix       = "stepfall."
	KeyTraceID      = KeyPrefix + "trace_id"      // string
	KeyModel        = KeyPrefix + "model"         // string: the candidate that answered
	KeyCostUSD      = KeyPrefix + "cost_usd"      // float64: all calls and verification
	KeyCalls        = KeyPrefix + "calls"         // int
	KeyInputTokens  = KeyPrefix + "input_tokens"  // int: all calls, cached ones included
	KeyOutputTokens = KeyPrefix + "output_tokens" // int: all calls, reasoning included
	KeyQuality      = KeyPrefix + "quality"       // float64: post-hoc estimate of the answer
	KeyStop         = KeyPrefix + "stop"          // string: sdk.StopReason
)

// respond makes the response of a step: the chosen one with a GenerationInfo of
// its own.
func (c *call) respond(result *step.Result) *llms.ContentResponse {
	raw := result.Answer.Raw.(*llms.ContentResponse)
	out := &llms.ContentResponse{Choices: make([]*llms.ContentChoice, len(raw.Choices))}
	t := result.Trace
	for i, choice := range raw.Choices {
		own := *choice
		info := make(map[string]any, len(choice.GenerationInfo)+8)
		maps.Copy(info, choice.GenerationInfo)
		info[KeyTraceID], info[KeyModel], info[KeyStop] = t.ID, t.Chosen, string(t.Stop)
		info[KeyCostUSD], info[KeyCalls], info[KeyQuality] = t.CostUSD, len(t.Calls), result.Quality.Mean
		info[KeyInputTokens] = t.Usage.InputTokens + t.Usage.CachedInputTokens + t.Usage.CacheWriteTokens
		info[KeyOutputTokens] = t.Usage.OutputTokens + t.Usage.ReasoningTokens
		own.GenerationInfo = info
		own.ToolCalls = normalToolCalls(choice.ToolCalls)
		if own.FuncCall == nil && len(own.ToolCalls) > 0 {
			own.FuncCall = own.ToolCalls[0].FunctionCall
		}
		out.Choices[i] = &own
	}
	return out
}

// normalToolCalls gives every call its type, and drops those without a function:
// agents take both for granted.
func normalToolCalls(calls []llms.ToolCall) []llms.ToolCall {
	if len(calls) == 0 {
		return nil
	}
	out := make([]llms.ToolCall, 0, len(calls))
	for _, t := range calls {
		if t.FunctionCall == nil {
			continue
		}
		if t.Type == "" {
			t.Type = "function"
		}
		out = append(out, t)
	}
	return out
}

// mergeChoices joins the content blocks of one message, which some clients return
// as a choice each. The usage, repeated in each, stays one.
func mergeChoices(resp *llms.ContentResponse) *llms.ContentResponse {
	merged := &llms.ContentChoice{GenerationInfo: map[string]any{}}
	var text, reasoning strings.Builder
	for _, c := range resp.Choices {
		text.WriteString(c.Content)
		reasoning.WriteString(c.ReasoningContent)
		merged.ToolCalls = append(merged.ToolCalls, c.ToolCalls...)
		if merged.FuncCall == nil {
			merged.FuncCall = c.FuncCall
		}
		if c.StopReason != "" {
			merged.StopReason = c.StopReason
		}
		maps.Copy(merged.GenerationInfo, c.GenerationInfo)
	}
	merged.Content, merged.ReasoningContent = text.String(), reasoning.String()
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{merged}}
}

// usageOf reads the tokens of a response, which every choice repeats, in the
// spelling of any provider.
func usageOf(resp *llms.ContentResponse) sdk.Usage {
	for _, c := range resp.Choices {
		if c == nil || len(c.GenerationInfo) == 0 {
			continue
		}
		if x := ExtraOf(c); x != nil {
			return x.Usage
		}
		if u := readUsage(c.GenerationInfo); u != (sdk.Usage{}) {
			return u
		}
	}
	return sdk.Usage{}
}

func readUsage(info map[string]any) sdk.Usage {
	if nested, ok := info["usage"]; ok {
		if u := readUsage(asMap(nested)); u != (sdk.Usage{}) {
			return u
		}
	}
	u := sdk.Usage{
		InputTokens:       first(info, "PromptTokens", "InputTokens", "input_tokens", "prompt_tokens"),
		CachedInputTokens: first(info, "PromptCachedTokens", "CacheReadInputTokens", "cache_read_input_tokens"),
		CacheWriteTokens:  first(info, "CacheCreationInputTokens", "cache_creation_input_tokens"),
		OutputTokens:      first(info, "CompletionTokens", "OutputTokens", "output_tokens", "completion_tokens"),
		ReasoningTokens:   first(info, "ReasoningTokens", "CompletionReasoningTokens", "ThinkingTokens"),
	}
	// OpenAI and Google count cached tokens among the prompt's; Anthropic's
	// InputTokens excludes them.
	if _, anthropic := info["InputTokens"]; !anthropic {
		u.CachedInputTokens = min(u.CachedInputTokens, u.InputTokens)
		u.InputTokens -= u.CachedInputTokens
	}
	u.ReasoningTokens = min(u.ReasoningTokens, max(u.OutputTokens, 0))
	u.OutputTokens -= u.ReasoningTokens
	return u
}

// first returns the first of the keys that holds a number other than 0.
func first(info map[string]any, keys ...string) int {
	for _, k := range keys {
		if n := number(info[k]); n != 0 {
			return n
		}
	}
	return 0
}

func number(v any) int {
	switch n := v.(type) {
	case nil:
		return 0
	case int:
		return n
	case int32:
		return int(n)
	case int64:
		return int(n)
	case float64:
		return int(n)
	case json.Number:
		i, err := n.Int64()
		if err != nil {
			return 0
		}
		return int(i)
	}
	if r := reflect.ValueOf(v); r.CanInt() {
		return int(r.Int())
	} else if r.CanUint() {
		return int(min(r.Uint(), 1<<40))
	} else if r.CanFloat() {
		return int(r.Float())
	}
	return 0
}

// asMap returns a usage struct (mistral's) as a map by its JSON names.
func asMap(v any) map[string]any {
	if m, ok := v.(map[string]any); ok {
		return m
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var m map[string]any
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

func streamError(err error) error { return fmt.Errorf("streaming the answer to the caller: %w", err) }

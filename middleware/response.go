package middleware

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Keys that a step adds to GenerationInfo. They count the whole step. The keys of the model that answered
// are left unchanged and count its one call.
const (
	keyPrefix       = "stepfall."
	keyTraceID      = keyPrefix + "trace_id"
	keyModel        = keyPrefix + "model"
	keyCostUSD      = keyPrefix + "cost_usd"
	keyCalls        = keyPrefix + "calls"
	keyInputTokens  = keyPrefix + "input_tokens"
	keyOutputTokens = keyPrefix + "output_tokens"
	keyQuality      = keyPrefix + "quality"
	keyStop         = keyPrefix + "stop"
)

// Totals are the totals of the step that returned a choice.
type Totals struct {
	TraceID string
	// Model is the candidate that answered.
	Model string
	// CostUSD is the cost of all calls and of verification.
	CostUSD float64
	// Calls is the number of calls, with the tokens of all of them, including cached ones and reasoning.
	Calls, InputTokens, OutputTokens int
	// Quality is the post-hoc estimate of the answer.
	Quality float64
	Stop    sdk.StopReason
}

// TotalsOf returns the totals in a choice's GenerationInfo, or zero values if it has none.
func TotalsOf(c *llms.ContentChoice) (t Totals) {
	info := c.GenerationInfo
	t.TraceID, _ = info[keyTraceID].(string)
	t.Model, _ = info[keyModel].(string)
	t.CostUSD, _ = info[keyCostUSD].(float64)
	t.Calls, _ = info[keyCalls].(int)
	t.InputTokens, _ = info[keyInputTokens].(int)
	t.OutputTokens, _ = info[keyOutputTokens].(int)
	t.Quality, _ = info[keyQuality].(float64)
	stop, _ := info[keyStop].(string)
	t.Stop = sdk.StopReason(stop)
	return t
}

// respond returns the chosen response with a GenerationInfo of its own.
func (c *call) respond(result *step.Result) *llms.ContentResponse {
	raw := result.Answer.Raw.(*llms.ContentResponse)
	out := &llms.ContentResponse{Choices: make([]*llms.ContentChoice, len(raw.Choices))}
	t := result.Trace
	for i, choice := range raw.Choices {
		own := *choice
		info := make(map[string]any, len(choice.GenerationInfo)+8)
		maps.Copy(info, choice.GenerationInfo)
		info[keyTraceID], info[keyModel], info[keyStop] = t.ID, t.Chosen, string(t.Stop)
		info[keyCostUSD], info[keyCalls], info[keyQuality] = t.CostUSD, CallsSent(t), result.Quality.Mean
		info[keyInputTokens] = t.Usage.InputTokens + t.Usage.CachedInputTokens + t.Usage.CacheWriteTokens
		info[keyOutputTokens] = t.Usage.OutputTokens + t.Usage.ReasoningTokens
		own.GenerationInfo = info
		own.ToolCalls = normalToolCalls(choice.ToolCalls)
		if own.FuncCall == nil && len(own.ToolCalls) > 0 {
			own.FuncCall = own.ToolCalls[0].FunctionCall
		}
		out.Choices[i] = &own
	}
	return out
}

// normalToolCalls sets missing types and drops calls without a function, because agents rely on both.
func normalToolCalls(calls []llms.ToolCall) []llms.ToolCall {
	if len(calls) == 0 {
		return nil
	}
	out := make([]llms.ToolCall, 0, len(calls))
	for _, t := range calls {
		if t.FunctionCall == nil {
			continue
		}
		t.Type = cmp.Or(t.Type, "function")
		out = append(out, t)
	}
	return out
}

// mergeChoices joins the content blocks of one message, which some clients return as separate choices.
// The usage, repeated in each of them, counts once.
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
		for key, v := range c.GenerationInfo {
			if had, _ := merged.GenerationInfo[key].(string); had == "" || v != "" { // a block leaves the keys of other blocks empty
				merged.GenerationInfo[key] = v
			}
		}
	}
	thinking, _ := merged.GenerationInfo["ThinkingContent"].(string)
	merged.Content, merged.ReasoningContent = text.String(), cmp.Or(reasoning.String(), thinking)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{merged}}
}

// usageOf reads the token counts of a response, which every choice repeats, under the names that any
// provider uses.
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
		if u := readUsage(toMap(nested)); u != (sdk.Usage{}) {
			return u
		}
	}
	u := sdk.Usage{
		InputTokens:       firstCount(info, "PromptTokens", "InputTokens", "input_tokens", "prompt_tokens"),
		CachedInputTokens: firstCount(info, "PromptCachedTokens", "CacheReadInputTokens", "cache_read_input_tokens"),
		CacheWriteTokens:  firstCount(info, "CacheCreationInputTokens", "cache_creation_input_tokens"),
		OutputTokens:      firstCount(info, "CompletionTokens", "OutputTokens", "output_tokens", "completion_tokens"),
		ReasoningTokens:   firstCount(info, "ReasoningTokens", "CompletionReasoningTokens", "ThinkingTokens"),
	}
	// OpenAI and Google include cached tokens in the prompt's count; Anthropic's
	// InputTokens excludes them.
	if _, anthropic := info["InputTokens"]; !anthropic {
		u.CachedInputTokens = min(u.CachedInputTokens, u.InputTokens)
		u.InputTokens -= u.CachedInputTokens
	}
	u.ReasoningTokens = min(u.ReasoningTokens, max(u.OutputTokens, 0))
	u.OutputTokens -= u.ReasoningTokens
	return u
}

// firstCount returns the value of the first key that holds a number other than 0.
func firstCount(info map[string]any, keys ...string) int {
	for _, k := range keys {
		if n := number(info[k]); n != 0 {
			return n
		}
	}
	return 0
}

// number returns the value of any numeric type as an int, 0 for anything else.
func number(v any) int {
	if n, ok := v.(json.Number); ok {
		v, _ = n.Int64()
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return int(r.Int())
	case r.CanUint():
		return int(min(r.Uint(), 1<<40))
	case r.CanFloat():
		return int(r.Float())
	}
	return 0
}

func toMap(v any) map[string]any {
	m, isMap := v.(map[string]any)
	if data, err := json.Marshal(v); err == nil && !isMap {
		_ = json.Unmarshal(data, &m) // anything but an object has no counts
	}
	return m
}

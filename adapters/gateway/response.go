package gateway

import (
	"crypto/rand"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// completion is a response, or an event of a stream.
type completion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage,omitempty"`
	Step    *stepInfo    `json:"stepfall,omitempty"`
}

type wireChoice struct {
	Index        int         `json:"index"`
	Message      *wireSpoken `json:"message,omitempty"`
	Delta        *wireSpoken `json:"delta,omitempty"`
	FinishReason *string     `json:"finish_reason"`
}

// wireSpoken is what a model said: whole, or the next piece.
type wireSpoken struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	Reasoning string         `json:"reasoning_content,omitempty"`
	ToolCalls []wireToolCall `json:"tool_calls,omitempty"`
}

type wireToolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type wireUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// stepInfo is what the step came to: the member "stepfall" of a response.
type stepInfo struct {
	Model   string  `json:"model"`
	TraceID string  `json:"trace_id"`
	CostUSD float64 `json:"cost_usd"`
	Calls   int     `json:"calls"`
	Quality float64 `json:"quality"`
	Stop    string  `json:"stop"`
}

// newCompletion returns a response without choices.
func newCompletion(object, model string) completion {
	return completion{ID: "chatcmpl-" + rand.Text(), Object: object, Created: time.Now().Unix(), Model: model, Choices: []wireChoice{}}
}

func completionOf(req *request, resp *llms.ContentResponse) completion {
	out := newCompletion("chat.completion", req.model)
	out.account(resp)
	for i, choice := range resp.Choices {
		reason := finishReason(choice)
		spoken := &wireSpoken{Role: "assistant", Content: &choice.Content, Reasoning: choice.ReasoningContent, ToolCalls: toolCalls(choice.ToolCalls)}
		out.Choices = append(out.Choices, wireChoice{Index: i, Message: spoken, FinishReason: &reason})
	}
	return out
}

// account adds what the step used and cost, where the model tells.
func (c *completion) account(resp *llms.ContentResponse) {
	info := resp.Choices[0].GenerationInfo
	model, ok := info[middleware.KeyModel].(string)
	if !ok {
		return
	}
	c.Model = model
	c.Step = &stepInfo{Model: model}
	c.Step.TraceID, _ = info[middleware.KeyTraceID].(string)
	c.Step.CostUSD, _ = info[middleware.KeyCostUSD].(float64)
	c.Step.Calls, _ = info[middleware.KeyCalls].(int)
	c.Step.Quality, _ = info[middleware.KeyQuality].(float64)
	c.Step.Stop, _ = info[middleware.KeyStop].(string)
	u := &wireUsage{}
	u.PromptTokens, _ = info[middleware.KeyInputTokens].(int)
	u.CompletionTokens, _ = info[middleware.KeyOutputTokens].(int)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	c.Usage = u
}

func toolCalls(calls []llms.ToolCall) []wireToolCall {
	var out []wireToolCall
	for _, call := range calls {
		if call.FunctionCall == nil {
			continue
		}
		w := wireToolCall{ID: call.ID, Type: "function"}
		if w.ID == "" {
			w.ID = "call_" + rand.Text()
		}
		w.Function.Name, w.Function.Arguments = call.FunctionCall.Name, call.FunctionCall.Arguments
		out = append(out, w)
	}
	return out
}

// finishReason returns why the model stopped, in OpenAI's words.
func finishReason(choice *llms.ContentChoice) string {
	if len(choice.ToolCalls) > 0 {
		return "tool_calls"
	}
	switch choice.StopReason {
	case "length", "max_tokens", "MAX_TOKENS", "FinishReasonMaxTokens":
		return "length"
	case "content_filter", "refusal", "SAFETY", "FinishReasonSafety":
		return "content_filter"
	}
	return "stop"
}

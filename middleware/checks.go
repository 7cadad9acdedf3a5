package middleware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// DefaultChecks returns the checks that need only the query and the answer: stop reason, emptiness,
// refusal, the protocol of text agents, tool calls, JSON. They can only reject an answer, never confirm
// it. If there are several choices, each must pass, because the caller gets them all.
func DefaultChecks() []step.Check {
	checks := []step.Check{
		{Name: "check:stop_reason", Fault: stopReason},
		{Name: "check:empty", Fault: emptyAnswer},
		{Name: "check:refusal", Fault: refusal},
		{Name: "check:protocol", Fault: protocolFault},
		{Name: "check:tool_calls", Fault: (&toolChecker{}).fault},
		{Name: "check:repeated_call", Fault: repeatedCall},
		{Name: "check:json", Fault: (&jsonChecker{}).fault},
	}
	for i, check := range checks {
		checks[i].Fault = func(q *sdk.Query, a *sdk.Answer, earlier []sdk.Attempt) string {
			return choicesFault(check, q, a, earlier)
		}
	}
	return checks
}

func choicesFault(check step.Check, q *sdk.Query, a *sdk.Answer, earlier []sdk.Attempt) string {
	why := check.Fault(q, a, earlier)
	if len(a.Choices) == 0 || why != "" {
		return why
	}
	resp, _ := a.Raw.(*llms.ContentResponse)
	for i := 1; resp != nil && i < len(resp.Choices); i++ {
		one := answerOf(resp.Choices[i])
		one.Usage, one.Raw = a.Usage, &llms.ContentResponse{Choices: resp.Choices[i : i+1]}
		if why := check.Fault(q, one, earlier); why != "" {
			return fmt.Sprintf("choice %d: %s", i+1, why)
		}
	}
	return ""
}

func stopReason(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if why, ok := strings.CutPrefix(a.StopReason, StopError); ok {
		return "interrupted: " + why
	}
	switch strings.ToLower(a.StopReason) {
	case "length", "max_tokens", "max_output_tokens", "model_length", "finishreasonmaxtokens":
		if isCutAsAsked(q, a) {
			return ""
		}
		return "cut off at the token limit"
	case "model_context_window_exceeded", "insufficient_system_resource", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "abort", "repetition", "other", "error":
		return "interrupted: " + a.StopReason
	case "content_filter", "safety", "refusal", "recitation", "finishreasonsafety":
		return "stopped by a filter: " + a.StopReason
	}
	return ""
}

// isCutAsAsked reports whether an answer ends at the caller's own length limit, which no other model could
// exceed.
func isCutAsAsked(q *sdk.Query, a *sdk.Answer) bool {
	switch strings.ToLower(a.StopReason) {
	case "length", "max_tokens", "max_output_tokens", "finishreasonmaxtokens":
		return q.MaxOutputTokens > 0 && (a.Usage.Estimated || a.Usage.OutputTokens+a.Usage.ReasoningTokens >= q.MaxOutputTokens)
	}
	return false
}

func emptyAnswer(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if len(a.ToolCalls) == 0 && strings.TrimSpace(a.Text) == "" && !hasRawPart(a) {
		return "neither text nor tool calls"
	}
	return ""
}

// hasRawPart reports whether an answer has a part in an API's own form other than reasoning: an image, a
// result of one of the vendor's tools, a request for approval.
func hasRawPart(a *sdk.Answer) bool {
	return slices.ContainsFunc(partsOf(a), func(p llms.ContentPart) bool {
		raw, ok := p.(RawPart)
		var typed struct{ Type string }
		isTyped := ok && json.Unmarshal(raw.Raw, &typed) == nil && typed.Type != ""
		return isTyped && (raw.Model == "" || strings.Contains(typed.Type, "tool"))
	})
}

func partsOf(a *sdk.Answer) []llms.ContentPart {
	resp, ok := a.Raw.(*llms.ContentResponse)
	if !ok || len(resp.Choices) == 0 {
		return nil
	}
	if x := ExtraOf(resp.Choices[0]); x != nil {
		return x.Parts
	}
	return nil
}

// refusals are beginnings of answers in which a model refuses. Only the beginning of a short answer counts:
// a long one that begins with an apology may still answer.
var refusals = [...]string{
	"i'm sorry, but i can", "i’m sorry, but i can", "i am sorry, but i can", "sorry, but i can't", "sorry, i can't",
	"i cannot assist", "i can't assist", "i can’t assist", "i cannot help with", "i can't help with", "i can’t help with",
	"i'm unable to assist", "i am unable to assist", "i'm not able to help", "as an ai language model, i can",
}

// longRefusal is the length in bytes above which an answer is not considered a refusal.
const longRefusal = 600

func mayRefuse(head string) bool {
	if len(head) > longRefusal {
		return false
	}
	head = strings.ToLower(strings.TrimSpace(head))
	return slices.ContainsFunc(refusals[:], func(r string) bool { return strings.HasPrefix(r, head) || strings.HasPrefix(head, r) })
}

func refusal(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if len(a.ToolCalls) > 0 || len(a.Text) > longRefusal {
		return ""
	}
	return refusalIn(a.Text)
}

// refusalIn returns a fault if the text begins like a refusal, or "".
func refusalIn(text string) string {
	head := strings.ToLower(strings.TrimSpace(text[:min(len(text), 160)]))
	for _, r := range refusals {
		if strings.HasPrefix(head, r) {
			return "refused: " + firstLine(text)
		}
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > 120 {
		return string(runes[:120]) + "..."
	}
	return line
}

// repeatedCall rejects a tool call that has already failed in this conversation with the same arguments: it
// would fail again.
func repeatedCall(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	for _, call := range a.ToolCalls {
		if hasFailedBefore(q, call) {
			return "repeats the failed call " + call.Name + "(" + firstLine(call.Arguments) + ")"
		}
	}
	return ""
}

func hasFailedBefore(q *sdk.Query, call sdk.ToolCall) bool {
	id, named := "", false
	for i := range q.Messages {
		for j := range q.Messages[i].Parts {
			p := &q.Messages[i].Parts[j]
			switch {
			case p.Kind == sdk.PartToolCall:
				if p.ToolCall.Name == call.Name && sameArguments(p.ToolCall.Arguments, call.Arguments) {
					id, named = p.ToolCall.ID, true
				}
			case p.Kind == sdk.PartToolResult && named && p.ToolResult.CallID == id:
				named = false
				if p.ToolResult.IsError {
					return true
				}
			}
		}
	}
	return false
}

// sameArguments reports whether two calls have the same arguments. In the history they can be the bare value
// of "__arg1", which the functions agent unwraps.
func sameArguments(past, now string) bool {
	if past == now {
		return true
	}
	var wrapped struct {
		Arg *string `json:"__arg1"`
	}
	return json.Unmarshal([]byte(now), &wrapped) == nil && wrapped.Arg != nil && *wrapped.Arg == past
}

package step_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// If a provider bills hidden reasoning as output, the visible length of an answer is recorded, in
// the model's tokens; otherwise it is not.
func TestThoughtsThatAreBilledAsOutput(t *testing.T) {
	call := []sdk.ToolCall{{Name: "find", Arguments: `{"sku": "` + strings.Repeat("x", 65) + `"}`}} // 80 bytes
	for _, c := range []struct {
		name  string
		usage sdk.Usage
		want  int
	}{
		{"as long as it reads", sdk.Usage{InputTokens: 100, OutputTokens: 30}, 0},
		{"thoughts", sdk.Usage{InputTokens: 100, OutputTokens: 430}, 20},
		{"a model that makes more tokens of its prompt", sdk.Usage{InputTokens: 50, CachedInputTokens: 100, OutputTokens: 430}, 30},
		{"as long as an estimate can be off", sdk.Usage{InputTokens: 100, OutputTokens: 2*20 + 64}, 0},
		{"a token longer", sdk.Usage{InputTokens: 100, OutputTokens: 2*20 + 65}, 20},
		{"a prompt written to a cache", sdk.Usage{InputTokens: 50, CacheWriteTokens: 100, OutputTokens: 430}, 30},
		{"a prompt of no tokens", sdk.Usage{OutputTokens: 430}, 20},
		{"far more tokens of the prompt", sdk.Usage{InputTokens: 300, OutputTokens: 430}, 40},
		{"far fewer", sdk.Usage{InputTokens: 40, OutputTokens: 430}, 10},
		{"thoughts that are told apart", sdk.Usage{InputTokens: 100, OutputTokens: 230, ReasoningTokens: 200}, 0},
	} {
		caller := step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{ToolCalls: call, Usage: c.usage, StopReason: "tool_use"}, nil
		})
		e := engine(t, step.Config{Candidates: candidates()[2:], Strategy: route(t)})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: caller})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Trace.Calls[0].ShownTokens; got != c.want {
			t.Errorf("%s: %d tokens are shown, want %d", c.name, got, c.want)
		}
	}
}

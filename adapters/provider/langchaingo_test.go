package provider_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

func claude(t *testing.T) *upstream {
	t.Helper()
	return dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == "Anthropic" })].serve(t)
}

// A thinking mode of langchaingo's reaches a Claude in the form that the model accepts: an effort, a budget below the
// maximum length of the answer, or nothing, which is then reported as not sent.
func TestThinkingModeReachesClaude(t *testing.T) {
	u := claude(t)
	for _, c := range []struct {
		model     string
		mode      llms.ThinkingMode
		maxTokens int
		budget    float64
		effort    any
		isLeftOut bool
	}{
		{"claude-sonnet-4-5", llms.ThinkingModeLow, 8000, 1600, nil, false},
		{"claude-sonnet-4-5", llms.ThinkingModeMedium, 8000, 4000, nil, false},
		{"claude-sonnet-4-5", llms.ThinkingModeHigh, 8000, 6400, nil, false},
		{"claude-3-7-sonnet-latest", llms.ThinkingModeLow, 2000, 1024, nil, false},
		{"claude-sonnet-4-5", llms.ThinkingModeHigh, 64000, 10000, nil, false},
		{"claude-sonnet-4-5", llms.ThinkingModeHigh, 1024, 0, nil, true},
		{"claude-3-5-haiku-latest", llms.ThinkingModeHigh, 8000, 0, nil, true},
		{"claude-opus-4-7", llms.ThinkingModeHigh, 8000, 0, "high", false},
		{"claude-sonnet-4-5", llms.ThinkingModeNone, 8000, 0, nil, false},
		{"claude-sonnet-4-5", llms.ThinkingModeAuto, 8000, 0, nil, false},
	} {
		m, err := provider.New(provider.Options{API: middleware.DialectAnthropic, Model: c.model, APIKey: "k", BaseURL: u.URL})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := m.GenerateContent(t.Context(), human("hi"), llms.WithThinkingMode(c.mode), llms.WithMaxTokens(c.maxTokens))
		if err != nil {
			t.Fatal(err)
		}
		budget, _ := at(u.asked, "thinking.budget_tokens")
		effort, _ := at(u.asked, "output_config.effort")
		number, _ := budget.(float64)
		isLeftOut := len(middleware.ExtraOf(resp.Choices[0]).NotSent) > 0
		if number != c.budget || effort != c.effort || isLeftOut != c.isLeftOut {
			t.Errorf("%s, %s of %d: %v, not sent %v", c.model, c.mode, c.maxTokens, u.asked, middleware.ExtraOf(resp.Choices[0]).NotSent)
		}
	}
}

// A choice of a tool in OpenAI's form is equivalent to langchaingo's own type, for each API.
func TestToolChoiceAsAMap(t *testing.T) {
	choice := llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "look"}}
	asMap := map[string]any{"type": "function", "function": map[string]any{"name": "look"}}
	for i := range dialects {
		u := dialects[i].serve(t)
		var asked []string
		for _, c := range []any{choice, &choice, asMap} {
			if _, err := u.model(t).GenerateContent(t.Context(), human("hi"), llms.WithTools(lookTool()), llms.WithToolChoice(c)); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, fmt.Sprint(u.asked))
		}
		if asked[1] != asked[0] || asked[2] != asked[0] {
			t.Errorf("%s: %q", dialects[i].name, asked)
		}
	}
	const own = "tool" // Claude's own form is sent unchanged
	u := claude(t)
	if _, err := u.model(t).GenerateContent(t.Context(), human("hi"), llms.WithTools(lookTool()), llms.WithToolChoice(map[string]any{"type": own, "name": "look"})); err != nil {
		t.Fatal(err)
	}
	if kind, _ := at(u.asked, "tool_choice.type"); kind != own {
		t.Errorf("asked %v", u.asked)
	}
}

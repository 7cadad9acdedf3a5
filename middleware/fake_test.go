package middleware_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// fake is a model in memory. It returns the answer of say and streams it word by word.
type fake struct {
	calls atomic.Int64
	say   func(ctx context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error)
}

func (f *fake) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	f.calls.Add(1)
	o := llms.CallOptions{Model: "provider-default"}
	for _, option := range options {
		option(&o)
	}
	resp, err := f.say(ctx, messages, &o)
	if err == nil && resp != nil && o.StreamingFunc != nil {
		for _, c := range resp.Choices {
			for i := range len(c.Content) {
				if err := o.StreamingFunc(ctx, []byte(c.Content[i:i+1])); err != nil {
					return nil, err
				}
			}
		}
	}
	return resp, err
}

func (f *fake) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, f, prompt, options...)
}

func text(content string) *llms.ContentResponse {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: content, StopReason: "stop",
		GenerationInfo: map[string]any{"PromptTokens": 100, "CompletionTokens": 10, "TotalTokens": 110},
	}}}
}

func says(content string) *fake {
	return &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		return text(content), nil
	}}
}

func fails(err error) *fake {
	return &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		return nil, err
	}}
}

// able has every capability.
var able = sdk.Capabilities{Tools: true, Images: true, JSONMode: true, JSONSchema: true}

func small(llm llms.Model) middleware.Candidate {
	return middleware.Candidate{LLM: llm, Quality: sdk.Estimate{Mean: 0.6, StdDev: 0.3},
		Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 1, Output: 2}, MaxOutputTokens: 1000, Capabilities: able}}
}

func large(llm llms.Model) middleware.Candidate {
	return middleware.Candidate{LLM: llm, Quality: sdk.Estimate{Mean: 0.9, StdDev: 0.1},
		Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 10, Output: 20}, MaxOutputTokens: 1000, Capabilities: able}}
}

// inOrder is a strategy that calls small first, and large if small scores below 0.5.
func inOrder(t testing.TB) cascade.Strategy {
	t.Helper()
	s, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrap(t testing.TB, c middleware.Config) *middleware.Model {
	t.Helper()
	if c.Step.Strategy == nil {
		c.Step.Strategy = inOrder(t)
	}
	if c.Step.Retry == (step.Retry{}) {
		c.Step.Retry.MaxAttempts = 1
	}
	m, err := middleware.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func human(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

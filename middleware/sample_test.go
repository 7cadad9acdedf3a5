package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// retryDelay answers correctly at its third call, and records the calls.
type retryDelay struct {
	asked []llms.CallOptions
}

func (a *retryDelay) GenerateContent(_ context.Context, _ []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	a.asked = append(a.asked, o)
	text := "wrong"
	if len(a.asked) == 3 {
		text = "right"
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text, StopReason: "stop"}}}, nil
}

func (a *retryDelay) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, a, prompt, options...)
}

func askAgain(t *testing.T, options ...llms.CallOption) (*retryDelay, *sdk.Trace) {
	t.Helper()
	llm := &retryDelay{}
	strategy, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	model := func(name string) middleware.Candidate {
		return middleware.Candidate{Model: sdk.Model{Name: name, Price: sdk.Price{Input: 1, Output: 1}}, SampleTemperature: 0.8}
	}
	list := []middleware.Candidate{model("small"), model("small#2"), model("small#3")}
	list[0].LLM = llm
	var trace *sdk.Trace
	m, err := middleware.New(middleware.Config{Models: list, Step: step.Config{
		Strategy: strategy, Traces: func(_ context.Context, t *sdk.Trace) { trace = t },
		Verifiers: []step.Verifier{{Name: "right", Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if strings.Contains(r.Answer.Text, "right") {
				return &sdk.Verdict{Outcome: sdk.Passed}, nil
			}
			return &sdk.Verdict{Outcome: sdk.Failed}, nil
		})}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.GenerateContent(context.Background(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}, options...)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Choices[0].Content != "right" || len(llm.asked) != 3 {
		t.Fatalf("%q after %d answers", resp.Choices[0].Content, len(llm.asked))
	}
	return llm, trace
}

func TestAModelIsAskedAgain(t *testing.T) {
	llm, trace := askAgain(t, llms.WithTemperature(0), llms.WithSeed(7))
	for i, want := range []struct {
		temperature float64
		seed        int
	}{{0, 7}, {0.8, 8}, {0.8, 9}} {
		if o := llm.asked[i]; o.Temperature != want.temperature || o.Seed != want.seed {
			t.Errorf("answer %d was asked for at temperature %v with seed %d, want %v", i+1, o.Temperature, o.Seed, want)
		}
	}
	if len(trace.Calls) != 3 || trace.Calls[2].Model != "small#3" || trace.Chosen != "small#3" {
		t.Errorf("the trace has %d calls, and chose %s", len(trace.Calls), trace.Chosen)
	}
}

func TestTheCallersTemperatureStands(t *testing.T) {
	for _, options := range [][]llms.CallOption{{llms.WithTemperature(1.2)}, {llms.WithTemperature(0.1), llms.WithTopP(0.9)}} {
		llm, _ := askAgain(t, options...)
		if first, last := llm.asked[0], llm.asked[2]; last.Temperature != first.Temperature || last.Seed != first.Seed {
			t.Errorf("temperature %v, then %v; seed %d, then %d", first.Temperature, last.Temperature, first.Seed, last.Seed)
		}
	}
}

// The arms of a model are called with their efforts, at the servers of the first arm. If the caller states an effort,
// there is one call, with that effort.
func TestArmsSendTheirEfforts(t *testing.T) {
	for name, c := range map[string]struct {
		override bool
		options  []llms.CallOption
		want     string
	}{
		"no effort of the caller": {want: "low low high"},
		"the caller's":            {options: []llms.CallOption{llms.WithThinkingMode(llms.ThinkingModeMedium)}, want: "medium medium"},
		"the caller's, overridden": {
			override: true, options: []llms.CallOption{llms.WithThinkingMode(llms.ThinkingModeMedium)}, want: "low low high",
		},
	} {
		t.Run(name, func(t *testing.T) {
			llm := &retryDelay{}
			strategy, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{1}})
			if err != nil {
				t.Fatal(err)
			}
			arm := func(name, effort string, quality float64) middleware.Candidate {
				return middleware.Candidate{
					Model: sdk.Model{Name: name, Price: sdk.Price{Input: 1, Output: 1}}, Quality: sdk.Estimate{Mean: quality, StdDev: 0.2},
					ReasoningEffort: effort, OverrideEffort: c.override,
				}
			}
			list := []middleware.Candidate{arm("large@low", "low", 0.8), arm("large@low#2", "low", 0.7), arm("large@high", "high", 0.6)}
			list[0].LLM = llm
			m, err := middleware.New(middleware.Config{Models: list, Step: step.Config{
				Strategy: strategy,
				Verifiers: []step.Verifier{{Name: "never", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
					return &sdk.Verdict{Outcome: sdk.Failed}, nil
				})}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := llms.GenerateFromSinglePrompt(context.Background(), m, "?", c.options...); err != nil {
				t.Fatal(err)
			}
			var efforts []string
			for i := range llm.asked {
				efforts = append(efforts, string(llms.GetThinkingConfig(&llm.asked[i]).Mode))
			}
			if got := strings.Join(efforts, " "); got != c.want {
				t.Errorf("asked with the efforts %q, want %q", got, c.want)
			}
		})
	}
}

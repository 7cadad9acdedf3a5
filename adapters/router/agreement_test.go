package router_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

const pairPolicy = `
model "mini" {
  provider     = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million  = 0.15
    output_usd_per_million = 0.6
  }
}
model "flash" {
  provider     = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
}
model "large" {
  provider     = "go"
  capabilities = ["tools"]
  price {
    input_usd_per_million  = 3
    output_usd_per_million = 15
  }
}
estimator "agreement" {
  plugin = "agreement"
}
strategy "threshold" {
  order     = ["mini", "flash", "large"]
  threshold = 0.9
  parallel  = true
}
`

// caller is a model that always calls a tool with the same arguments.
type caller string

func (c caller) Call(context.Context, string, ...llms.CallOption) (string, error) { return "", nil }

func (c caller) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{StopReason: "tool_calls", ToolCalls: []llms.ToolCall{
		{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "find", Arguments: string(c)}},
	}}}}, nil
}

// An agreement of two models' tool calls is accepted, without a judge and without recorded outcomes. If they differ,
// the large model is called.
func TestTwoThatAgreeAreBelieved(t *testing.T) {
	for _, test := range []struct {
		name               string
		mini, flash, large string
		ran                []string
		arguments          string
	}{
		{"agree", `{"n": 1, "s": "a"}`, `{"s": " a ", "n": 1.0}`, `{"n": 2}`, []string{"mini", "flash"}, ""},
		{"all differ", `{"n": 1}`, `{"n": 2}`, `{"n": 3}`, []string{"mini", "flash", "large"}, `{"n": 3}`},
		{"the large one is with the second", `{"n": 1}`, `{"n": 2}`, `{"n": 2}`, []string{"mini", "flash", "large"}, `{"n": 2}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := policies.Parse("policy.hcl", []byte(pairPolicy), policies.LoadOptions{})
			if err != nil || len(p.Warnings) > 0 {
				t.Fatal(err, p.Warnings)
			}
			var trace *sdk.Trace
			r, err := router.New(t.Context(), p, router.Options{
				Models: map[string]llms.Model{"mini": caller(test.mini), "flash": caller(test.flash), "large": caller(test.large)},
				Traces: func(_ context.Context, t *sdk.Trace) { trace = t },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			resp, err := r.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "find it")},
				llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find", Parameters: map[string]any{"type": "object"}}}}))
			if err != nil {
				t.Fatal(err)
			}
			var ran []string
			for _, c := range trace.Calls {
				ran = append(ran, c.Model)
			}
			got := resp.Choices[0].ToolCalls[0].FunctionCall.Arguments
			if !slices.Equal(ran, test.ran) || test.arguments != "" && got != test.arguments {
				t.Errorf("%v ran, and the call is %s", ran, got)
			}
		})
	}
}

// away provides estimators that are unavailable.
type away struct{ inProcess }

func (away) QualityEstimator(string, string, map[string]any) (sdk.QualityEstimator, error) {
	return sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		return nil, errors.New("it does not start")
	}), nil
}

// An unavailable estimator is logged once, to the default log if there is no Logger.
func TestEstimatorThatIsAwayIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	p, err := policies.Parse("policy.hcl", []byte(strings.Replace(pairPolicy, `plugin = "agreement"`, `plugin = "gone"`, 1)), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(t.Context(), p, router.Options{
		Models: map[string]llms.Model{"mini": caller(`{}`), "flash": caller(`{}`), "large": caller(`{}`)}, Plugins: away{},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 3 {
		if _, err := r.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "find it")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "estimator agreement unavailable, so"); n != 1 || !strings.Contains(log.String(), "it does not start") {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}

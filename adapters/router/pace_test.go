package router_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

const pacedPolicy = `
model "small" {
  provider = "go"
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 10
  }
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million  = 10
    output_usd_per_million = 100
  }
}
strategy "route" {}
fit { profile = "profile.json" }
budget {
  expected_usd_per_query = 0.02
  hold_over              = %d
}
`

// wordy is a model whose answers have a given length.
type wordy struct{ tokens int }

func (w wordy) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: "an answer", StopReason: "stop", GenerationInfo: map[string]any{"PromptTokens": 1, "CompletionTokens": w.tokens},
	}}}, nil
}

func (w wordy) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, w, prompt, options...)
}

// TestBudgetsHoldWhereAnswersGrowLonger fits a profile to answers of 300 tokens and then runs it on answers of
// 450.
func TestBudgetsHoldWhereAnswersGrowLonger(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("query_id,group,model,quality,cost_usd\n")
	for i := range 200 {
		// In each group the large model gains less than in the previous one.
		group := i % 10
		fmt.Fprintf(&rows, "q%d,g%d,small,%v,0.003\nq%d,g%d,large,%v,0.03\n", i, group, 0.1*float64(group), i, group, 1-0.01*float64(group))
	}
	table, err := outcome.Read(strings.NewReader(rows.String()), "rows.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	means := map[int]float64{}
	for _, over := range []int{0, 50} {
		profile, err := fit.Fit(t.Context(), table, fit.Options{Strategy: "route", BudgetUSD: 0.02, Models: []sdk.Model{
			{Name: "small", Price: sdk.Price{Input: 1, CachedInput: 1, CacheWrite: 1, Output: 10, Reasoning: 10}},
			{Name: "large", Price: sdk.Price{Input: 10, CachedInput: 10, CacheWrite: 10, Output: 100, Reasoning: 100}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := profile.Save(filepath.Join(dir, "profile.json")); err != nil {
			t.Fatal(err)
		}
		p, err := policies.Parse(filepath.Join(dir, "policy.hcl"), fmt.Appendf(nil, pacedPolicy, over), policies.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spent, steps := 0.0, 0
		r, err := router.New(t.Context(), p, router.Options{
			Models: map[string]llms.Model{"small": wordy{450}, "large": wordy{450}},
			Traces: func(_ context.Context, tr *sdk.Trace) { spent, steps = spent+tr.CostUSD, steps+1 },
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			ctx := middleware.WithInfo(t.Context(), middleware.Info{Group: fmt.Sprint("g", i%10)})
			if _, err := llms.GenerateFromSinglePrompt(ctx, r, "a question"); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		means[over] = spent / float64(steps)
	}
	if math.Abs(means[50]/0.02-1) > 0.05 {
		t.Errorf("a mean of %.4f USD under a budget of 0.02", means[50])
	}
	if means[0] < 1.2*0.02 {
		t.Errorf("without pacing the mean is %.4f USD: the test shows nothing", means[0])
	}
}

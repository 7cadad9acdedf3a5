package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// tells answers with its name, and reports the given tokens.
type tells struct {
	name   string
	tokens int
}

func (m tells) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
		Content: m.name, StopReason: "stop", GenerationInfo: map[string]any{"PromptTokens": 10, "CompletionTokens": m.tokens},
	}}}, nil
}

func (m tells) Call(ctx context.Context, prompt string, o ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, o...)
}

const twoModels = `
baseline = "large"
model "small" {
  provider = "go"
  price {
    input_usd_per_million = 1
    output_usd_per_million = 10
  }
  quality {
    mean = 0.8
  }
}
model "large" {
  provider = "go"
  price {
    input_usd_per_million = 10
    output_usd_per_million = 100
  }
  quality {
    mean = 0.81
  }
}
strategy "route" {
  worth_usd = 0.0001
}
`

// openTwo opens a policy with two models that answer with their names; small writes the given number of tokens.
func openTwo(t *testing.T, policy string, tokens int, traces *[]*sdk.Trace, log *strings.Builder) *router.Router {
	t.Helper()
	p, err := policies.Parse("two.hcl", []byte(policy), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(t.Context(), p, router.Options{
		Models: map[string]llms.Model{"small": tells{"small", tokens}, "large": tells{"large", 10}},
		Traces: func(_ context.Context, tr *sdk.Trace) { *traces = append(*traces, tr) },
		Logger: hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Warn}), Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func ask(t *testing.T, r *router.Router, run string) string {
	t.Helper()
	ctx := middleware.WithInfo(t.Context(), middleware.Info{Run: run})
	resp, err := r.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "q")})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Choices[0].Content
}

// A share of whole runs is sent to the baseline, the same runs in every process, and each trace
// says so.
func TestHoldout(t *testing.T) {
	var traces []*sdk.Trace
	var log strings.Builder
	r := openTwo(t, twoModels+"holdout {\n  share = 0.3\n  seed = 7\n}\n", 10, &traces, &log)
	other := openTwo(t, twoModels+"holdout {\n  share = 0.3\n  seed = 7\n}\n", 10, &[]*sdk.Trace{}, &log)
	var byHand holdout.Account
	held := 0
	for i := range 300 {
		run := fmt.Sprint("run ", i)
		first := ask(t, r, run)
		if second := ask(t, r, run); second != first || ask(t, other, run) != first {
			t.Fatalf("%s: a step goes another way than the one before", run)
		}
		if first == "large" {
			held++
		}
		if err := r.Report(t.Context(), run, sdk.Verdict{Outcome: sdk.Passed}); err != nil {
			t.Fatal(err)
		}
	}
	if held < 60 || held > 120 {
		t.Errorf("%d of 300 runs go the baseline's way, want about 90", held)
	}
	verdicts := 0
	for _, tr := range traces {
		byHand.Record(t.Context(), tr)
		if tr.Mode == sdk.ModeVerdict {
			verdicts++
			continue
		}
		if tr.Holdout == nil || tr.Holdout.Share != 0.3 || tr.Holdout.Baseline != (tr.Chosen == "large") {
			t.Fatalf("the trace of %s says %+v", tr.Chosen, tr.Holdout)
		}
		if p := tr.Calls[0].Propensity; tr.Holdout.Baseline && p != 0.3 {
			t.Fatalf("a run of the holdout has the propensity %v", p)
		}
	}
	c := byHand.Compare()
	if verdicts != 300 || c.Baseline.Runs != held || c.Policy.Runs != 300-held || c.Policy.Judged != 300-held || c.Harm() != "" {
		t.Errorf("%d verdicts, %+v", verdicts, c)
	}
	// Small costs a tenth.
	if s := c.Saved; s == nil || s.Estimate < 0.899 || s.Estimate > 0.901 || s.Low > 0.9 || s.High < 0.9 {
		t.Errorf("saved %+v", s)
	}
	if log.Len() > 0 {
		t.Errorf("nothing is wrong, and the log says %s", log.String())
	}
}

// If runs have no names, all steps of an agent's conversation are assigned together, and form one run.
func TestHoldoutByConversation(t *testing.T) {
	var traces []*sdk.Trace
	r := openTwo(t, strings.ReplaceAll(twoModels, "\"go\"", "\"go\"\n  capabilities = [\"tools\"]")+"holdout {\n  share = 0.5\n}\n", 10, &traces, &strings.Builder{})
	tools := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find", Parameters: map[string]any{"type": "object"}}}})
	var account holdout.Account
	for i := range 40 {
		messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, fmt.Sprint("task ", i))}
		for range 4 {
			resp, err := r.GenerateContent(t.Context(), messages, tools)
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, llms.TextParts(llms.ChatMessageTypeAI, resp.Choices[0].Content), llms.TextParts(llms.ChatMessageTypeHuman, "go on"))
		}
	}
	for i, tr := range traces {
		account.Record(t.Context(), tr)
		if first := traces[i-i%4]; tr.Chosen != first.Chosen {
			t.Fatalf("step %d goes to %s, and its conversation began with %s", i, tr.Chosen, first.Chosen)
		}
	}
	if c := account.Compare(); c.Baseline.Runs+c.Policy.Runs != 40 || c.Baseline.Runs < 8 || c.Policy.Runs < 8 {
		t.Errorf("40 conversations are %+v", c)
	}
}

// A policy that is measured to be more expensive is reported, and replaced by the baseline with fallback = true.
func TestHoldoutFallsBack(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		var traces []*sdk.Trace
		var log strings.Builder
		// The small model writes so much that it costs more than the large one.
		r := openTwo(t, twoModels+fmt.Sprintf("holdout {\n  share = 0.3\n  fallback = %v\n}\n", fallback), 1000, &traces, &log)
		last := ""
		for i := range 400 {
			last = ask(t, r, fmt.Sprint("run ", i))
		}
		if n := strings.Count(log.String(), "the holdout shows that the policy costs more than the baseline"); n != 1 {
			t.Errorf("fallback %v: told %d times:\n%s", fallback, n, log.String())
		}
		if strings.Contains(log.String(), "All further runs use large alone") != fallback {
			t.Errorf("fallback %v: the log says %s", fallback, log.String())
		}
		if end := traces[len(traces)-1]; end.Holdout.Fallback != fallback || fallback && last != "large" {
			t.Errorf("fallback %v: the last run asks %s, %+v", fallback, last, end.Holdout)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	r := openTwo(t, twoModels, 10, &[]*sdk.Trace{}, &strings.Builder{})
	if r.Report(t.Context(), "", sdk.Verdict{Outcome: sdk.Passed}) == nil || r.Report(t.Context(), "x", sdk.Verdict{Confidence: 2}) == nil {
		t.Error("a verdict on no run, or with a confidence of 2, is taken")
	}
	if r.Report(t.Context(), "x", sdk.Verdict{}) == nil {
		t.Error("a verdict without an outcome is taken")
	}
}

// A verdict that a closed router cannot record is an error. A verdict on an unknown run is recorded, and the run is
// logged.
func TestReportKeepsOrSays(t *testing.T) {
	var traces []*sdk.Trace
	var log strings.Builder
	r := openTwo(t, twoModels, 10, &traces, &log)
	for range 2 {
		if err := r.Report(t.Context(), "mistyped", sdk.Verdict{Outcome: sdk.Passed}); err != nil {
			t.Fatal(err)
		}
	}
	if len(traces) != 2 || strings.Count(log.String(), "run=mistyped") != 1 {
		t.Errorf("%d traces, and the log says %q", len(traces), log.String())
	}
	acme := middleware.WithInfo(t.Context(), middleware.Info{Run: "acme's", Tenant: "acme"})
	if _, err := llms.GenerateFromSinglePrompt(acme, r, "hello"); err != nil {
		t.Fatal(err)
	}
	traces = nil
	if err := r.Report(t.Context(), "acme's", sdk.Verdict{Outcome: sdk.Passed}); err == nil || len(traces) > 0 {
		t.Errorf("a verdict without the run's tenant: %v, %d traces", err, len(traces))
	}
	if err := r.Report(acme, "acme's", sdk.Verdict{Outcome: sdk.Passed}); err != nil || len(traces) != 1 {
		t.Errorf("a verdict with the run's tenant: %v, %d traces", err, len(traces))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Report(t.Context(), "mistyped", sdk.Verdict{Outcome: sdk.Failed}); !errors.Is(err, router.ErrClosed) || len(traces) != 1 {
		t.Errorf("a closed router answers %v", err)
	}
	_, step := llms.GenerateFromSinglePrompt(t.Context(), r, "hello")
	_, asked := r.Ask(t.Context(), "small", &sdk.Query{})
	if !errors.Is(step, router.ErrClosed) || !errors.Is(asked, router.ErrClosed) || !errors.Is(r.Swap(t.Context(), r.Policy()), router.ErrClosed) || len(traces) != 1 {
		t.Errorf("a closed router runs steps: %v, %v; %d traces", step, asked, len(traces))
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

package router_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Open turns a policy file into a langchaingo model. The models are scripted here; the
// small one refuses, which the free checks detect.
func ExampleOpen() {
	server, err := scripted.Start(scripted.Options{Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
		if req.Model == "small" {
			return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
		}
		return scripted.Reply{Text: "Canberra."}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	dir, err := os.MkdirTemp("", "router")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "policy.hcl")
	text := fmt.Sprintf(`
model "small" {
  provider = "openai"
  base_url = %[1]q
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
}
model "large" {
  provider = "openai"
  base_url = %[1]q
  price {
    input_usd_per_million  = 2
    output_usd_per_million = 8
  }
}
strategy "route" {
  worth_usd = 0.01
}
`, server.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	model, err := full.Open(context.Background(), file, router.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	ctx, report := middleware.WithReport(context.Background())
	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "What is the capital of Australia?")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
	for _, call := range report.Steps()[0].Calls {
		fmt.Println(call.Model)
	}
	// Output:
	// Canberra.
	// small
	// large
}

// Wrap takes existing models, and a func that judges answers: prices, limits and capabilities come from the
// catalogue.
func ExampleWrap() {
	small, large := says("A bakers' dozen is 12."), says("A bakers' dozen is 13.")
	model, err := router.Wrap(context.Background(), 0.05, router.Options{ // a right answer is worth five cents
		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
		Verify: func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if strings.Contains(req.Answer.Text, "13") {
				return &sdk.Verdict{Outcome: sdk.Passed}, nil
			}
			return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "that is a plain dozen"}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	ctx, report := middleware.WithReport(context.Background())
	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "How many are a bakers' dozen?")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
	for _, call := range report.Steps()[0].Calls {
		fmt.Println(call.Model, call.Verdict.Outcome)
	}
	// Output:
	// A bakers' dozen is 13.
	// gpt-4.1-mini failed
	// gpt-4.1 passed
}

// The outcome of a run is often known only later: it is reported under the run's name, and sent to the trace sinks.
func ExampleRouter_Report() {
	small, large := says("The lamp is cancelled."), says("The chair is cancelled.")
	model, err := router.Wrap(context.Background(), 0.05, router.Options{
		Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
		Traces: func(_ context.Context, t *sdk.Trace) {
			if t.Mode == sdk.ModeVerdict {
				fmt.Println(t.Run, t.Verdict.Outcome, "by", t.Verdict.Verifier)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	ctx := middleware.WithInfo(context.Background(), middleware.Info{Run: "order-4711"})
	if _, err := llms.GenerateFromSinglePrompt(ctx, model, "Cancel the chair."); err != nil {
		fmt.Println(err)
		return
	}
	err = model.Report(ctx, "order-4711", sdk.Verdict{Outcome: sdk.Failed, Verifier: "support", Evidence: "the wrong item was cancelled"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Output: order-4711 failed by support
}

// says is a model that always gives the same answer.
type says string

func (s says) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: string(s), StopReason: "stop"}}}, nil
}

func (s says) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return string(s), nil
}

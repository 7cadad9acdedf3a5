package middleware_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A cheap model that fails to write the requested JSON costs little; the large one is only called
// then.
func Example() {
	model, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{
			{
				Model:   sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}, Capabilities: sdk.Capabilities{JSONMode: true}},
				Quality: sdk.Estimate{Mean: 0.7, StdDev: 0.3},
				LLM:     says("Sure! Here is your JSON: {}"),
			},
			{
				Model:   sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}, Capabilities: sdk.Capabilities{JSONMode: true}},
				Quality: sdk.Estimate{Mean: 0.9, StdDev: 0.1},
				LLM:     says(`{"height_m": 1345}`),
			},
		},
		Lambda: 50, // a right answer is worth two cents
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, report := middleware.WithReport(context.Background())
	answer, err := llms.GenerateFromSinglePrompt(ctx, model, "How high is Ben Nevis?", llms.WithJSONMode())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer)
	for _, call := range report.Steps()[0].Calls {
		fmt.Print(call.Model)
		if call.Verdict != nil {
			fmt.Print(": ", call.Verdict.Evidence)
		}
		fmt.Println()
	}
	fmt.Printf("%.6f USD\n", report.CostUSD())
	// Output:
	// {"height_m": 1345}
	// small: is not JSON
	// large
	// 0.000371 USD
}

// Interceptors wrap a step, the first outermost: here a log around a filter that removes telephone
// numbers before any model sees them.
func ExampleConfig_interceptors() {
	logging := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
			fmt.Println("log: step begins")
			resp, err := next(ctx, messages, options...)
			fmt.Println("log: step ends")
			return resp, err
		}
	}
	filter := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
			clean := make([]llms.MessageContent, len(messages))
			for i, m := range messages {
				clean[i].Role = m.Role
				for _, p := range m.Parts {
					if text, ok := p.(llms.TextContent); ok {
						p = llms.TextPart(strings.ReplaceAll(text.Text, "555-0100", "[number]"))
					}
					clean[i].Parts = append(clean[i].Parts, p)
				}
			}
			fmt.Println("filter: looked at", len(messages), "message")
			return next(ctx, clean, options...)
		}
	}
	model, err := middleware.New(middleware.Config{
		Models: []middleware.Candidate{{
			Model: sdk.Model{Name: "only"},
			LLM: &fake{say: func(_ context.Context, messages []llms.MessageContent, _ *llms.CallOptions) (*llms.ContentResponse, error) {
				fmt.Println("model:", messages[0].Parts[0])
				return text("done"), nil
			}},
		}},
		Interceptors: []func(middleware.Handler) middleware.Handler{logging, filter},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llms.GenerateFromSinglePrompt(context.Background(), model, "Call 555-0100.")
	fmt.Println(answer, err)
	// Output:
	// log: step begins
	// filter: looked at 1 message
	// model: Call [number].
	// log: step ends
	// done <nil>
}

package step_test

import (
	"context"
	"fmt"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// The small model answers first, a verifier rejects what it says, and the large
// one is worth its price.
func Example() {
	strategy, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{50}})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := step.New(step.Config{
		Candidates: []step.Candidate{
			{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.1, Output: 0.4}}, Quality: sdk.Estimate{Mean: 0.5}},
			{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2, Output: 8}}, Quality: sdk.Estimate{Mean: 0.9}},
		},
		Strategy: strategy,
		Verifiers: []step.Verifier{{Name: "sum", Verifier: sdk.VerifierFunc(
			func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
				if r.Answer.Text != "391" {
					return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "17 * 23 is not " + r.Answer.Text}, nil
				}
				return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
			})}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	says := map[string]string{"small": "381", "large": "391"}
	result, err := engine.Run(context.Background(), step.Request{
		Query: &sdk.Query{InputTokens: 20},
		Caller: step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{Text: says[c.Model.Name], Usage: sdk.Usage{InputTokens: 20, OutputTokens: 100}}, nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Trace.Calls {
		fmt.Printf("%s: %s, %.6f USD\n", c.Model, c.Verdict.Outcome, c.CostUSD)
	}
	fmt.Println(result.Answer.Text)
	// Output:
	// small: failed, 0.000042 USD
	// large: passed, 0.000840 USD
	// 391
}

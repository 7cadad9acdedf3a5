// Code generated from the documentation by make no-harm. DO NOT EDIT.

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/tmc/langchaingo/llms"
)

var snippets = []snippet{
	{
		"README.md, Go block 1", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"comment in adapters/full/full.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"comment in adapters/gateway/doc.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"adapters/gateway/example_test.go, Example", func(small, large llms.Model) any {
			return middleware.Config{
				Models: []middleware.Candidate{
					{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}}, LLM: nil},
					{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}}, LLM: nil},
				},
				Lambda: 10,
			}
		},
	},
	{
		"comment in adapters/router/doc.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", router.Options{
				Providers: nil,
			}}
		},
	},
	{
		"comment in adapters/router/doc.go", func(small, large llms.Model) any {
			return wrapping{0.05, router.Options{ // a right answer is worth five cents
				Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
				Verify: check, // a func that says whether an answer is right
			}}
		},
	},
	{
		"adapters/router/example_test.go, ExampleOpen", func(small, large llms.Model) any {
			return opening{`
model "small" {
  provider = "openai"
  base_url = "http://localhost"
  price {
    input_usd_per_million  = 0.1
    output_usd_per_million = 0.4
  }
}
model "large" {
  provider = "openai"
  base_url = "http://localhost"
  price {
    input_usd_per_million  = 2
    output_usd_per_million = 8
  }
}
strategy "route" {
  worth_usd = 0.01
}
`, "", router.Options{}}
		},
	},
	{
		"adapters/router/example_test.go, ExampleWrap", func(small, large llms.Model) any {
			return wrapping{0.05, router.Options{ // a right answer is worth five cents
				Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
				Verify: func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
					if strings.Contains(req.Answer.Text, "13") {
						return &sdk.Verdict{Outcome: sdk.Passed}, nil
					}
					return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "that is a plain dozen"}, nil
				},
			}}
		},
	},
	{
		"adapters/router/example_test.go, ExampleRouter_Report", func(small, large llms.Model) any {
			return wrapping{0.05, router.Options{
				Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
				Traces: func(_ context.Context, t *sdk.Trace) {
					if t.Mode == sdk.ModeVerdict {
						fmt.Println(t.Run, t.Verdict.Outcome, "by", t.Verdict.Verifier)
					}
				},
			}}
		},
	},
	{
		"comment in doc.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"comment in doc.go", func(small, large llms.Model) any {
			return wrapping{0.05, router.Options{ // a right answer is worth five cents
				Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
				Verify: check,
			}}
		},
	},
	{
		"docs/middleware.md, Go block 1", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"docs/middleware.md, Go block 2", func(small, large llms.Model) any {
			check := func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
				switch {
				case len(req.Answer.ToolCalls) > 0:
					return &sdk.Verdict{Outcome: sdk.Inconclusive}, nil
				case json.Valid([]byte(req.Answer.Text)):
					return &sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.9}, nil
				}
				return &sdk.Verdict{Outcome: sdk.Failed, Evidence: "not JSON"}, nil
			}
			return wrapping{0.05, router.Options{ // a right answer is worth five cents
				Models: map[string]llms.Model{"gpt-4.1-mini": small, "gpt-4.1": large},
				Verify: check,
			}}
		},
	},
	{
		"docs/start.md, Go block 1", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/agent-with-tools/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/anthropic-sdk-go/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/budgets-and-tenants/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/custom-estimator/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/custom-verifier/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/eino/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/fantasy/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/genkit/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/logprob-classifier/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/observe-then-enforce/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{
				Load: policies.LoadOptions{Sets: []string{"mode=" + mode}},
			}}
		},
	},
	{
		"examples/openai-go/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/quickstart/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/streaming/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"examples/swe-cascade/main.go", func(small, large llms.Model) any {
			return opening{"", "policy.hcl", full.Options{}}
		},
	},
	{
		"comment in middleware/doc.go", func(small, large llms.Model) any {
			return middleware.Config{
				Models: []middleware.Candidate{
					{Model: sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}}, LLM: nil},
					{Model: sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}}, LLM: nil},
				},
				Lambda: 10, // a gain of 0.1 in quality is worth a cent
			}
		},
	},
	{
		"middleware/example_test.go, Example", func(small, large llms.Model) any {
			return middleware.Config{
				Models: []middleware.Candidate{
					{
						Model:   sdk.Model{Name: "small", Price: sdk.Price{Input: 0.15, Output: 0.6}, Capabilities: sdk.Capabilities{JSONMode: true}},
						Quality: sdk.Estimate{Mean: 0.7, StdDev: 0.3},
						LLM:     nil,
					},
					{
						Model:   sdk.Model{Name: "large", Price: sdk.Price{Input: 2.5, Output: 10}, Capabilities: sdk.Capabilities{JSONMode: true}},
						Quality: sdk.Estimate{Mean: 0.9, StdDev: 0.1},
						LLM:     nil,
					},
				},
				Lambda: 50, // a right answer is worth two cents
			}
		},
	},
	{
		"middleware/example_test.go, ExampleConfig_interceptors", func(small, large llms.Model) any {
			return middleware.Config{
				Models: []middleware.Candidate{{
					Model: sdk.Model{Name: "only"},
					LLM:   nil,
				}},
				Interceptors: nil,
			}
		},
	},
}

package policies_test

import (
	"fmt"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

func ExampleLoad() {
	p, err := policies.Load("library:tools-agent", policies.LoadOptions{
		Env:  []string{"OPENAI_API_KEY=none"},
		Sets: []string{"budget.step_usd=0.25"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range p.SDKModels() {
		fmt.Println(m.Name, m.Served, m.Price.Input)
	}
	choice := p.Choose(&sdk.Query{Labels: map[string]string{"turn": "chat"}})
	fmt.Println(choice.Match, choice.Strategy.Kind, p.Budget.StepUSD)
	// Output:
	// small gpt-4.1-mini 0.4
	// large gpt-4.1 2
	// plain-chat route 0.25
}

func ExampleParse() {
	_, err := policies.Parse("policy.hcl", []byte(`
model "small" {
  provder = "openai"
}
strategy "route" {
  lambda = 1
}
`), policies.LoadOptions{Env: []string{}})
	fmt.Println(err)
	// Output:
	// the policy has 2 errors
	//
	// error: provider is missing
	//   policy.hcl:2
	//   2 | model "small" {
	//     | ^^^^^^^^^^^^^
	//   Add provider = ...: it takes one of "openai", "anthropic", "gemini", "ollama", "mistral", "go".
	//
	// error: unknown argument "provder"
	//   policy.hcl:3, in model "small"
	//   3 |   provder = "openai"
	//     |   ^^^^^^^
	//   Did you mean "provider"?
}

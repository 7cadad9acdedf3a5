// Command fantasy connects an agent on Charm's fantasy to a cascade with one option of its provider, without a
// server: each step of the agent is routed separately.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"charm.land/fantasy"
	"charm.land/fantasy/providers/anthropic"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/scripted"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stop, err := scripted.WithoutKey(scripted.Weather)
	if err != nil {
		return err
	}
	defer stop()

	model, err := full.Open(ctx, "policy.hcl", full.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	cascade, err := gateway.New(gateway.Options{Model: model, Observe: func(x *gateway.Exchange) {
		for _, step := range x.Steps {
			fmt.Printf("  %s, after %d of 2 models\n", step.Chosen, len(step.Calls))
		}
	}})
	if err != nil {
		return err
	}

	provider, err := anthropic.New(
		anthropic.WithHTTPClient(&http.Client{Transport: cascade}), // the only change
		anthropic.WithBaseURL("http://cascade"), anthropic.WithAPIKey("none"),
	)
	if err != nil {
		return err
	}
	chat, err := provider.LanguageModel(ctx, "stepfall")
	if err != nil {
		return err
	}
	weather := fantasy.NewAgentTool("weather", "The weather of a city now.", func(_ context.Context, in place, _ fantasy.ToolCall) (fantasy.ToolResponse, error) {
		return fantasy.NewTextResponse("18 degrees and sunny in " + in.City), nil
	})
	agent := fantasy.NewAgent(chat, fantasy.WithTools(weather))
	said, err := agent.Generate(ctx, fantasy.AgentCall{
		Prompt: "Which city is warmest: Sydney, Hobart or Canberra?", MaxOutputTokens: fantasy.Opt(int64(8000)),
		ProviderOptions: anthropic.NewProviderOptions(&anthropic.ProviderOptions{Thinking: &anthropic.ThinkingProviderOption{BudgetTokens: 2000}}),
	})
	if err != nil {
		return err
	}
	fmt.Println(said.Response.Content.Text())
	return nil
}

type place struct {
	City string `json:"city" description:"its name"`
}

// Command quickstart wraps two models in five lines and asks them two questions.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	stop, err := scripted.WithoutKey(answer)
	if err != nil {
		return err
	}
	defer stop()

	model, err := full.Open(ctx, "policy.hcl", full.Options{})
	if err != nil {
		return err
	}
	defer model.Close()

	for _, question := range []string{"What is the capital of Australia?", "Prove that there are infinitely many primes."} {
		ctx, report := middleware.WithReport(ctx)
		text, err := llms.GenerateFromSinglePrompt(ctx, model, question)
		if err != nil {
			return err
		}
		fmt.Println(text)
		for _, step := range report.Steps() {
			for _, call := range step.Calls {
				fmt.Printf("  asked %s for %.6f USD\n", call.Model, call.CostUSD)
			}
		}
	}
	return nil
}

// answer returns the scripted models' answers: the small one gives up on proofs.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	switch {
	case strings.Contains(req.LastUser(), "Australia"):
		return scripted.Reply{Text: "Canberra."}
	case req.Model == "gpt-4o-mini":
		return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
	}
	return scripted.Reply{Text: "Multiply any finite list of primes and add one: no prime of the list divides the result."}
}

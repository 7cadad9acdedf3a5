// Command custom-verifier lets a Python script judge the answers.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"

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

	ctx, report := middleware.WithReport(ctx)
	text, err := llms.GenerateFromSinglePrompt(ctx, model, "Give me a recipe for a 500 g loaf of bread.")
	if err != nil {
		return err
	}
	fmt.Println(text)
	for _, call := range report.Steps()[0].Calls {
		fmt.Printf("  %s: %s\n", call.Model, cmp.Or(call.Verdict.Evidence, call.Verdict.Outcome.String()))
	}
	return nil
}

// answer returns the scripted models' answers: the small one cannot add.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	if req.Model == "gpt-4o-mini" {
		return scripted.Reply{Text: "Mix 400 g flour, 250 g water and 8 g salt."}
	}
	return scripted.Reply{Text: "Mix 300 g flour, 192 g water and 8 g salt."}
}

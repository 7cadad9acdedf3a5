// Command custom-estimator uses a custom quality estimator, a plugin in Go.
package main

import (
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
	text, err := llms.GenerateFromSinglePrompt(ctx, model, "How many moons has Mars?")
	if err != nil {
		return err
	}
	fmt.Println(text)
	for _, call := range report.Steps()[0].Calls {
		fmt.Printf("  %s: quality %.2f\n", call.Model, call.Quality.Mean)
	}
	return nil
}

// answer returns the scripted models' answers: the small one is not sure.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	if req.Model == "gpt-4o-mini" {
		return scripted.Reply{Text: "Perhaps three, maybe four."}
	}
	return scripted.Reply{Text: "Two: Phobos and Deimos."}
}

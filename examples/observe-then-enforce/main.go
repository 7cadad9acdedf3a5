// Command observe-then-enforce puts a cascade into production without risk: in mode observe its traces show what it
// would have saved; then a flag switches it to enforce.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
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
	defer os.Remove("traces.jsonl")

	// The same policy file; a flag of the program changes the mode.
	for _, mode := range []string{"observe", "enforce"} {
		model, err := full.Open(ctx, "policy.hcl", full.Options{
			Load: policies.LoadOptions{Sets: []string{"mode=" + mode}},
		})
		if err != nil {
			return err
		}
		ctx, report := middleware.WithReport(ctx)
		_, err = llms.GenerateFromSinglePrompt(ctx, model, "What is the capital of Australia?")
		if err := model.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		step := report.Steps()[0]
		fmt.Printf("%s: would run %s, ran %s\n", mode, step.Decisions[0].Run, step.Chosen)
	}
	return nil
}

// answer returns the scripted models' answers.
func answer(context.Context, *scripted.Request) scripted.Reply {
	return scripted.Reply{Text: "Canberra."}
}

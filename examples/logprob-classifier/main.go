// Command logprob-classifier classifies reviews, and asks the large model only where the token probabilities of the
// small one are low.
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

	for _, review := range []string{"I loved every minute.", "Well, that was two hours of my life."} {
		ctx, report := middleware.WithReport(ctx)
		text, err := llms.GenerateFromSinglePrompt(ctx, model, "Answer with positive or negative: "+review)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", review, text)
		for _, call := range report.Steps()[0].Calls {
			fmt.Printf("  %s: right with probability %.2f\n", call.Model, call.Quality.Mean)
		}
	}
	return nil
}

// answer returns the scripted models' answers with their log-probabilities.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	switch {
	case strings.Contains(req.LastUser(), "loved"):
		return scripted.Reply{Text: "positive", Confidence: 0.98}
	case req.Model == "gpt-4o-mini":
		return scripted.Reply{Text: "positive", Confidence: 0.5}
	}
	return scripted.Reply{Text: "negative", Confidence: 0.93}
}

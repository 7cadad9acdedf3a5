// Command streaming shows what a streaming caller sees of a cascade.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/scripted"
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

	for _, question := range []string{"Name three primary colours.", "Tell me a secret."} {
		pieces := 0
		show := func(_ context.Context, piece []byte) error {
			pieces++
			fmt.Print(string(piece))
			return nil
		}
		if _, err := llms.GenerateFromSinglePrompt(ctx, model, question, llms.WithStreamingFunc(show)); err != nil {
			return err
		}
		if pieces == 1 {
			fmt.Println("\n  in one piece: it was held back until the decision")
		} else {
			fmt.Println("\n  in several pieces: it was shown live")
		}
	}
	return nil
}

// answer returns the scripted models' answers: the small one will not tell secrets.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	switch {
	case strings.Contains(req.LastUser(), "colours"):
		return scripted.Reply{Text: "Red, yellow and blue."}
	case req.Model == "gpt-4o-mini":
		return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
	}
	return scripted.Reply{Text: "Bees sleep with their feet held."}
}

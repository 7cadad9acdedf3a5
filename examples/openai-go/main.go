// Command openai-go connects OpenAI's official client to a cascade with one option, without a server.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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
	cascade, err := gateway.New(gateway.Options{Model: model})
	if err != nil {
		return err
	}

	client := openai.NewClient(
		option.WithHTTPClient(&http.Client{Transport: cascade}), // the only change
		option.WithBaseURL("http://cascade/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0),
	)
	for _, question := range []string{"What is the capital of Australia?", "Prove that there are infinitely many primes."} {
		var response *http.Response
		completion, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model: "stepfall", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)},
		}, option.WithResponseInto(&response))
		if err != nil {
			return err
		}
		fmt.Println(completion.Choices[0].Message.Content)
		fmt.Printf("  asked %s for %s USD\n", response.Header.Get(gateway.HeaderModels), response.Header.Get(gateway.HeaderCostUSD))
	}

	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "stepfall", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the capital of Australia?")},
	})
	defer stream.Close()
	for stream.Next() {
		if chunk := stream.Current(); len(chunk.Choices) > 0 {
			fmt.Print(chunk.Choices[0].Delta.Content)
		}
	}
	fmt.Println()
	return stream.Err()
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

// Command anthropic-sdk-go connects Anthropic's official client to a cascade with one option, without a server: a
// tool loop with thinking, whose models alternate and have another API.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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

	client := anthropic.NewClient(
		option.WithHTTPClient(&http.Client{Transport: cascade}), // the only change
		option.WithBaseURL("http://cascade"), option.WithAPIKey("none"), option.WithMaxRetries(0),
	)
	request := anthropic.MessageNewParams{
		Model: "stepfall", MaxTokens: 8000, Thinking: anthropic.ThinkingConfigParamOfEnabled(2000),
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Which city is warmest: Sydney, Hobart or Canberra?"))},
		Tools: []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"},
		}, "weather")},
	}
	for {
		message, err := client.Messages.New(ctx, request)
		if err != nil {
			return err
		}
		request.Messages = append(request.Messages, message.ToParam())
		var results []anthropic.ContentBlockParamUnion
		for _, block := range message.Content {
			switch block.Type {
			case "thinking":
				fmt.Println(block.Thinking)
			case "text":
				fmt.Println(block.Text)
			case "tool_use":
				results = append(results, anthropic.NewToolResultBlock(block.ID, "18 degrees and sunny", false))
			}
		}
		if len(results) == 0 {
			return nil
		}
		request.Messages = append(request.Messages, anthropic.NewUserMessage(results...))
	}
}

// Command eino connects an agent on CloudWeGo's eino to a cascade with one option of its OpenAI model, without a
// server: each step of the agent is routed separately.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

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
	steps := make(chan string, 8) // a streaming client can read the last chunk before Observe is called
	cascade, err := gateway.New(gateway.Options{Model: model, Observe: func(x *gateway.Exchange) {
		for _, step := range x.Steps {
			steps <- fmt.Sprintf("  %s, after %d of 2 models", step.Chosen, len(step.Calls))
		}
	}})
	if err != nil {
		return err
	}

	chat, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{
		HTTPClient: &http.Client{Transport: cascade}, // the only change
		BaseURL:    "http://cascade/v1", APIKey: "none", Model: "stepfall",
	})
	if err != nil {
		return err
	}
	weather, err := utils.InferTool("weather", "The weather of a city now.", func(_ context.Context, in *place) (string, error) {
		return fmt.Sprintf("%d degrees in %s", 10+len(in.City), in.City), nil
	})
	if err != nil {
		return err
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: chat, ToolsConfig: compose.ToolsNodeConfig{Tools: []tool.BaseTool{weather}},
	})
	if err != nil {
		return err
	}
	said, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage("Which city is warmest: Sydney, Hobart or Canberra?")})
	if err != nil {
		return err
	}
	for range len(steps) {
		fmt.Println(<-steps)
	}
	fmt.Println(said.Content)

	stream, err := chat.Stream(ctx, []*schema.Message{schema.UserMessage("Prove that there are infinitely many primes.")})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		fmt.Print(piece.Content)
	}
	fmt.Println()
	fmt.Println(<-steps)
	return nil
}

type place struct {
	City string `json:"city" jsonschema:"required" jsonschema_description:"its name"`
}

// answer returns the scripted models' answers. The small one gives up on proofs, and on the first and the
// third call of the agent's loop.
func answer(_ context.Context, req *scripted.Request) scripted.Reply {
	calls := 0
	for _, m := range req.Messages {
		if m.Role == "tool" {
			calls++
		}
	}
	cities := []string{"Sydney", "Hobart", "Canberra"}
	isLoop := strings.Contains(req.LastUser(), "warmest")
	switch {
	case req.Model == "gpt-4o-mini" && (!isLoop || calls%2 == 0):
		return scripted.Reply{Text: "I'm sorry, but I can't help with that."}
	case isLoop && calls < len(cities):
		return scripted.Reply{ToolCalls: []scripted.ToolCall{{Name: "weather", Arguments: `{"city":"` + cities[calls] + `"}`}}}
	case isLoop:
		return scripted.Reply{Text: "It is warmest in Canberra, at 18 degrees."}
	}
	return scripted.Reply{Text: "Multiply any finite list of primes and add one: no prime of the list divides the result."}
}

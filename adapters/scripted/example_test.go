package scripted_test

import (
	"context"
	"fmt"

	"github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/scripted"
)

// Start runs a model server whose small model is sometimes wrong.
func ExampleStart() {
	server, err := scripted.Start(scripted.Options{
		Models: []string{"small", "large"},
		Respond: func(_ context.Context, req *scripted.Request) scripted.Reply {
			if req.Model == "small" {
				return scripted.Reply{Text: "Sydney", Confidence: 0.6}
			}
			return scripted.Reply{Text: "Canberra"}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	for _, name := range []string{"small", "large"} {
		llm, err := openai.New(openai.WithBaseURL(server.URL()), openai.WithToken("none"), openai.WithModel(name))
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, err := llm.Call(context.Background(), "What is the capital of Australia?")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", name, answer)
	}
	// Output:
	// small: Sydney
	// large: Canberra
}

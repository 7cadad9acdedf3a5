package openai_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/openai"
	"github.com/stepfall/stepfall/middleware"
)

// A provider works alone in a langchaingo program. Params say what langchaingo's options
// cannot.
func Example() {
	ctx, messages := context.Background(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Hello!")}
	ask := func() error {
		model, err := openai.New(openai.Options{Model: "gpt-4o-mini", APIKey: os.Getenv("OPENAI_API_KEY")})
		if err != nil {
			return err
		}
		answer, err := model.GenerateContent(ctx, messages, middleware.WithParams(middleware.Params{
			Temperature:     new(0.0), // 0, and not unset
			ReasoningEffort: "low",
		}))
		if err != nil {
			return err
		}
		fmt.Println(answer.Choices[0].Content, middleware.ExtraOf(answer.Choices[0]).RequestID)
		return nil
	}
	if err := ask(); err != nil {
		fmt.Println(err)
	}
}

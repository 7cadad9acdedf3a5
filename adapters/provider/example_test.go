package provider_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// alone uses a provider without a cascade in a langchaingo program. Params express what langchaingo's options
// cannot. It is only compiled, because there is no server here.
func alone(ctx context.Context, messages []llms.MessageContent) error {
	model, err := provider.New(provider.Options{Model: "gpt-4o-mini", APIKey: os.Getenv("OPENAI_API_KEY")})
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

var _ = alone

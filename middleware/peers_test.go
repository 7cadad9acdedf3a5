package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/compliance"
	"github.com/tmc/langchaingo/testing/llmtest"

	"github.com/stepfall/stepfall/middleware"
)

// polite follows the instructions of the suites, and rejects the roles that langchaingo's openai client
// rejects.
func polite() *fake {
	return &fake{say: func(_ context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		for _, m := range messages {
			switch m.Role {
			case llms.ChatMessageTypeHuman, llms.ChatMessageTypeAI, llms.ChatMessageTypeSystem, llms.ChatMessageTypeTool:
			default:
				return nil, &llms.Error{Code: llms.ErrCodeInvalidRequest, Message: "role " + string(m.Role) + " not supported"}
			}
		}
		if len(o.Tools) > 0 {
			resp := text("")
			resp.Choices[0].ToolCalls = []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: o.Tools[0].Function.Name, Arguments: `{"expression":"2+2","location":"Paris"}`}}}
			return resp, nil
		}
		last, _ := messages[len(messages)-1].Parts[0].(llms.TextContent)
		for asked, answer := range map[string]string{
			"my name": "Your name is Alice.", "42": "42", "Count": "1 2 3 4", "days of the week": "Monday, Tuesday, Wednesday, Thursday",
		} {
			if strings.Contains(last.Text, asked) {
				return text(answer), nil
			}
		}
		return text("Hello, World!"), nil
	}}
}

func TestLLMTest(t *testing.T) {
	llmtest.TestLLM(t, wrap(t, middleware.Config{Models: []middleware.Candidate{small(polite()), large(polite())}}))
}

func TestCompliance(t *testing.T) {
	compliance.NewSuite("stepfall", wrap(t, middleware.Config{Models: []middleware.Candidate{small(polite()), large(polite())}})).Run(t)
}

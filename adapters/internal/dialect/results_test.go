package dialect_test

import (
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// What a tool returned reaches models of every API, whatever form an image has.
func TestResultsWithImages(t *testing.T) {
	for d, client := range dialect.Clients {
		for form, image := range map[string]llms.ContentPart{
			"address": llms.ImageURLContent{URL: "data:image/png;base64,UE5H"}, "binary": llms.BinaryContent{MIMEType: "image/png", Data: []byte("PNG")},
			"file": middleware.FilePart{MIMEType: "image/png", Data: []byte("PNG")},
		} {
			result := middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "c1"}, Parts: []llms.ContentPart{llms.TextContent{Text: "seen"}, image}}
			o, err := client.Write(&dialect.Call{Model: "m", Options: &llms.CallOptions{}, Params: &middleware.Params{}, Messages: []llms.MessageContent{
				llms.TextParts(llms.ChatMessageTypeHuman, "look"),
				{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "c1", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}}},
				{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{result}},
			}})
			if err != nil {
				t.Errorf("%s, %s: %v", d, form, err)
				continue
			}
			body, err := o.JSON()
			if got := string(body); err != nil || strings.Count(got, "UE5H") != 1 || strings.Count(got, "seen") != 1 {
				t.Errorf("%s, %s: %s, %v", d, form, got, err)
			}
		}
	}
}

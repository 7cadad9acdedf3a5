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

// A call of a tool of OpenAI's own and its output are a call and a result to models of other APIs.
func TestCustomToolsElsewhere(t *testing.T) {
	body, refusal := dialect.Parse([]byte(`{"input":[{"role":"user","content":"patch it"},{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"apply","input":"*** \"a\""},` +
		`{"type":"custom_tool_call_output","call_id":"c1","output":"done"}]}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	request, refusal := dialect.Responses.Read(body, nil)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for d, want := range map[middleware.Dialect]string{
		middleware.DialectAnthropic: `{"content":[{"content":"done","tool_use_id":"c1","type":"tool_result"}],"role":"user"}`,
		middleware.DialectChat:      `{"content":"done","role":"tool","tool_call_id":"c1"}`,
		middleware.DialectResponses: `{"type":"custom_tool_call_output","call_id":"c1","output":"done"}`,
	} {
		messages, notSent := dialect.Own(request.Messages, d)
		o, err := dialect.Clients[d].Write(&dialect.Call{Model: "m", Options: &llms.CallOptions{}, Params: &middleware.Params{}, Messages: messages})
		if err != nil {
			t.Fatal(d, err)
		}
		if body, err := o.JSON(); err != nil || len(notSent) > 0 || !strings.Contains(string(body), want) || !strings.Contains(string(body), `*** \"a\"`) && !strings.Contains(string(body), `*** \\\"a\\\"`) {
			t.Errorf("%s: %s, not sent %q, %v", d, body, notSent, err)
		}
	}
}

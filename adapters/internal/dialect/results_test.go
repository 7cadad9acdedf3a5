package dialect_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Tool results reach models of every API, in whatever form their images are.
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

// A call of one of OpenAI's tools that the client runs, and its output, become a call and a result for models of other
// APIs, for every such tool.
func TestOwnToolsElsewhere(t *testing.T) {
	for name, tt := range map[string]struct{ call, output, wantName, wantInput, wantResult string }{
		"custom":      {`"type":"custom_tool_call","name":"apply","input":"a"`, `"type":"custom_tool_call_output","output":"done"`, "apply", `{"input":"a"}`, "done"},
		"local shell": {`"type":"local_shell_call","status":"completed","action":{"type":"exec","command":["ls"]}`, `"type":"function_call_output","output":"done"`, "local_shell", `{"action":{"type":"exec","command":["ls"]}}`, "done"},
		"shell": {`"type":"shell_call","action":{"commands":["ls"]}`, `"type":"shell_call_output","output":[{"stdout":"a.txt","outcome":{"type":"exit","exit_code":0}}]`, "shell", `{"action":{"commands":["ls"]}}`,
			`[{"stdout":"a.txt","outcome":{"type":"exit","exit_code":0}}]`},
		"patch":       {`"type":"apply_patch_call","operation":{"type":"delete_file","path":"a"}`, `"type":"apply_patch_call_output","status":"failed","output":"no such file"`, "apply_patch", `{"operation":{"type":"delete_file","path":"a"}}`, "no such file"},
		"no output":   {`"type":"apply_patch_call","operation":{"type":"delete_file","path":"a"}`, `"type":"apply_patch_call_output","status":"completed"`, "apply_patch", `{"operation":{"type":"delete_file","path":"a"}}`, `{"status":"completed"}`},
		"search":      {`"type":"tool_search_call","execution":"client","arguments":{"goal":"ship"}`, `"type":"tool_search_output","tools":[{"name":"post"}]`, "tool_search", `{"arguments":{"goal":"ship"},"execution":"client"}`, `{"tools":[{"name":"post"}]}`},
		"parts":       {`"type":"custom_tool_call","name":"view","input":""`, `"type":"custom_tool_call_output","output":[{"type":"input_text","text":"done","novel":1}]`, "view", `{"input":""}`, "done"},
		"yet unknown": {`"type":"novel_call","deep":{"a":1.50}`, `"type":"novel_call_output","output":{"b":"c"}`, "novel", `{"deep":{"a":1.50}}`, `{"b":"c"}`},
	} {
		request := readResponses(t, `{"role":"user","content":"do it"},{"call_id":"c1",`+tt.call+`},{"call_id":"c1",`+tt.output+`}`)
		for _, d := range []middleware.Dialect{middleware.DialectAnthropic, middleware.DialectChat, middleware.DialectGemini, middleware.DialectResponses} {
			body := writeFor(t, d, request.Messages)
			paths := map[middleware.Dialect][]string{
				middleware.DialectAnthropic: {"messages.1.content.0.name", "messages.1.content.0.input", "messages.2.content.0.content"},
				middleware.DialectChat:      {"messages.1.tool_calls.0.function.name", "messages.1.tool_calls.0.function.arguments", "messages.2.content"},
				middleware.DialectGemini:    {"contents.1.parts.0.functionCall.name", "contents.1.parts.0.functionCall.args", "contents.2.parts.0.functionResponse.response"},
			}[d]
			if d == middleware.DialectResponses { // as they came
				if !strings.Contains(body, tt.call) || strings.Count(body, `"call_id":"c1"`) != 2 {
					t.Errorf("%s: %s is sent", name, body)
				}
				continue
			}
			result := gjson.Get(body, paths[2]).String()
			if content := gjson.Get(body, paths[2]+".0.text"); content.Exists() {
				result = content.Str
			}
			isSame := result == tt.wantResult
			if d == middleware.DialectGemini {
				isSame = result == tt.wantResult || gjson.Get(result, "output").String()+gjson.Get(result, "error").String() == tt.wantResult
			}
			if gjson.Get(body, paths[0]).Str != tt.wantName || gjson.Get(body, paths[1]).String() != tt.wantInput || !isSame {
				t.Errorf("%s, %s: %s is sent", name, d, body)
			}
		}
	}
}

// A screenshot becomes an image for models of every API.
func TestScreenshotsElsewhere(t *testing.T) {
	request := readResponses(t, `{"role":"user","content":"look"},{"type":"computer_call","call_id":"c1","action":{"type":"screenshot"}},
		{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,UE5H"}}`)
	for d := range dialect.Clients {
		if body := writeFor(t, d, request.Messages); strings.Count(body, "UE5H") != 1 || !strings.Contains(body, `"screenshot"`) && !strings.Contains(body, `\"screenshot\"`) {
			t.Errorf("%s: %s is sent", d, body)
		}
	}
}

// A command that OpenAI ran in its own container, with its output, does not become a call that another model's client
// would have to run.
func TestHostedShellsElsewhere(t *testing.T) {
	reply := dialect.Reply{Emit: func(*middleware.Delta) {}}
	if err := dialect.Clients[middleware.DialectResponses].Reader(&reply).Whole([]byte(`{"id":"r","status":"completed","output":[{"type":"shell_call","id":"sh_1","call_id":"c1","environment":{"type":"container_reference"},"action":{"commands":["ls"]}},
		{"type":"shell_call_output","id":"sho_1","call_id":"c1","output":[{"stdout":"a.txt"}]},{"type":"shell_call","id":"sh_2","call_id":"c2","environment":{"type":"local"},"action":{"commands":["pwd"]}}]}`)); err != nil {
		t.Fatal(err)
	}
	answer, err := reply.Response()
	if err != nil {
		t.Fatal(err)
	}
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi"), {Role: llms.ChatMessageTypeAI, Parts: middleware.ExtraOf(answer.Choices[0]).Parts}}
	if body := writeFor(t, middleware.DialectAnthropic, messages); strings.Contains(body, `"c1"`) || !strings.Contains(body, `"c2"`) {
		t.Errorf("%s is sent", body)
	}
	if body := writeFor(t, middleware.DialectResponses, messages); strings.Count(body, `"c1"`) != 2 || !strings.Contains(body, `"c2"`) {
		t.Errorf("%s is sent", body)
	}
}

func readResponses(t *testing.T, items string) *dialect.Request {
	t.Helper()
	body, refusal := dialect.Parse([]byte(`{"input":[` + items + `]}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	request, refusal := dialect.Responses.Read(body, nil)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return request
}

func writeFor(t *testing.T, d middleware.Dialect, messages []llms.MessageContent) string {
	t.Helper()
	messages, _ = dialect.Own(messages, d)
	o, err := dialect.Clients[d].Write(&dialect.Call{Model: "m", Options: &llms.CallOptions{}, Params: &middleware.Params{}, Messages: messages})
	if err != nil {
		t.Fatal(d, err)
	}
	body, err := o.JSON()
	if err != nil {
		t.Fatal(d, err)
	}
	return string(body)
}

// If a result cannot contain files, a text before them names their call.
func TestFilesSayWhoseTheyAre(t *testing.T) {
	result := func(id string, parts ...llms.ContentPart) llms.ContentPart {
		return middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: id}, Parts: parts}
	}
	png := llms.BinaryContent{MIMEType: "image/png", Data: []byte("PNG")}
	messages := []llms.MessageContent{{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		result("c1", png), result("c2", llms.TextContent{Text: "none"}, llms.CachedContent{ContentPart: llms.TextContent{Text: "here"}, CacheControl: &llms.CacheControl{Type: "ephemeral"}}), result("c3", llms.TextContent{Text: "seen"}, png)}}}
	for d, want := range map[middleware.Dialect]string{
		middleware.DialectChat:   `["Result of the call c1:","Result of the call c3:"]`,
		middleware.DialectOllama: `"Result of the call c1:\nResult of the call c3:"`,
	} {
		got := gjson.Get(writeFor(t, d, messages), `messages.#(role=="user").content`)
		if texts := got.Get("#.text"); texts.Exists() {
			got = texts
		}
		if got.Raw != want {
			t.Errorf("%s: %s, want %s", d, got.Raw, want)
		}
	}
}

// Several texts of a result or a message remain separate for models of every API: "12" and "34" do not become 1234.
func TestTextsStayApart(t *testing.T) {
	for name, api := range map[string]struct {
		dialect.API
		body string
	}{
		"chat":      {dialect.Chat, `"messages":[{"role":"user","content":[{"type":"text","text":"56"},{"type":"text","text":"78"}]},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"12"},{"type":"text","text":"34"}]}]`},
		"Responses": {dialect.Responses, `"input":[{"role":"user","content":[{"type":"input_text","text":"56"},{"type":"input_text","text":"78"}]},{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"12"},{"type":"input_text","text":"34"}]}]`},
		"Messages":  {dialect.Messages, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"56"},{"type":"text","text":"78"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"12"},{"type":"text","text":"34"}]}]}]`},
	} {
		body, refusal := dialect.Parse([]byte("{" + api.body + "}"))
		if refusal != nil {
			t.Fatal(refusal)
		}
		request, refusal := api.Read(body, http.Header{})
		if refusal != nil {
			t.Fatal(refusal)
		}
		for d := range dialect.Clients {
			got := writeFor(t, d, request.Messages)
			for _, text := range []string{"12", "34", "56", "78"} {
				if strings.Count(got, text) != 1 {
					t.Errorf("%s to %s: not one %s in %s", name, d, text, got)
				}
			}
			if strings.Contains(got, "1234") || strings.Contains(got, "5678") {
				t.Errorf("%s to %s: %s", name, d, got)
			}
		}
	}
}

// A part that cannot be sent is rejected, even within a result and after members of a part.
func TestResultWithUnsendablePart(t *testing.T) {
	for _, part := range []llms.ContentPart{llms.ToolCall{ID: "c2", FunctionCall: &llms.FunctionCall{Name: "look"}}, middleware.NamePart{Name: "Ada"}} {
		members := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: []byte(`{"members_of_part":{"novel":1}}`)}
		result := middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "c1"}, Parts: []llms.ContentPart{members, part}}
		_, err := dialect.Clients[middleware.DialectResponses].Write(&dialect.Call{Model: "m", Options: &llms.CallOptions{}, Params: &middleware.Params{}, Messages: []llms.MessageContent{
			{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "c1", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}}},
			{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{result}},
		}})
		if refused, ok := errors.AsType[*middleware.ProviderError](err); !ok || refused.Code != llms.ErrCodeInvalidRequest {
			t.Errorf("%T: %v", part, err)
		}
	}
}

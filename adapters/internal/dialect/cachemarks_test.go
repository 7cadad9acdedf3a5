package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Claude caches only what is marked, and clients of other APIs cannot mark anything. Only requests that another is
// expected to continue are marked, and only where their sender marked nothing.
func TestCacheMarks(t *testing.T) {
	system, user := llms.TextParts(llms.ChatMessageTypeSystem, "you"), llms.TextParts(llms.ChatMessageTypeHuman, "go on")
	answer := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "a", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}}}
	result := llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "a", Content: "rain"}}}
	marked := llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.WithCacheControl(llms.TextContent{Text: "go on"}, &llms.CacheControl{Type: "ephemeral"})}}
	raw := llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextContent{Text: "go on"}, middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: []byte(`{"type":"search_result"}`)}}}
	tools := []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "sleep"}}, {Type: "function", Function: &llms.FunctionDefinition{Name: "look"}}}
	for name, tt := range map[string]struct {
		model    string
		messages []llms.MessageContent
		options  llms.CallOptions
		params   middleware.Params
		want     string // the places of marks
	}{
		"a first request":       {"claude-haiku-4-5", []llms.MessageContent{system, user}, llms.CallOptions{Tools: tools}, middleware.Params{}, "system.0 messages.0.content.0"},
		"a result":              {"claude-haiku-4-5", []llms.MessageContent{system, user, answer, result}, llms.CallOptions{Tools: tools}, middleware.Params{}, "system.0 messages.2.content.0"},
		"a forced next call":    {"claude-haiku-4-5", []llms.MessageContent{user, answer, result}, llms.CallOptions{Tools: tools, ToolChoice: "required"}, middleware.Params{}, "tools.1 messages.2.content.0"},
		"a forced call":         {"claude-haiku-4-5", []llms.MessageContent{system, user}, llms.CallOptions{Tools: tools, ToolChoice: "required"}, middleware.Params{}, ""},
		"no tools":              {"claude-haiku-4-5", []llms.MessageContent{system, user}, llms.CallOptions{}, middleware.Params{}, ""},
		"another model":         {"deepseek-chat", []llms.MessageContent{system, user}, llms.CallOptions{Tools: tools}, middleware.Params{}, ""},
		"the caller's own mark": {"claude-haiku-4-5", []llms.MessageContent{system, marked}, llms.CallOptions{Tools: tools}, middleware.Params{}, "messages.0.content.0"},
		"a mark of the request": {"claude-haiku-4-5", []llms.MessageContent{system, user}, llms.CallOptions{Tools: tools}, middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"cache_control": []byte(`{"type":"ephemeral"}`)}}, ""},
		"a mark of a tool":      {"claude-haiku-4-5", []llms.MessageContent{system, user}, llms.CallOptions{Tools: tools}, middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"tools": []byte(`{"look":{"cache_control":{"type":"ephemeral"}}}`)}}, "tools.1"},
		"before a raw part":     {"claude-haiku-4-5", []llms.MessageContent{system, raw}, llms.CallOptions{Tools: tools}, middleware.Params{}, "system.0 messages.0.content.0"},
	} {
		body, err := messages{}.Write(&Call{Model: tt.model, MaxTokens: 9, Messages: tt.messages, Options: &tt.options, Params: &tt.params, Limits: LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", tt.model)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sent := gjson.ParseBytes(rawJSON(body))
		var got []string
		note := func(place string, list gjson.Result) {
			for i, block := range list.Array() {
				if block.Get("cache_control.type").Str == "ephemeral" {
					got = append(got, fmt.Sprintf("%s.%d", place, i))
				}
			}
		}
		note("tools", sent.Get("tools"))
		note("system", sent.Get("system"))
		for i, m := range sent.Get("messages").Array() {
			note(fmt.Sprintf("messages.%d.content", i), m.Get("content"))
		}
		if marks := strings.Join(got, " "); marks != tt.want {
			t.Errorf("%s: marks at %q, want %q: %s", name, marks, tt.want, sent.Raw)
		}
	}
}

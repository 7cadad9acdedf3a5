package dialect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

func maxTokensField(host string) string {
	if dialect.IsOpenAI(host) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// sent returns the request to a chat completions model at a host, and the names of what is not sent.
func sent(t *testing.T, host, model string, messages []llms.MessageContent, o llms.CallOptions, p middleware.Params) (body string, notSent []string) {
	t.Helper()
	c := &dialect.Call{Model: model, Options: &o, Params: &p, MaxTokensField: maxTokensField(host), Limits: dialect.LimitsOf(middleware.DialectChat, host, model)}
	if why := c.Limits.Exclude(messages, &o, &p); why != "" {
		return why, nil
	}
	c.Messages, c.NotSent = c.Limits.Fit(messages, &o, &p)
	written, err := dialect.Clients[middleware.DialectChat].Write(c)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := written.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), c.NotSent
}

// Compatible vendors are sent what they accept, and nothing that they reject.
func TestCompatibleServers(t *testing.T) {
	user := llms.TextParts(llms.ChatMessageTypeHuman, "hi")
	system := llms.TextParts(llms.ChatMessageTypeSystem, "be brief")
	called := []llms.MessageContent{
		user,
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "toolu_1", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "toolu_1", Content: "a cat"}}},
		user,
	}
	refused := []llms.MessageContent{user, {Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{
		middleware.RawPart{TextContent: llms.TextContent{Text: "no"}, Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"type":"refusal","refusal":"no"}`)}}}, user}
	shown := []llms.MessageContent{user, {Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{middleware.ResultPart{Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/png", Data: []byte("x")}}}}}}
	own := middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"type":"document"}`), Instead: middleware.FilePart{MIMEType: "application/pdf", Data: []byte("x")}}
	marked := []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{
		middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(`{"members_of_part":{"cache_control":{"type":"ephemeral"}}}`)}, llms.TextContent{Text: "hi"}}}}
	for name, tt := range map[string]struct {
		host, model string
		messages    []llms.MessageContent
		o           llms.CallOptions
		p           middleware.Params
		want        string
		notSent     []string
	}{
		"Mistral's ids": {"api.mistral.ai", "mistral-small-latest", called, llms.CallOptions{}, middleware.Params{},
			`[{"content":"hi","role":"user"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"4838a0c25","type":"function"}]},` +
				`{"content":"a cat","role":"tool","tool_call_id":"4838a0c25"},{"content":"OK.","role":"assistant"},{"content":"hi","role":"user"}]`, nil},
		"Mistral's members": {"api.mistral.ai", "mistral-small-latest", []llms.MessageContent{user, llms.TextParts(llms.ChatMessageTypeAI, "Sure: ")}, llms.CallOptions{},
			middleware.Params{Seed: new(7), User: "ann", Store: new(false), ReasoningEffort: "medium", LogProbs: new(false), Extra: map[string]json.RawMessage{"prompt_cache_retention": json.RawMessage(`"24h"`)}, Dialect: middleware.DialectChat},
			`{"messages":[{"content":"hi","role":"user"},{"content":"Sure: ","prefix":true,"role":"assistant"}],"model":"mistral-small-latest","random_seed":7,"reasoning_effort":"high"}`,
			[]string{"LogProbs", "prompt_cache_retention", "Store", "User"}},
		"Mistral's speakers": {"api.mistral.ai", "mistral-small-latest", []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{middleware.NamePart{Name: "ann"}, llms.TextContent{Text: "hi"}}}}, llms.CallOptions{}, middleware.Params{},
			`"messages":[{"content":"hi","role":"user"}]`, []string{"name"}},
		"a tool without arguments": {"api.mistral.ai", "mistral-small-latest", []llms.MessageContent{user}, llms.CallOptions{Tools: []llms.Tool{{Function: &llms.FunctionDefinition{Name: "look"}}}}, middleware.Params{},
			`"parameters":{"type":"object","properties":{}}`, nil},
		"xAI":            {"api.x.ai", "grok-4", []llms.MessageContent{user}, llms.CallOptions{StopWords: []string{"x"}}, middleware.Params{ReasoningEffort: "high", PresencePenalty: new(.5)}, `{"messages":[{"content":"hi","role":"user"}],"model":"grok-4"}`, []string{"PresencePenalty", "ReasoningEffort"}},
		"xAI's efforts":  {"api.x.ai", "grok-4.3", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{ReasoningEffort: "xhigh"}, `"reasoning_effort":"high"`, nil},
		"Groq":           {"api.groq.com", "llama-3.3-70b", refused, llms.CallOptions{}, middleware.Params{ReasoningEffort: "high", Verbosity: "low"}, `{"content":"no","role":"assistant"}`, []string{"ReasoningEffort", "Verbosity"}},
		"Groq's choices": {"api.groq.com", "llama-3.3-70b", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{N: new(2)}, "rejects n above 1", nil},
		"DeepSeek's choice of tools": {"api.deepseek.com", "deepseek-chat", []llms.MessageContent{user}, llms.CallOptions{Tools: []llms.Tool{tool("look", `{}`), tool("go", `{}`)}},
			middleware.Params{Dialect: middleware.DialectChat, Extra: map[string]json.RawMessage{"tool_choice": json.RawMessage(`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"go"}}]}}`)}}, `"tool_choice":"auto"`, nil},
		"Groq's speakers": {"api.groq.com", "llama-3.3-70b", []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{middleware.NamePart{Name: "ann"}, llms.TextContent{Text: "hi"}}}}, llms.CallOptions{}, middleware.Params{},
			`"messages":[{"content":"hi","role":"user"}]`, []string{"name"}},
		"Groq's tools":           {"api.groq.com", "llama-3.3-70b", []llms.MessageContent{user}, llms.CallOptions{Tools: []llms.Tool{tool("a.b", `{}`)}}, middleware.Params{}, `"name":"a_b_2e7336dc"`, nil},
		"xAI's tools":            {"api.x.ai", "grok-4.5", []llms.MessageContent{user}, llms.CallOptions{Tools: slices.Repeat([]llms.Tool{tool("look", `{}`)}, 129)}, middleware.Params{}, "rejects more than 128 tools", nil},
		"xAI's images":           {"api.x.ai", "grok-4.5", []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/webp"}}}}, llms.CallOptions{}, middleware.Params{}, "rejects image/webp", nil},
		"Mistral's system":       {"api.mistral.ai", "mistral-small-latest", []llms.MessageContent{system}, llms.CallOptions{}, middleware.Params{}, `"messages":[{"content":"be brief","role":"user"}]`, nil},
		"half of a pair":         {"api.openai.com", "gpt-4.1", []llms.MessageContent{user}, llms.CallOptions{Tools: []llms.Tool{tool("look", `{"type":"object","properties":{},"description":"a\ud800 \ud83d\ude00"}`)}}, middleware.Params{}, "\"description\":\"a\ufffd \U0001f600\"", nil},
		"DeepSeek's forced tool": {"api.deepseek.com", "deepseek-v4-flash", []llms.MessageContent{user}, llms.CallOptions{Tools: []llms.Tool{tool("look", `{}`)}, ToolChoice: "required"}, middleware.Params{}, "cannot be forced to call a tool", nil},
		"DeepSeek's schemas": {"api.deepseek.com", "deepseek-chat", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object"}`)}},
			`"messages":[{"content":"Answer with a JSON object. It must satisfy this JSON schema:\n{\"type\":\"object\"}","role":"system"},{"content":"hi","role":"user"}],"model":"deepseek-chat","response_format":{"type":"json_object"}`, nil},
		"DeepSeek's answers": {"api.deepseek.com", "deepseek-v4-pro", []llms.MessageContent{user, llms.TextParts(llms.ChatMessageTypeAI, "so"), user}, llms.CallOptions{}, middleware.Params{},
			`[{"content":"hi","role":"user"},{"content":"so","reasoning_content":"","role":"assistant"},{"content":"hi","role":"user"}]`, nil},
		"DeepSeek's images": {"api.deepseek.com", "deepseek-chat", shown, llms.CallOptions{}, middleware.Params{}, "rejects image/png", nil},
		"custom tools":      {"api.deepseek.com", "deepseek-chat", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{RawTools: []json.RawMessage{json.RawMessage(`{"type":"custom"}`)}, Dialect: middleware.DialectChat}, "rejects custom tools", nil},
		"DeepSeek's files":  {"api.deepseek.com", "deepseek-chat", []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{own}}}, llms.CallOptions{}, middleware.Params{}, "rejects application/pdf", nil},
		"OpenAI's members": {"api.openai.com", "gpt-4.1", marked, llms.CallOptions{}, middleware.Params{TopK: new(7), Extra: map[string]json.RawMessage{"min_p": json.RawMessage("0.1")}, Dialect: middleware.DialectChat},
			`{"messages":[{"content":[{"text":"hi","type":"text"}],"role":"user"}],"model":"gpt-4.1"}`, []string{"TopK", "cache_control", "min_p"}},
		"no thinking": {"api.openai.com", "gpt-5", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"disabled"}`)}},
			`"reasoning_effort":"minimal"`, nil},
		"no thinking, by a model without": {"api.openai.com", "gpt-4.1", []llms.MessageContent{user}, llms.CallOptions{}, middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"disabled"}`)}},
			`{"messages":[{"content":"hi","role":"user"}],"model":"gpt-4.1"}`, []string{"thinking"}},
		"Groq's marks":    {"api.groq.com", "llama-3.3-70b", marked, llms.CallOptions{}, middleware.Params{}, `[{"text":"hi","type":"text"}]`, []string{"cache_control"}},
		"marks elsewhere": {"openrouter.ai", "claude", marked, llms.CallOptions{}, middleware.Params{}, `"cache_control":{"type":"ephemeral"}`, nil},
		"JSON":            {"api.openai.com", "gpt-4.1", []llms.MessageContent{user}, llms.CallOptions{JSONMode: true}, middleware.Params{}, `{"content":"Answer with a JSON object.","role":"system"},{"content":"hi","role":"user"}`, nil},
		"JSON asked":      {"api.deepseek.com", "deepseek-chat", []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "in Json")}, llms.CallOptions{JSONMode: true}, middleware.Params{}, `"messages":[{"content":"in Json","role":"user"}]`, nil},
		"JSON by a schema": {"api.openai.com", "gpt-4.1", []llms.MessageContent{user}, llms.CallOptions{JSONMode: true}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{}`)}},
			`"messages":[{"content":"hi","role":"user"}]`, nil},
		"templates": {"localhost", "qwen3", []llms.MessageContent{system, system, user, system}, llms.CallOptions{}, middleware.Params{},
			`[{"content":"be brief\n\nbe brief","role":"system"},{"content":"hi\n\nbe brief","role":"user"}]`, []string{"system role within the conversation"}},
	} {
		t.Run(name, func(t *testing.T) {
			body, notSent := sent(t, tt.host, tt.model, tt.messages, tt.o, tt.p)
			if !strings.Contains(body, tt.want) || !slices.Equal(notSent, tt.notSent) {
				t.Errorf("%s, not sent %q; want %s, %q", body, notSent, tt.want, tt.notSent)
			}
		})
	}
}

// Schemas of older drafts keep their meaning in the newest draft.
func TestOlderDrafts(t *testing.T) {
	claude := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-4-6")
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`: `{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0,"maximum":9}}}`,
		`{"type":"object","properties":{"l":{"items":[{"type":"string"}],"additionalItems":false}}}`:                                       `{"type":"object","properties":{"l":{"prefixItems":[{"type":"string"}],"items":false}}}`,
		`{"type":"object","properties":{"l":{"items":{},"exclusiveMinimum":1}}}`:                                                           `{"type":"object","properties":{"l":{"items":{},"exclusiveMinimum":1}}}`,
	} {
		o := llms.CallOptions{Tools: []llms.Tool{tool("look", schema)}}
		if claude.Fit(nil, &o, &middleware.Params{}); string(o.Tools[0].Function.Parameters.(json.RawMessage)) != want {
			t.Errorf("%s becomes %s, want %s", schema, o.Tools[0].Function.Parameters, want)
		}
	}
}

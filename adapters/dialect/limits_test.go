package dialect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/dialect"
	"github.com/stepfall/stepfall/middleware"
)

var (
	chat      = dialect.OpenAI(middleware.DialectChat, "api.openai.com", "gpt-4.1")
	responses = dialect.OpenAI(middleware.DialectResponses, "api.openai.com", "gpt-5")
)

func tool(name, schema string) llms.Tool {
	return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name, Parameters: json.RawMessage(schema)}}
}

// What a vendor would refuse is known before it is asked.
func TestExclude(t *testing.T) {
	claude := dialect.Anthropic("claude-sonnet-4-5")
	long := strings.Repeat("a", 65)
	image := func(kind string) []llms.MessageContent {
		return []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.BinaryContent{MIMEType: kind, Data: []byte("x")}}}}}
	}
	for _, tt := range []struct {
		limits   *dialect.Limits
		messages []llms.MessageContent
		o        llms.CallOptions
		p        middleware.Params
		want     string
	}{
		{limits: &claude, p: middleware.Params{N: new(2)}, want: "takes no n above 1"},
		{limits: &claude, p: middleware.Params{N: new(1)}},
		{limits: &chat, p: middleware.Params{N: new(2)}},
		{limits: &chat, o: llms.CallOptions{Tools: []llms.Tool{tool(long, `{}`)}}, want: `takes no tool by the name "` + long + `"`},
		{limits: &claude, o: llms.CallOptions{Tools: []llms.Tool{tool(long, `{}`)}}},
		{limits: &claude, o: llms.CallOptions{Tools: []llms.Tool{tool("a.b", `{}`)}}, want: `takes no tool by the name "a.b"`},
		{limits: &dialect.Gemini, o: llms.CallOptions{Tools: []llms.Tool{tool("a.b", `{}`)}}},
		{limits: &claude, messages: image("image/jpg")},
		{limits: &claude, messages: image("image/heic"), want: "takes no image/heic"},
		{limits: &dialect.Gemini, messages: image("image/heic")},
		{limits: &chat, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/tiff;base64,AA=="}}}}, want: "takes no image/tiff"},
		{limits: &chat, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.ImageURLContent{URL: "https://x/y.tiff"}}}}},
		{limits: &dialect.Limits{}, messages: image("image/heic"), o: llms.CallOptions{Tools: []llms.Tool{tool(long, `{}`)}}},
	} {
		if got := tt.limits.Exclude(tt.messages, &tt.o, &tt.p); got != tt.want {
			t.Errorf("%+v, %+v: %q, want %q", tt.o, tt.p, got, tt.want)
		}
	}
}

// What is beyond a limit is made to fit or left out, by name, and the caller's own is as
// it was.
func TestFit(t *testing.T) {
	claude, plain := dialect.Anthropic("claude-opus-4-6"), dialect.Anthropic("claude-sonnet-4-5")
	for name, tt := range map[string]struct {
		limits  *dialect.Limits
		p, want middleware.Params
		notSent []string
	}{
		"hot":             {&claude, middleware.Params{Temperature: new(1.5)}, middleware.Params{Temperature: new(1.0)}, []string{"Temperature above 1"}},
		"beyond all":      {&claude, middleware.Params{Temperature: new(7.0)}, middleware.Params{Temperature: new(7.0)}, nil},
		"short":           {&responses, middleware.Params{MaxTokens: new(1)}, middleware.Params{MaxTokens: new(16)}, nil},
		"effort":          {&claude, middleware.Params{ReasoningEffort: "xhigh"}, middleware.Params{ReasoningEffort: "high"}, nil},
		"no effort":       {&plain, middleware.Params{ReasoningEffort: "high"}, middleware.Params{}, []string{"ReasoningEffort"}},
		"none":            {&plain, middleware.Params{ReasoningEffort: "none"}, middleware.Params{ReasoningEffort: "none"}, nil},
		"tier":            {&claude, middleware.Params{ServiceTier: "default"}, middleware.Params{ServiceTier: "standard_only"}, nil},
		"foreign tier":    {&claude, middleware.Params{ServiceTier: "flex"}, middleware.Params{}, []string{"ServiceTier"}},
		"a tier to come":  {&chat, middleware.Params{ServiceTier: "turbo"}, middleware.Params{ServiceTier: "turbo"}, nil},
		"Anthropic's":     {&chat, middleware.Params{ServiceTier: "standard_only", ReasoningEffort: "max"}, middleware.Params{ServiceTier: "default"}, []string{"ReasoningEffort"}},
		"sampling":        {&responses, middleware.Params{Temperature: new(0.2), TopP: new(0.5), ReasoningEffort: "max"}, middleware.Params{ReasoningEffort: "high"}, []string{"Temperature", "TopP"}},
		"user":            {&chat, middleware.Params{User: strings.Repeat("u", 65)}, middleware.Params{User: "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"}, nil},
		"schema":          {&claude, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object"}}}`)}}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"additionalProperties":false,"properties":{"a":{"additionalProperties":false,"type":"object"}},"type":"object"}`)}}, nil},
		"open by purpose": {&claude, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","additionalProperties":true}`)}}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","additionalProperties":true}`)}}, nil},
	} {
		var o llms.CallOptions
		if _, notSent := tt.limits.Fit(nil, &o, &tt.p); !cmp.Equal(tt.p, tt.want) || !cmp.Equal(notSent, tt.notSent) {
			t.Errorf("%s: %s; not sent %q", name, cmp.Diff(tt.want, tt.p), notSent)
		}
	}
}

func TestFitOptions(t *testing.T) {
	claude := dialect.Anthropic("claude-opus-4-6")
	words := []string{"a", "\n", "b", "c", "d", "e"}
	o := llms.CallOptions{StopWords: words, Tools: []llms.Tool{tool("look", `{}`), tool("go", `{"type":"object"}`)}}
	given := o.Tools[0].Function
	p := middleware.Params{Dialect: middleware.DialectChat, Extra: map[string]json.RawMessage{
		"tool_choice": json.RawMessage(`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}}]}}`)}}
	claude.Fit(nil, &o, &p)
	if want := []string{"a", "b", "c", "d", "e"}; !cmp.Equal(o.StopWords, want) || len(words) != 6 {
		t.Errorf("stop words %q of %q", o.StopWords, words)
	}
	if len(o.Tools) != 1 || o.ToolChoice != "required" || string(o.Tools[0].Function.Parameters.(json.RawMessage)) != `{"properties":{},"type":"object"}` {
		t.Errorf("tools %+v, choice %v", o.Tools, o.ToolChoice)
	}
	if string(given.Parameters.(json.RawMessage)) != `{}` {
		t.Errorf("the caller's tool is %s", given.Parameters)
	}
	o = llms.CallOptions{StopWords: words}
	if chat.Fit(nil, &o, &middleware.Params{}); len(o.StopWords) != 4 {
		t.Errorf("stop words %q", o.StopWords)
	}
}

// An id that a vendor would refuse is another one, the same in the call and its result,
// image/jpg has its name, and a system message alone is the user's where one is needed.
func TestFitMessages(t *testing.T) {
	claude := dialect.Anthropic("claude-opus-4-6")
	given := []llms.MessageContent{
		{Role: llms.ChatMessageTypeSystem, Parts: []llms.ContentPart{llms.TextContent{Text: "be brief"}}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "a:b"}, llms.ToolCall{ID: "fine"}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "a:b"}, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.BinaryContent{MIMEType: "image/jpg"}}}},
			llms.ToolCallResponse{ToolCallID: "fine"},
		}},
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/jpg;base64,AA=="}, middleware.FilePart{MIMEType: "image/jpg"}}},
	}
	const mapped = "call_6783a31eabf68ccc0660f935"
	got, _ := claude.Fit(given, &llms.CallOptions{}, &middleware.Params{})
	want := []llms.MessageContent{
		given[0],
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: mapped}, llms.ToolCall{ID: "fine"}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: mapped}, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.BinaryContent{MIMEType: "image/jpeg"}}}},
			llms.ToolCallResponse{ToolCallID: "fine"},
		}},
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/jpeg;base64,AA=="}, middleware.FilePart{MIMEType: "image/jpeg"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if given[1].Parts[0].(llms.ToolCall).ID != "a:b" {
		t.Errorf("the caller's messages are %v", given)
	}
	alone, _ := claude.Fit(given[:1], &llms.CallOptions{}, &middleware.Params{})
	if alone[0].Role != llms.ChatMessageTypeHuman || given[0].Role != llms.ChatMessageTypeSystem {
		t.Errorf("alone: %v, given %v", alone, given[0].Role)
	}
	if same, _ := chat.Fit(given[:1], &llms.CallOptions{}, &middleware.Params{}); same[0].Role != llms.ChatMessageTypeSystem {
		t.Errorf("OpenAI: %v", same)
	}
}

package dialect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

var (
	chat      = dialect.LimitsOf(middleware.DialectChat, "api.openai.com", "gpt-4.1")
	responses = dialect.LimitsOf(middleware.DialectResponses, "api.openai.com", "gpt-5")
)

func tool(name, schema string) llms.Tool {
	return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name, Parameters: json.RawMessage(schema)}}
}

// Requests that a vendor would reject are detected before the call.
func TestExclude(t *testing.T) {
	claude, opus := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-sonnet-4-5"), dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-5-5")
	file := func(p middleware.FilePart) []llms.MessageContent {
		return []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{p}}}
	}
	long := strings.Repeat("a", 65)
	flash := dialect.LimitsOf(middleware.DialectGemini, "", "gemini-2.5-flash")
	open := &middleware.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"integer"}}}}`)}
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
		{limits: &claude, p: middleware.Params{N: new(2)}, want: "rejects n above 1"},
		{limits: &claude, p: middleware.Params{N: new(1)}},
		{limits: &chat, p: middleware.Params{N: new(2)}},
		{limits: &claude, o: llms.CallOptions{Tools: slices.Repeat([]llms.Tool{tool("look", `{}`)}, 2)}, want: `rejects two tools named "look"`},
		{limits: &chat, o: llms.CallOptions{Tools: slices.Repeat([]llms.Tool{tool("look", `{}`)}, 2)}},
		{limits: &claude, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/png", Data: make([]byte, 8<<20)}}}}, want: "rejects images above 10485760 bytes"},
		{limits: &claude, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/png", Data: make([]byte, 6<<20)}}}}},
		{limits: &responses, p: middleware.Params{N: new(2)}, want: "rejects n above 1"},
		{limits: &chat, o: llms.CallOptions{Tools: slices.Repeat([]llms.Tool{tool("look", `{}`)}, 129)}, want: "rejects more than 128 tools"},
		{limits: &chat, o: llms.CallOptions{Tools: slices.Repeat([]llms.Tool{tool("look", `{}`)}, 128)}},
		{limits: &claude, o: llms.CallOptions{Tools: []llms.Tool{tool("look", `{"properties":{"$filter":{"type":"string"}}}`)}}, want: `rejects the tool argument name "$filter"`},
		{limits: &claude, o: llms.CallOptions{Tools: []llms.Tool{tool("look", `{"properties":{"a.b":{"properties":{"$filter":{}}}}}`)}}},
		{limits: &claude, messages: file(middleware.FilePart{MIMEType: "application/vnd.ms-excel", Data: []byte("x")}), want: "rejects application/vnd.ms-excel"},
		{limits: &claude, messages: file(middleware.FilePart{MIMEType: "text/csv", Data: []byte("x")})},
		{limits: &claude, p: middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`)}}, want: "rejects answer schemas with recursive or deeply chained references"},
		{limits: &claude, p: middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"$defs":{"n":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}}}`)}}},
		{limits: &flash, p: middleware.Params{Schema: open}, o: llms.CallOptions{Tools: []llms.Tool{tool("look", `{}`)}}, want: "rejects tools combined with an answer format"},
		{limits: &flash, p: middleware.Params{Schema: open}},
		{limits: &claude, p: middleware.Params{Schema: open}, want: "rejects answer schemas whose objects allow additional properties"},
		{limits: &chat, p: middleware.Params{Schema: open}},
		{limits: &claude, p: middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"additionalProperties":{"type":"string"}},"additionalProperties":false}`)}}},
		{limits: &chat, o: llms.CallOptions{Tools: []llms.Tool{tool(long, `{}`)}}},
		{limits: new(dialect.LimitsOf(middleware.DialectGemini, "", "gemini-3")), o: llms.CallOptions{Tools: []llms.Tool{tool("a.b", `{}`)}}},
		{limits: &claude, messages: image("image/jpg")},
		{limits: &claude, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/jpeg", Data: []byte("BM")}}}}, want: "rejects image/bmp"},
		{limits: &claude, messages: image("image/heic"), want: "rejects image/heic"},
		{limits: new(dialect.LimitsOf(middleware.DialectGemini, "", "gemini-3")), messages: image("image/heic")},
		{limits: &chat, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/tiff;base64,AA=="}}}}, want: "rejects image/tiff"},
		{limits: &chat, messages: []llms.MessageContent{{Parts: []llms.ContentPart{llms.ImageURLContent{URL: "https://x/y.tiff"}}}}},
		{limits: &claude, messages: []llms.MessageContent{{Parts: []llms.ContentPart{middleware.ResultPart{Parts: []llms.ContentPart{llms.BinaryContent{MIMEType: "image/bmp", Data: []byte("x")}}}}}}, want: "rejects image/bmp"},
		{limits: &chat, messages: file(middleware.FilePart{MIMEType: "application/zip", Data: []byte("x")}), want: "rejects application/zip"},
		{limits: &responses, messages: file(middleware.FilePart{MIMEType: "application/zip", Data: []byte("x")})},
		{limits: &chat, messages: file(middleware.FilePart{MIMEType: "text/csv", Data: []byte("x")})},
		{limits: &chat, messages: file(middleware.FilePart{ID: "file_011"}), want: `does not have the file "file_011"`},
		{limits: &claude, messages: file(middleware.FilePart{ID: "file_011"})},
		{limits: &opus, o: llms.CallOptions{ToolChoice: "required"}, want: "cannot be forced to call a tool"},
		{limits: &claude, o: llms.CallOptions{ToolChoice: "required"}},
		{limits: &opus, p: middleware.Params{Extra: map[string]json.RawMessage{"tool_choice": json.RawMessage(`{"type":"allowed_tools","mode":"required","tools":[]}`)}}, want: "cannot be forced to call a tool"},
		{limits: &claude, messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, " \n")}, want: "rejects empty messages"},
		{limits: &chat, messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, " ")}},
		{limits: &opus, messages: []llms.MessageContent{{Role: llms.ChatMessageTypeAI}}, want: "rejects conversations that end with an answer"},
		{limits: &claude, messages: []llms.MessageContent{{Role: llms.ChatMessageTypeAI}}},
		{limits: &claude, messages: []llms.MessageContent{{Role: llms.ChatMessageTypeAI}}, p: middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","additionalProperties":false}`)}}, want: "rejects conversations that end with an answer"},
		{limits: &dialect.Limits{}, messages: image("image/heic"), o: llms.CallOptions{Tools: []llms.Tool{tool(long, `{}`)}}},
	} {
		if got := tt.limits.Exclude(tt.messages, &tt.o, &tt.p); got != tt.want {
			t.Errorf("%+v, %+v: %q, want %q", tt.o, tt.p, got, tt.want)
		}
	}
}

// Values beyond a limit are adapted or left out and named, and the caller's values are not
// modified.
func TestFit(t *testing.T) {
	claude, plain, opus := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-4-6"), dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-sonnet-4-5"), dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-5-5")
	codex := dialect.LimitsOf(middleware.DialectResponses, "api.openai.com", "gpt-5.1-codex-max")
	for name, tt := range map[string]struct {
		limits  *dialect.Limits
		p, want middleware.Params
		notSent []string
	}{
		"hot":            {&claude, middleware.Params{Temperature: new(1.5)}, middleware.Params{Temperature: new(1.0)}, []string{"Temperature above 1"}},
		"beyond all":     {&claude, middleware.Params{Temperature: new(7.0)}, middleware.Params{Temperature: new(7.0)}, nil},
		"short":          {&responses, middleware.Params{MaxTokens: new(1)}, middleware.Params{MaxTokens: new(16)}, nil},
		"address":        {&claude, middleware.Params{User: "joe@example.com"}, middleware.Params{User: "2481f36dfc515ca76451aaadf1399026942a01ee50c6d0a61988b43cef039bc2"}, nil},
		"telephone":      {&claude, middleware.Params{User: "+49 (30) 123456"}, middleware.Params{User: "7fcc87331848d01ac07c477474e489647f1e3e89c7b9bd0dcd2cef8c526712b9"}, nil},
		"name":           {&claude, middleware.Params{User: "user-123456789"}, middleware.Params{User: "user-123456789"}, nil},
		"key of a cache": {&responses, middleware.Params{PromptCacheKey: strings.Repeat("u", 65)}, middleware.Params{PromptCacheKey: "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"}, nil},
		"metadata":       {&chat, middleware.Params{Metadata: map[string]string{"a": "b"}, SafetyIdentifier: strings.Repeat("u", 65)}, middleware.Params{SafetyIdentifier: "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"}, []string{"Metadata"}},
		"stored":         {&chat, middleware.Params{Metadata: map[string]string{"a": "b"}, Store: new(true)}, middleware.Params{Metadata: map[string]string{"a": "b"}, Store: new(true)}, nil},
		"new sampling":   {&opus, middleware.Params{Temperature: new(0.2), TopK: new(3), ReasoningEffort: "xhigh"}, middleware.Params{ReasoningEffort: "xhigh"}, []string{"Temperature", "TopK"}},
		"effort":         {&claude, middleware.Params{ReasoningEffort: "xhigh"}, middleware.Params{ReasoningEffort: "high"}, nil},
		"no effort":      {&plain, middleware.Params{ReasoningEffort: "high"}, middleware.Params{}, []string{"ReasoningEffort"}},
		"none":           {&plain, middleware.Params{ReasoningEffort: "none"}, middleware.Params{ReasoningEffort: "none"}, nil},
		"tier":           {&claude, middleware.Params{ServiceTier: "default"}, middleware.Params{ServiceTier: "standard_only"}, nil},
		"in capitals":    {&claude, middleware.Params{ServiceTier: "PRIORITY"}, middleware.Params{}, []string{"ServiceTier"}},
		"foreign tier":   {&claude, middleware.Params{ServiceTier: "flex"}, middleware.Params{}, []string{"ServiceTier"}},
		"a tier to come": {&chat, middleware.Params{ServiceTier: "turbo"}, middleware.Params{ServiceTier: "turbo"}, nil},
		"Anthropic's":    {&chat, middleware.Params{ServiceTier: "standard_only", ReasoningEffort: "max"}, middleware.Params{ServiceTier: "default"}, []string{"ReasoningEffort"}},
		"sampling":       {&responses, middleware.Params{Temperature: new(0.2), TopP: new(0.5), ReasoningEffort: "max"}, middleware.Params{ReasoningEffort: "high"}, []string{"Temperature", "TopP"}},
		"user":           {&chat, middleware.Params{User: strings.Repeat("u", 65)}, middleware.Params{User: "f20e249d15fa4b9f44ba21d154f62e1efa76ddfdce5d25139a33a4787cee5a8b"}, nil},
		"schema":         {&claude, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"thoughts":{"type":"object"},"answer":{}}}`)}}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"type":"object","properties":{"thoughts":{"type":"object","additionalProperties":false},"answer":{}},"additionalProperties":false}`)}}, nil},
		"bounds":         {&claude, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"properties":{"minimum":{"minimum":1,"description":"a"},"b":{"minItems":1,"maxItems":3,"items":{"maxLength":4}}},"default":{"maxLength":1}}`)}}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"properties":{"minimum":{"description":"a; minimum: 1"},"b":{"minItems":1,"items":{"description":"maxLength: 4"},"description":"maxItems: 3"}},"default":{"maxLength":1},"additionalProperties":false}`)}}, nil},
		"no tools":       {&chat, middleware.Params{ParallelToolCalls: new(true)}, middleware.Params{}, nil},
		"words":          {&chat, middleware.Params{Verbosity: "low"}, middleware.Params{}, []string{"Verbosity"}},
		"a union":        {&claude, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"oneOf":[{"type":"string"}]}`)}}, middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(`{"anyOf":[{"type":"string"}]}`)}}, nil},
		"codex's words":  {&codex, middleware.Params{Verbosity: "low"}, middleware.Params{}, []string{"Verbosity"}},
	} {
		var o llms.CallOptions
		if _, notSent := tt.limits.Fit(nil, &o, &tt.p); !cmp.Equal(tt.p, tt.want) || !cmp.Equal(notSent, tt.notSent) {
			t.Errorf("%s: %s; not sent %q", name, cmp.Diff(tt.want, tt.p), notSent)
		}
	}
}

// The reasoning efforts of a model depend on its version.
func TestEffortOfVersions(t *testing.T) {
	for model, want := range map[string]string{ // of none, minimal, xhigh and max
		"o3": "low low high high", "gpt-5": "minimal minimal high high", "gpt-5-mini": "minimal minimal high high", "gpt-5-codex": "low low high high", "gpt-5.1": "none low high high",
		"gpt-5.1-codex-max": "low low xhigh xhigh", "gpt-5.2": "none low xhigh xhigh", "gpt-5.4-mini": "none low xhigh xhigh", "gpt-5.6-terra": "none low xhigh max", "gpt-4.1": "   ",
		"claude-haiku-4-5": "none   ", "claude-sonnet-4-5-20250929": "none   ", "claude-3-7-sonnet-latest": "none   ", "claude-opus-4-20250514": "none   ", "claude-opus-4-5": "none low high high",
		"claude-sonnet-4-6": "none low high max", "claude-opus-4-8": "none low xhigh max", "claude-haiku-5-5": "none low xhigh max", "llama3": "none low high max",
	} {
		l := dialect.LimitsOf(middleware.DialectResponses, "api.openai.com", model)
		switch {
		case strings.HasPrefix(model, "claude"):
			l = dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", model)
		case model == "llama3":
			l = dialect.LimitsOf(middleware.DialectOllama, "", model)
		}
		var got []string
		for _, word := range []string{"none", "minimal", "xhigh", "max"} {
			p := middleware.Params{ReasoningEffort: word}
			l.Fit(nil, &llms.CallOptions{}, &p)
			got = append(got, p.ReasoningEffort)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	l := dialect.LimitsOf(middleware.DialectChat, "api.openai.com", "gpt-5.6")
	p := middleware.Params{ReasoningEffort: "high"}
	if _, notSent := l.Fit(nil, &llms.CallOptions{Tools: []llms.Tool{tool("look", `{}`)}}, &p); p.ReasoningEffort != "none" || !cmp.Equal(notSent, []string{"ReasoningEffort"}) {
		t.Errorf("with tools: %q, not sent %q", p.ReasoningEffort, notSent)
	}
}

func TestFitOptions(t *testing.T) {
	claude := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-4-6")
	words := []string{"a", "\n", "b", "c", "d", "e"}
	o := llms.CallOptions{StopWords: words, Tools: []llms.Tool{tool("look", `{}`), tool("go", `{"type":"object"}`)}}
	given := o.Tools[0].Function
	p := middleware.Params{Dialect: middleware.DialectChat, Extra: map[string]json.RawMessage{
		"tool_choice": json.RawMessage(`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"look"}}]}}`)}}
	claude.Fit(nil, &o, &p)
	if want := []string{"a", "b", "c", "d", "e"}; !cmp.Equal(o.StopWords, want) || len(words) != 6 {
		t.Errorf("stop words %q of %q", o.StopWords, words)
	}
	if len(o.Tools) != 1 || o.ToolChoice != "required" || string(o.Tools[0].Function.Parameters.(json.RawMessage)) != `{"type":"object","properties":{}}` {
		t.Errorf("tools %+v, choice %v", o.Tools, o.ToolChoice)
	}
	for schema, want := range map[string]string{
		`{"type":["object","null"],"properties":{"a":{}}}`:                `{"type":"object","properties":{"a":{}}}`,
		`{"type":"object","properties":{"a":{}}}`:                         `{"type":"object","properties":{"a":{}}}`,
		`{"$ref":"#/$defs/a"}`:                                            `{"$ref":"#/$defs/a"}`,
		`{"type":"string"}`:                                               `{"type":"string"}`,
		`{"description":"d","anyOf":[{"properties":{"a":1}}]}`:            `{"description":"d; anyOf: [{\"properties\":{\"a\":1}}]","type":"object","properties":{"a":1}}`,
		`{"type":"object","properties":{"a":1},"not":{"required":["a"]}}`: `{"type":"object","properties":{"a":1},"description":"not: {\"required\":[\"a\"]}"}`,
		`{"type":"object","properties":{"a":1},"oneOf":[{"required":["a"]},{"properties":{"a":2,"b":3}}]}`: `{"type":"object","properties":{"a":1,"b":3},"description":"oneOf: [{\"required\":[\"a\"]},{\"properties\":{\"a\":2,\"b\":3}}]"}`,
	} {
		o := llms.CallOptions{Tools: []llms.Tool{tool("look", schema)}}
		if claude.Fit(nil, &o, &middleware.Params{}); string(o.Tools[0].Function.Parameters.(json.RawMessage)) != want {
			t.Errorf("%s becomes %s, want %s", schema, o.Tools[0].Function.Parameters, want)
		}
	}
	const optional = `{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	for schema, want := range map[string]bool{optional: false, strings.Replace(optional, `["a"]`, `["a","b"]`, 1): true} {
		strict := tool("look", schema)
		strict.Function.Strict = true
		o := llms.CallOptions{Tools: []llms.Tool{strict}}
		_, notSent := chat.Fit(nil, &o, &middleware.Params{})
		if f := o.Tools[0].Function; f.Strict != want || slices.Contains(notSent, "strict") == want || !strings.Contains(string(f.Parameters.(json.RawMessage)), `"items":{}`) || !strict.Function.Strict {
			t.Errorf("%s: strict %t, not sent %q, %s", schema, f.Strict, notSent, f.Parameters)
		}
	}
	loose := middleware.Params{Schema: &middleware.Schema{Schema: json.RawMessage(optional), Strict: new(true)}}
	if _, notSent := chat.Fit(nil, &llms.CallOptions{}, &loose); *loose.Schema.Strict || !slices.Contains(notSent, "strict") {
		t.Errorf("a strict answer with what may be absent: %+v, not sent %q", loose.Schema, notSent)
	}
	if string(given.Parameters.(json.RawMessage)) != `{}` {
		t.Errorf("the caller's tool is %s", given.Parameters)
	}
	o = llms.CallOptions{StopWords: words}
	if chat.Fit(nil, &o, &middleware.Params{}); len(o.StopWords) != 4 {
		t.Errorf("stop words %q", o.StopWords)
	}
}

// A call id that a vendor would reject is replaced, in the call and its result alike; image/jpg gets its registered name;
// and a single system message becomes the user's if one is required.
func TestFitMessages(t *testing.T) {
	claude := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-4-6")
	given := []llms.MessageContent{
		{Role: llms.ChatMessageTypeSystem, Parts: []llms.ContentPart{llms.TextContent{Text: "be brief"}}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "a:b"}, llms.ToolCall{ID: "fine"}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "a:b"}, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.BinaryContent{MIMEType: "image/jpg"}}}},
			llms.ToolCallResponse{ToolCallID: "fine"},
		}},
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/jpg;base64,AA=="}, middleware.FilePart{MIMEType: "image/jpg"},
			llms.ImageURLContent{URL: "data:image/jpeg;base64,iVBORw0KGgoAAAANSUhEUg=="}, llms.BinaryContent{MIMEType: "image/png", Data: []byte("GIF89a")}}},
	}
	const mapped = "call_6783a31eabf68ccc0660f935"
	got, _ := claude.Fit(given, &llms.CallOptions{}, &middleware.Params{})
	want := []llms.MessageContent{
		given[0], llms.TextParts(llms.ChatMessageTypeHuman, "."),
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: mapped}, llms.ToolCall{ID: "fine"}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: mapped}, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.BinaryContent{MIMEType: "image/jpeg"}}}},
			llms.ToolCallResponse{ToolCallID: "fine"},
		}},
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLContent{URL: "data:image/jpeg;base64,AA=="}, middleware.FilePart{MIMEType: "image/jpeg"},
			llms.ImageURLContent{URL: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="}, llms.BinaryContent{MIMEType: "image/gif", Data: []byte("GIF89a")}}},
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
	gemini := dialect.LimitsOf(middleware.DialectGemini, "", "gemini-3")
	if begun, _ := gemini.Fit(given[:2], &llms.CallOptions{}, &middleware.Params{}); len(begun) != 3 || begun[1].Role != llms.ChatMessageTypeHuman {
		t.Errorf("Gemini: %v", begun)
	}
	blank := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, ""), llms.TextParts(llms.ChatMessageTypeAI, "x"), llms.TextParts(llms.ChatMessageTypeHuman, "y")}
	if got, _ := claude.Fit(blank, &llms.CallOptions{}, &middleware.Params{}); len(got) != 3 || !cmp.Equal(got[0], llms.TextParts(llms.ChatMessageTypeHuman, ".")) {
		t.Errorf("an empty message first: %v", got)
	}
	if same, _ := chat.Fit(given[:1], &llms.CallOptions{}, &middleware.Params{}); same[0].Role != llms.ChatMessageTypeSystem {
		t.Errorf("OpenAI: %v", same)
	}
}

// Encrypted reasoning is not requested from a model without it, and a thinking budget does not exceed the model's
// maximum.
func TestRequestsWithinLimits(t *testing.T) {
	write := func(d middleware.Dialect, model string, p middleware.Params) string {
		t.Helper()
		if p.Dialect == "" {
			p.Dialect = d
		}
		c := &dialect.Call{Model: model, Options: &llms.CallOptions{}, Params: &p, Limits: dialect.LimitsOf(d, "api.openai.com", model), Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}}
		c.Messages, _ = c.Limits.Fit(c.Messages, c.Options, &p)
		o, err := dialect.Clients[d].Write(c)
		if err != nil {
			t.Fatal(err)
		}
		body, err := o.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	stateless := middleware.Params{Store: new(false), Extra: map[string]json.RawMessage{"include": json.RawMessage(`["reasoning.encrypted_content","message.input_image.image_url"]`)}}
	for model, want := range map[string]string{"gpt-4.1": `["message.input_image.image_url"]`, "gpt-5": string(stateless.Extra["include"])} {
		if got := write(middleware.DialectResponses, model, stateless); !strings.Contains(got, `"include":`+want) {
			t.Errorf("%s: %s", model, got)
		}
	}
	for from, want := range map[middleware.Dialect]bool{middleware.DialectChat: true, middleware.DialectAnthropic: true, middleware.DialectResponses: false} {
		if got := write(middleware.DialectResponses, "gpt-5", middleware.Params{Dialect: from}); strings.Contains(got, `"store":false`) != want {
			t.Errorf("asked by %s: %s", from, got)
		}
	}
	if got := write(middleware.DialectResponses, "gpt-4.1", middleware.Params{Store: new(false)}); strings.Contains(got, "include") {
		t.Errorf("gpt-4.1: %s", got)
	}
	for model, want := range map[string]string{"gemini-2.5-flash": `"thinkingBudget":0`, "gemini-2.5-pro": `"thinkingBudget":128`, "gemini-3-pro-preview": `"thinkingLevel":"LOW"`} {
		if got := write(middleware.DialectGemini, model, middleware.Params{ReasoningEffort: "none"}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", model, got)
		}
	}
	disabled := middleware.Params{Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"disabled"}`)}}
	for model, want := range map[string]string{"gemini-2.5-flash": `"thinkingConfig":{"thinkingBudget":0}`, "gemini-2.5-pro": `"thinkingConfig":{"thinkingBudget":128}`, "gemini-3-pro-preview": `"contents":`} {
		if got := write(middleware.DialectGemini, model, disabled); !strings.Contains(got, want) || strings.Contains(got, "thinkingLevel") {
			t.Errorf("without thinking, %s: %s", model, got)
		}
	}
	for model, want := range map[string]string{"gemini-2.5-flash": "24576", "gemini-2.5-pro": "32768"} {
		if got := write(middleware.DialectGemini, model, middleware.Params{ReasoningTokens: new(60000)}); !strings.Contains(got, `"thinkingBudget":`+want) {
			t.Errorf("%s: %s", model, got)
		}
	}
}

// If a Claude does not support adaptive thinking, the budget is a share of the maximum length of the answer, by effort,
// and the rest is left for the answer.
func TestAdaptiveThinkingBecomesABudget(t *testing.T) {
	for _, tt := range []struct {
		effort  string
		longest int
		want    string
	}{
		{"low", 32000, `"budget_tokens":2500`}, {"medium", 4000, `"budget_tokens":2000`}, {"high", 4000, `"budget_tokens":3200`}, {"", 1500, `"budget_tokens":1200`}, {"max", 32000, `"budget_tokens":10000`},
		{"low", 4000, `"type":"disabled"`}, {"medium", 1500, `"type":"disabled"`},
	} {
		p := middleware.Params{ReasoningEffort: tt.effort, MaxTokens: &tt.longest, Dialect: middleware.DialectAnthropic, Extra: map[string]json.RawMessage{"thinking": json.RawMessage(`{"type":"adaptive"}`)}}
		c := &dialect.Call{Model: "claude-haiku-4-5", Options: &llms.CallOptions{}, Params: &p, Effort: tt.effort, Limits: dialect.LimitsOf(middleware.DialectAnthropic, "", "claude-haiku-4-5")}
		c.Messages, _ = c.Limits.Fit([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}, c.Options, &p)
		o, err := dialect.Clients[middleware.DialectAnthropic].Write(c)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := o.JSON(); err != nil || !strings.Contains(string(body), tt.want) || strings.Contains(string(body), "effort") {
			t.Errorf("effort %q of %d tokens: %s, %v; want %s", tt.effort, tt.longest, body, err, tt.want)
		}
	}
}

// The parameters that thinking excludes are named in a fixed order.
func TestWhatThinkingExcludesIsNamedInOrder(t *testing.T) {
	for range 20 {
		p := middleware.Params{ReasoningTokens: new(2000), MaxTokens: new(4000), Temperature: new(0.5), TopK: new(3)}
		c := &dialect.Call{Model: "claude-sonnet-4-5", Options: &llms.CallOptions{}, Params: &p, Limits: dialect.LimitsOf(middleware.DialectAnthropic, "", "claude-sonnet-4-5")}
		c.Messages = []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}
		if _, err := dialect.Clients[middleware.DialectAnthropic].Write(c); err != nil || !slices.Equal(c.NotSent, []string{"Temperature", "TopK"}) {
			t.Fatalf("%q, %v", c.NotSent, err)
		}
	}
}

// Consecutive messages of one role are joined without copying the joined text each time.
func TestManyMessagesOfOneRoleAreJoinedAtOnce(t *testing.T) {
	const n, text = 4000, "a few words of an agent that talks to itself"
	limits := dialect.Limits{SystemFirst: true, OneSystem: true}
	messages := slices.Repeat([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, text)}, n)
	messages = append(messages, slices.Repeat([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}, n)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fitting, _ := limits.Fit(messages, &llms.CallOptions{}, &middleware.Params{})
	runtime.ReadMemStats(&after)
	if len(fitting) != 2 || fitting[1].Parts[0].(llms.TextContent).Text != strings.TrimSuffix(strings.Repeat(text+"\n\n", n), "\n\n") {
		t.Fatalf("%d messages", len(fitting))
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 50<<20 {
		t.Errorf("%d MiB were allocated for %d bytes", bytes>>20, 2*n*len(text))
	}
}

// OpenAI itself accepts a choice among some of the tools, and caches all of them.
func TestAllowedToolsStayAmongAll(t *testing.T) {
	for _, tt := range []struct {
		api, client middleware.Dialect
		host        string
		want        int
	}{
		{middleware.DialectChat, middleware.DialectChat, "api.openai.com", 2}, {middleware.DialectResponses, middleware.DialectResponses, "api.openai.com", 2},
		{middleware.DialectResponses, middleware.DialectChat, "api.openai.com", 1}, {middleware.DialectChat, middleware.DialectChat, "localhost", 1},
	} {
		o := llms.CallOptions{Tools: []llms.Tool{tool("look", `{}`), tool("go", `{}`)}}
		p := middleware.Params{Dialect: tt.client, Extra: map[string]json.RawMessage{"tool_choice": json.RawMessage(`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"look"}]}`)}}
		l := dialect.LimitsOf(tt.api, tt.host, "gpt-5")
		if l.Fit(nil, &o, &p); len(o.Tools) != tt.want {
			t.Errorf("%s at %s has %d tools of a client of %s", tt.api, tt.host, len(o.Tools), tt.client)
		}
	}
}

// A thinking budget that is lowered or not sent is named; one that is sent is not.
func TestBudgetsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		d         middleware.Dialect
		model     string
		budget    int
		want      string
		isNotSent string
	}{
		{middleware.DialectAnthropic, "claude-sonnet-4-5", 5000, `"budget_tokens":3999`, "ReasoningTokens above 3999"},
		{middleware.DialectAnthropic, "claude-sonnet-4-5", 2000, `"budget_tokens":2000`, ""},
		{middleware.DialectAnthropic, "claude-opus-4-8", 2000, `"type":"adaptive"`, "ReasoningTokens"},
		{middleware.DialectGemini, "gemini-2.5-flash", 60000, `"thinkingBudget":24576`, "ReasoningTokens above 24576"},
		{middleware.DialectGemini, "gemini-2.5-flash", 2000, `"thinkingBudget":2000`, ""},
		{middleware.DialectChat, "gpt-5", 2000, `"model":"gpt-5"`, "ReasoningTokens"},
	} {
		for _, client := range []middleware.Dialect{middleware.DialectAnthropic, ""} { // "" is a program
			p := middleware.Params{ReasoningTokens: &tt.budget, MaxTokens: new(4000), Dialect: client}
			if client != "" {
				p.Extra = map[string]json.RawMessage{"thinking": fmt.Appendf(nil, `{"type":"enabled","budget_tokens":%d}`, tt.budget)}
			}
			c := &dialect.Call{Model: tt.model, Options: &llms.CallOptions{}, Params: &p, Limits: dialect.LimitsOf(tt.d, "", tt.model), Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")}}
			o, err := dialect.Clients[tt.d].Write(c)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := o.JSON(); err != nil || !strings.Contains(string(body), tt.want) || strings.Join(c.NotSent, ", ") != tt.isNotSent {
				t.Errorf("%s by %q: %s, %v; not sent %q, want %s and %q", tt.model, client, body, err, c.NotSent, tt.want, tt.isNotSent)
			}
		}
	}
}

// A definition is visited once, however often and on however many paths it is referred to.
func TestAttackSharedDefinitions(t *testing.T) {
	claude := dialect.LimitsOf(middleware.DialectAnthropic, "api.anthropic.com", "claude-opus-4-6")
	for want, last := range map[string]string{
		"": `{"type":"string"}`,
		"rejects answer schemas with recursive or deeply chained references": `{"$ref":"#/$defs/d20"}`,
	} {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, `"d%[1]d":{"allOf":[{"$ref":"#/$defs/d%[2]d"}],"properties":{"a":{"$ref":"#/$defs/d%[2]d"},"b":{"$ref":"#/$defs/d%[2]d"}}},`, i, i+1)
		}
		schema := json.RawMessage(`{"$defs":{` + b.String() + `"d60":` + last + `},"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}}}`)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		go func() {
			defer cancel()
			if got := claude.Exclude(nil, &llms.CallOptions{}, &middleware.Params{Schema: &middleware.Schema{Schema: schema}}); got != want {
				t.Errorf("excluded %q, want %q", got, want)
			}
		}()
		if <-ctx.Done(); ctx.Err() == context.DeadlineExceeded {
			t.Fatal("a schema of 60 definitions takes more than ten seconds")
		}
	}
}

// System messages within a conversation remain system messages if the API accepts them. Elsewhere, and for other
// models, they become the user's, which is reported.
func TestSystemWithin(t *testing.T) {
	for _, tt := range []struct{ host, model, roles, want string }{
		{"api.anthropic.com", "claude-opus-4-8", "system user system", "user system"},
		{"api.anthropic.com", "claude-opus-5", "user system system ai user system ai user", "user system assistant user system assistant user"},
		{"api.anthropic.com", "claude-haiku-5-5", "user ai tool system", "user assistant user system"},
		{"api.anthropic.com", "claude-opus-4-8", "user system user", "user"},
		{"api.anthropic.com", "claude-opus-4-8", "user ai system user", "user assistant user"},
		{"api.anthropic.com", "claude-opus-4-7", "user system", "user"},
		{"api.anthropic.com", "claude-sonnet-5", "user system", "user"},
		{"bedrock", "claude-opus-4-8", "user system", "user"},
	} {
		var given []llms.MessageContent
		for role := range strings.FieldsSeq(tt.roles) {
			m := llms.TextParts(llms.ChatMessageType(role), "hi")
			if role == "tool" {
				m.Parts = []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "c"}}
			}
			given = append(given, m)
		}
		c := &dialect.Call{Model: tt.model, Options: &llms.CallOptions{}, Params: &middleware.Params{}, Limits: dialect.LimitsOf(middleware.DialectAnthropic, tt.host, tt.model)}
		c.Messages, c.NotSent = c.Limits.Fit(given, c.Options, c.Params)
		o, err := dialect.Clients[middleware.DialectAnthropic].Write(c)
		if err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, m := range o["messages"].([]dialect.Object) {
			roles = append(roles, m["role"].(string))
		}
		isWithin := strings.Contains(strings.TrimPrefix(tt.roles, "system"), "system")
		if got := strings.Join(roles, " "); got != tt.want || (len(c.NotSent) == 0) != (!isWithin || strings.Contains(tt.want, "system")) {
			t.Errorf("%s at %s, %s: %s, not sent %q; want %s", tt.model, tt.host, tt.roles, got, c.NotSent, tt.want)
		}
	}
}

// Ollama accepts neither booleans as schemas of properties nor a list of types at the top level.
func TestBooleanSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":true,"b":{"properties":{"c":true}},"d":false,"e":{"items":true}},"additionalProperties":false}`: `{"type":"object","properties":{"a":{},"b":{"properties":{"c":{}}},"e":{}},"additionalProperties":false}`,
		`{"type":["object","null"]}`: `{"type":"object","properties":{}}`,
	} {
		o := llms.CallOptions{Tools: []llms.Tool{tool("look", schema)}}
		l := dialect.LimitsOf(middleware.DialectOllama, "", "llama3")
		if l.Fit(nil, &o, &middleware.Params{}); string(o.Tools[0].Function.Parameters.(json.RawMessage)) != want {
			t.Errorf("%s becomes %s, want %s", schema, o.Tools[0].Function.Parameters, want)
		}
	}
}

// A description that is too long is truncated, and its full text is sent in a system message.
func TestLongDescriptions(t *testing.T) {
	long := tool("look", `{}`)
	long.Function.Description = strings.Repeat("ä", 1025)
	o := llms.CallOptions{Tools: []llms.Tool{tool("go", `{}`), long}}
	given := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, "be brief"), llms.TextParts(llms.ChatMessageTypeHuman, "hi")}
	got, notSent := chat.Fit(given, &o, &middleware.Params{})
	want := []llms.MessageContent{given[0], llms.TextParts(llms.ChatMessageTypeSystem, "The tool look:\n"+long.Function.Description), given[1]}
	if diff := cmp.Diff(want, got); diff != "" || notSent != nil {
		t.Errorf("not sent %q, %s", notSent, diff)
	}
	if short := o.Tools[1].Function.Description; utf8.RuneCountInString(short) != 1024 || len(long.Function.Description) != 2050 {
		t.Errorf("description %q of %q", short, long.Function.Description)
	}
	o.Tools = []llms.Tool{long}
	if got, _ := responses.Fit(given, &o, &middleware.Params{}); len(got) != 2 || o.Tools[0].Function.Description != long.Function.Description {
		t.Errorf("Responses: %v", got)
	}
}

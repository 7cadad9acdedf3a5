package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// worst is a ledger that records reservations and rejects none.
type worst struct {
	usd []float64
	run string
}

func (w *worst) Reserve(_ context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	w.usd, w.run = append(w.usd, usd), q.Run
	return w, nil
}

func (w *worst) Settle(context.Context, float64) error { return nil }

// seen is what a step derives from a request: the query, the answer passed to checks, and the worst case of the first
// call.
type seen struct {
	query  sdk.Query
	answer sdk.Answer
	usd    float64
	resp   *llms.ContentResponse
	err    error
}

// look sends a request to one model and returns what the step derived from it.
func look(t *testing.T, c middleware.Candidate, messages []llms.MessageContent, options ...llms.CallOption) (s seen) {
	t.Helper()
	w := &worst{}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{c}, Step: step.Config{Ledger: w, Checks: []step.Check{{Name: "eye", Fault: func(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
		s.query, s.answer = *q, *a
		return ""
	}}}}})
	s.resp, s.err = m.GenerateContent(t.Context(), messages, options...)
	if len(w.usd) > 0 {
		s.usd = w.usd[0]
	}
	return s
}

// bytes returns the reserved length of the prompt: short prompts are reserved at a third of their length plus the
// servers' overhead.
func (s *seen) bytes() float64 {
	added := 2000.0
	if len(s.query.Tools) > 0 {
		added += 1000
	}
	return math.Round(3 * (s.usd - added))
}

// perByte prices the prompt at one dollar per byte, so that the worst case in USD is its length.
func perByte(c middleware.Candidate) middleware.Candidate {
	c.Model.Price = sdk.Price{Input: 1e6}
	return c
}

func said(role llms.ChatMessageType, parts ...llms.ContentPart) llms.MessageContent {
	return llms.MessageContent{Role: role, Parts: parts}
}

// The length of a prompt covers all its content, with 16 bytes for each message and part; an image counts as a
// thousand tokens, and as ten thousand in the worst case.
func TestTheLengthOfAPrompt(t *testing.T) {
	image := llms.ImageURLContent{URL: "https://example.com/a.png"}
	for what, c := range map[string]struct {
		messages               []llms.MessageContent
		bytes, images, unknown int
	}{
		"text":                        {human("hello"), 32 + 5, 0, 0},
		"two messages":                {append(human("hello"), human("you")...), 32 + 5 + 32 + 3, 0, 0},
		"an image":                    {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, image)}, 32, 1, 0},
		"image and text":              {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "what?"}, image, image)}, 16 + 3*16 + 5, 2, 0},
		"bytes":                       {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, llms.BinaryContent{MIMEType: "image/png", Data: make([]byte, 400)})}, 32, 1, 0},
		"a file":                      {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.FilePart{MIMEType: "text/csv", Data: make([]byte, 40)})}, 32 + 40, 1, 1},
		"cached text":                 {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, llms.CachedContent{ContentPart: llms.TextContent{Text: "hello"}})}, 32 + 5, 0, 0},
		"raw, text longer":            {[]llms.MessageContent{said(llms.ChatMessageTypeAI, middleware.RawPart{TextContent: llms.TextContent{Text: "abcdef"}, Raw: []byte(`{}`)})}, 32 + 6, 0, 0},
		"raw, raw longer":             {[]llms.MessageContent{said(llms.ChatMessageTypeAI, middleware.RawPart{TextContent: llms.TextContent{Text: "ab"}, Raw: []byte(`{"a":1}`)})}, 32 + 7, 0, 0},
		"a cited document, elsewhere": {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"document","Type":"a_result"}`), Instead: middleware.FilePart{URL: "https://example.com"}})}, 32 + 37, 0, 1},
		"what is not known":           {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"container_upload"}`)})}, 32 + 27, 0, 1},
		"a file of a custom tool":     {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"custom_tool_call_output","output":[{"type":"input_file"},{"type":"input_text"}]}`), Instead: middleware.ResultPart{}})}, 32 + 89, 0, 1},
		"a fetched document":          {[]llms.MessageContent{said(llms.ChatMessageTypeAI, middleware.RawPart{Raw: []byte(`{"type":"web_fetch_tool_result","content":{"type":"web_fetch_result","content":{"type":"document"}}}`)})}, 32 + 100, 0, 1},
		"a text that is a file":       {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"function_call_output","output":[{"type":"input_text","file_id":"f"}]}`)})}, 32 + 78, 0, 1},
		"a screenshot, elsewhere":     {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"computer_call_output","output":{"type":"computer_screenshot"}}`)})}, 32 + 71, 0, 1},
		"what a tool's answer has":    {[]llms.MessageContent{said(llms.ChatMessageTypeTool, middleware.ResultPart{Parts: []llms.ContentPart{middleware.RawPart{Raw: []byte(`{"type":"novel"}`)}}})}, 32 + 16, 0, 1},
		"a member that may be a file": {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"members_of_message":{"audio":{"id":"a"},"prefix":true,"name":"x"}}`)})}, 32 + 68, 0, 1},
		"a picture, in escapes":       {[]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.RawPart{Raw: []byte(`{"type":"a_result","c":"\u0069mage"}`)})}, 32 + 36, 1, 0},
		"a tool's answer":             {[]llms.MessageContent{said(llms.ChatMessageTypeTool, llms.ToolCallResponse{ToolCallID: "1", Name: "f", Content: "fine"})}, 32 + 4, 0, 0},
		"a tool's pictures": {[]llms.MessageContent{said(llms.ChatMessageTypeTool, middleware.ResultPart{
			ToolCallResponse: llms.ToolCallResponse{ToolCallID: "1", Content: "abc"}, // of the parts
			Parts:            []llms.ContentPart{llms.TextContent{Text: "abc"}, image, llms.BinaryContent{MIMEType: "image/png"}, middleware.FilePart{MIMEType: "video/mp4"}},
		})}, 32 + 3, 3, 1},
		"a tool's call": {[]llms.MessageContent{said(llms.ChatMessageTypeAI, llms.ToolCall{ID: "1", FunctionCall: &llms.FunctionCall{Name: "find", Arguments: `{"q":1}`}})}, 32 + 4 + 7, 0, 0},
		"an empty call": {[]llms.MessageContent{said(llms.ChatMessageTypeAI, llms.ToolCall{ID: "1"})}, 32, 0, 0},
	} {
		got := look(t, perByte(small(says("fine"))), c.messages)
		if got.err != nil {
			t.Fatal(what, got.err)
		}
		if want := (c.bytes+3)/4 + 1000*c.images; got.query.InputTokens != want {
			t.Errorf("%s: %d tokens, want %d", what, got.query.InputTokens, want)
		}
		if want := float64(c.bytes)/3 + 2000 + float64(10_000*c.images+200_000*c.unknown); math.Abs(got.usd-want) > 1e-9 {
			t.Errorf("%s: at most %v tokens, want %v", what, got.usd, want)
		}
		if n, has := got.query.Features["images"]; n != float64(c.images) || has != (c.images > 0) {
			t.Errorf("%s: %v images, want %d", what, n, c.images)
		}
	}
}

// A document is expected to have as many tokens as an image, whatever its size, but can have one token per byte and
// fill a context.
func TestDocumentsAreNotCountedByTheirBytes(t *testing.T) {
	pdf := middleware.FilePart{MIMEType: "application/pdf", Data: make([]byte, 3_000)}
	for what, part := range map[string]llms.ContentPart{"plain": pdf, "cited": middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: []byte(`{"type":"document","source":{"data":"` + strings.Repeat("A", 3_000) + `"}}`), Instead: pdf}} {
		got := look(t, perByte(small(says("fine"))), []llms.MessageContent{said(llms.ChatMessageTypeHuman, part)})
		if got.err != nil || got.query.InputTokens > 1_100 || got.usd < 200_000+3_000/3 {
			t.Errorf("%s: %d tokens, at most %v: %v", what, got.query.InputTokens, got.usd, got.err)
		}
	}
}

// Tools and schemas are sent with the prompt and count as part of it.
func TestToolsAndSchemasCountInThePrompt(t *testing.T) {
	plain := look(t, perByte(small(says("fine"))), human("hello"))
	tool := llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: "find", Description: "finds it", Parameters: map[string]any{"type": "object"}}}
	with := look(t, perByte(small(says("fine"))), human("hello"), llms.WithTools([]llms.Tool{tool, {Type: "function"}}))
	if want := plain.bytes() + 16 + 4 + 8 + float64(len(`{"type":"object"}`)); with.bytes() != want {
		t.Errorf("with a tool at most %v bytes, want %v", with.bytes(), want)
	}
	if len(with.query.Tools) != 1 || string(with.query.Tools[0].Parameters) != `{"type":"object"}` {
		t.Errorf("tools %+v", with.query.Tools)
	}
	for what, parameters := range map[string]any{"none": nil, "no JSON": make(chan int)} {
		tool.Function.Parameters = parameters
		got := look(t, small(says("fine")), human("hello"), llms.WithTools([]llms.Tool{tool}))
		if got.err != nil || len(got.query.Tools) != 1 || got.query.Tools[0].Parameters != nil {
			t.Errorf("parameters %s: %+v, %v", what, got.query.Tools, got.err)
		}
	}
	// A model without schemas gets the schema as text, which is then counted.
	teller := keeps(text(`{}`))
	schema := look(t, perByte(small(teller)), human("hello"), middleware.WithParams(middleware.Params{Schema: &middleware.Schema{Name: "s", Schema: []byte(`{"type":"object"}`)}}))
	told := teller.messages[0].Parts[0].(llms.TextContent).Text
	if !strings.HasSuffix(told, `{"type":"object"}`) || schema.bytes() != plain.bytes()+float64(len(told)) {
		t.Errorf("told %q; at most %v bytes, want %v more than %v", told, schema.bytes(), len(told), plain.bytes())
	}
}

// Several answers pay for their prompt once, and the possible cost of a prediction is added for each
// of them.
func TestTheWorstCaseOfSeveralAnswers(t *testing.T) {
	c := small(says("fine"))
	c.Model.Price, c.Model.MaxOutputTokens = sdk.Price{Input: 1, Output: 10}, 100
	prompt := (37.0/3 + 2000) * 1 / 1e6 // 37 bytes, and what servers add
	answer := 100 * 10 / 1e6
	prediction := []byte(`{"type":"content","content":"abc"}`)
	predicted := float64(len(prediction)) * 10 / 1e6
	n := func(n int) llms.CallOption { return llms.WithN(n) }
	for what, tt := range map[string]struct {
		options []llms.CallOption
		want    float64
	}{
		"one":              {nil, prompt + answer},
		"one, said":        {[]llms.CallOption{n(1)}, prompt + answer},
		"three":            {[]llms.CallOption{n(3)}, prompt + 3*answer},
		"three candidates": {[]llms.CallOption{llms.WithCandidateCount(3)}, prompt + 3*answer},
		"predicted":        {[]llms.CallOption{middleware.WithParams(middleware.Params{Prediction: prediction})}, prompt + answer + predicted},
		"three, predicted": {[]llms.CallOption{middleware.WithParams(middleware.Params{Prediction: prediction}), n(3)}, prompt + 3*answer + 3*predicted},
		"three, shorter":   {[]llms.CallOption{n(3), llms.WithMaxTokens(40)}, prompt + 3*40*10/1e6},
	} {
		if got := look(t, c, human("hello"), tt.options...); got.err != nil || math.Abs(got.usd-tt.want) > 1e-15 {
			t.Errorf("%s: at most %v USD, want %v; %v", what, got.usd, tt.want, got.err)
		}
	}
}

// Reservations include hosted tools, service tiers and cache writes kept for an hour.
func TestTheWorstCaseOfWhatProvidersAdd(t *testing.T) {
	c := small(says("fine"))
	c.Model.Price, c.Model.MaxOutputTokens, c.Model.ContextTokens = sdk.Price{Input: 1, CacheWrite: 1.25, Output: 10}, 100, 50_000
	const prompt, answer, context = (37.0/3 + 2000) * 1.25 / 1e6, 100 * 10 / 1e6, 50_000 * 1.25 / 1e6
	const fee = 0.035 // of a search, where the price says none
	raw := func(tools ...string) middleware.Params {
		var p middleware.Params
		for _, tool := range tools {
			p.RawTools = append(p.RawTools, json.RawMessage(tool))
		}
		return p
	}
	extra := func(name, value string) middleware.Params {
		return middleware.Params{Extra: map[string]json.RawMessage{name: json.RawMessage(value)}, Dialect: middleware.DialectAnthropic}
	}
	bytes := func(n int) float64 { return float64(n) / 3 * 1.25 / 1e6 }
	for what, tt := range map[string]struct {
		params middleware.Params
		want   float64
	}{
		"a search":               {raw(`{"type":"web_search_20250305"}`), bytes(30) + prompt + answer + 20*context + 20*fee},
		"five searches":          {raw(`{"type":"web_search","max_uses":5}`), bytes(34) + prompt + answer + 6*context + 5*fee},
		"bounded altogether":     {middleware.Params{RawTools: []json.RawMessage{[]byte(`{"type":"mcp"}`)}, Extra: map[string]json.RawMessage{"max_tool_calls": []byte("2")}, Dialect: middleware.DialectResponses}, bytes(15) + prompt + answer + 3*context + 2*fee},
		"uses beyond counting":   {raw(`{"type":"web_search","max_uses":9223372036854775807}`, `{"type":"web_fetch","max_uses":9223372036854775807}`), bytes(52+51) + prompt + answer + 20*context + 2e6*fee},
		"uses in other forms":    {raw(`{"type":"web_search","max_uses":1e2}`, `{"type":"web_fetch","max_uses":"30"}`), bytes(36+36) + prompt + answer + 20*context + 130*fee},
		"no hosted tool":         {raw(`{"type":"custom"}`), bytes(17+3*1000) + prompt + answer},
		"MCP servers":            {extra("mcp_servers", `[{}]`), bytes(4) + prompt + answer + 20*context + 20*fee},
		"a tool of a namespace":  {raw(`{"type":"namespace","tools":[{"type":"web_search"}]}`), bytes(52+3*1000) + prompt + answer + 20*context + 20*fee},
		"compacted, in capitals": {extra("context_management", `{"edits":[{"type":"COMPACT_20260112"}]}`), bytes(39) + prompt + answer + context + 20_000*10/1e6},
		"a compacted context":    {extra("context_management", `{"edits":[{"type":"compact_20260112"}]}`), bytes(39) + prompt + answer + context + 20_000*10/1e6},
		"a stored prompt":        {middleware.Params{Extra: map[string]json.RawMessage{"cachedContent": []byte(`"c/1"`)}, Dialect: middleware.DialectGemini}, bytes(5) + prompt + answer + context},
		"priority":               {middleware.Params{ServiceTier: "priority"}, 2.5 * (prompt + answer)},
		"flex":                   {middleware.Params{ServiceTier: "flex"}, prompt + answer},
		"fast, in one country":   {middleware.Params{Extra: map[string]json.RawMessage{"speed": []byte(`"fast"`), "inference_geo": []byte(`"us"`)}, Dialect: middleware.DialectAnthropic}, 6.6 * (bytes(10) + prompt + answer)},
		"in any country":         {extra("inference_geo", `"global"`), (bytes(8) + prompt + answer) / 1.1},
		"kept for an hour":       {extra("cache_control", `{"type":"ephemeral","ttl":"1h"}`), 1.6*(bytes(31)+prompt) + answer},
		"in other letters":       {extra("MAX_TO\u212aENS", `9`), prompt + answer},
		"an hour, in escapes":    {extra("cache_control", `{"type":"ephemeral","ttl":"\u0031h"}`), 1.6*(bytes(36)+prompt) + answer},
		"another model":          {extra("models", `["dear/one"]`), prompt + answer},
		"one of a contract":      {middleware.Params{ServiceTier: "priority", Dialect: middleware.DialectAnthropic}, prompt + answer},
		"one without tiers":      {middleware.Params{ServiceTier: "priority", Dialect: middleware.DialectOllama}, prompt + answer},
		"the fastest tier":       {middleware.Params{ServiceTier: "ultrafast"}, 6 * (prompt + answer)},
		"an unknown tier":        {middleware.Params{ServiceTier: "warp"}, prompt + answer}, // it is not sent
		"two tiers":              {middleware.Params{ServiceTier: "default", Extra: map[string]json.RawMessage{"serviceTier": []byte(`"PRIORITY"`)}, Dialect: middleware.DialectGemini}, 2.5 * (bytes(10) + prompt + answer)},
	} {
		if tt.params.Dialect == middleware.DialectAnthropic && what != "fast, in one country" {
			tt.want *= 1.1 // a workspace may run its requests in one country
		}
		c.LLM = &modelOf{nativeModel{resp: text("fine")}, tt.params.Dialect}
		if got := look(t, c, human("hello"), middleware.WithParams(tt.params)); got.usd == 0 || math.Abs(got.usd-tt.want) > 1e-9 {
			t.Errorf("%s: at most %v USD, want %v; %v", what, got.usd, tt.want, got.err)
		}
	}
	found := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(`{"type":"tool_search_output","tools":[{"type":"web_search"},{"type":"image_generation"}]}`)}
	c.LLM = &modelOf{nativeModel{resp: text("fine")}, middleware.DialectResponses}
	if got := look(t, c, []llms.MessageContent{said(llms.ChatMessageTypeHuman, found)}).usd; got < 20*context+20*fee {
		t.Errorf("tools that a search found: at most %v USD, want more than %v", got, 20*context+20*fee)
	}
	marked := func(mark string) float64 {
		raw := middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"members_of_part":{"cache_control":{"type":"ephemeral",` + mark + `:"1h"}}}`)}
		return look(t, c, []llms.MessageContent{said(llms.ChatMessageTypeHuman, raw)}).usd
	}
	if small, capital := marked(`"ttl"`), marked(`"TTL"`); small != capital || small == 0 {
		t.Errorf("kept for an hour, in capitals: at most %v USD, want %v", capital, small)
	}
	hour := llms.CachedContent{ContentPart: llms.TextContent{Text: "hello"}, CacheControl: &llms.CacheControl{Type: "ephemeral", Duration: time.Hour}}
	if got := look(t, c, []llms.MessageContent{said(llms.ChatMessageTypeHuman, hour)}); math.Abs(got.usd-(1.6*prompt+answer)) > 1e-12 {
		t.Errorf("a part kept for an hour: at most %v USD, want %v", got.usd, 1.6*prompt+answer)
	}
}

// The features of a query count turns, tools, tool errors and repeated calls.
func TestFeaturesOfAConversation(t *testing.T) {
	call := func(id, arguments string) llms.MessageContent {
		return said(llms.ChatMessageTypeAI, llms.ToolCall{ID: id, FunctionCall: &llms.FunctionCall{Name: "find", Arguments: arguments}})
	}
	answer := func(id, content string) llms.MessageContent {
		return said(llms.ChatMessageTypeTool, llms.ToolCallResponse{ToolCallID: id, Name: "find", Content: content})
	}
	messages := append(human("hello"),
		call("1", "a"), answer("1", "Error: no such thing"),
		call("2", "a"), answer("2", "failed again"),
		call("3", "b"), answer("3", "here it is"),
		call("4", "a"),
	)
	for what, c := range map[string]struct {
		messages []llms.MessageContent
		want     map[string]float64
	}{
		"whole":                  {messages, map[string]float64{"turn": 4, "tools": 0, "messages": 8, "tool_errors": 2, "last_tool_error": 0, "repeated_calls": 2}},
		"after the second error": {messages[:5], map[string]float64{"turn": 2, "tools": 0, "messages": 5, "tool_errors": 2, "last_tool_error": 1, "repeated_calls": 1}},
		"no tools":               {append(human("hello"), said(llms.ChatMessageTypeAI, llms.TextContent{Text: "yes?"})), map[string]float64{"turn": 1, "tools": 0, "messages": 2, "tool_errors": 0, "last_tool_error": 0, "repeated_calls": 0}},
	} {
		got := look(t, small(says("fine")), c.messages)
		for name, want := range c.want {
			if v, has := got.query.Features[name]; v != want || !has {
				t.Errorf("%s: %s is %v, want %v", what, name, v, want)
			}
		}
	}
	got := look(t, small(says("fine")), messages).query.Messages
	if c := got[1].Parts[0].ToolCall; c == nil || c.ID != "1" || c.Name != "find" || c.Arguments != "a" {
		t.Errorf("the call is %+v", c)
	}
	raw := look(t, small(says("fine")), []llms.MessageContent{said(llms.ChatMessageTypeAI, middleware.RawPart{Raw: []byte(`{}`)}, middleware.RawPart{TextContent: llms.TextContent{Text: "said"}})}).query.Messages
	if len(raw[0].Parts) != 1 || raw[0].Parts[0].Text != "said" {
		t.Errorf("what has no text is a part: %+v", raw[0].Parts)
	}
}

// A text agent is recognized by its stop word and its instructions, wherever they stand among
// others.
func TestTextAgentsAreKnown(t *testing.T) {
	const mrkl = "Final Answer: the final answer to the original input question"
	for what, c := range map[string]struct {
		prompt string
		stop   []string
		want   string
	}{
		"mrkl":               {mrkl, []string{"\nObservation:", "\n\tObservation:"}, "mrkl"},
		"second stop word":   {mrkl, []string{"\n\tObservation:", "\nObservation:"}, "mrkl"},
		"other stop words":   {mrkl, []string{"END"}, ""},
		"no stop words":      {mrkl, nil, ""},
		"no instructions":    {"hello", []string{"\nObservation:"}, ""},
		"at the far end":     {strings.Repeat("x", 20_000) + mrkl, []string{"\nObservation:"}, "mrkl"},
		"lost in the middle": {strings.Repeat("x", 20_000) + mrkl + strings.Repeat("x", 20_000), []string{"\nObservation:"}, ""},
	} {
		got := look(t, small(says("fine")), human(c.prompt), llms.WithStopWords(c.stop))
		if got.query.Labels["stepfall.protocol"] != c.want {
			t.Errorf("%s: %q, want %q", what, got.query.Labels["stepfall.protocol"], c.want)
		}
	}
}

// If a client reports no usage, a token is estimated as four bytes of text or reasoning.
func TestUncountedAnswersAreEstimated(t *testing.T) {
	choice := &llms.ContentChoice{Content: "four", ReasoningContent: "because", StopReason: "stop", ToolCalls: []llms.ToolCall{
		{ID: "1", FunctionCall: &llms.FunctionCall{Name: "find", Arguments: `{"q":"it"}`}}, {ID: "2"}}}
	got := look(t, small(keeps(&llms.ContentResponse{Choices: []*llms.ContentChoice{choice}})), human("hello"))
	// 4 + 7 + 4 + 10 = 25 bytes are 7 tokens, and 37 bytes of the prompt 10.
	if want := (sdk.Usage{InputTokens: 10, OutputTokens: 7, Estimated: true}); got.answer.Usage != want {
		t.Errorf("usage %+v, want %+v", got.answer.Usage, want)
	}
	if len(got.answer.ToolCalls) != 1 || got.answer.ToolCalls[0].Name != "find" {
		t.Errorf("tool calls %+v", got.answer.ToolCalls)
	}
	choice.FuncCall = &llms.FunctionCall{Name: "old", Arguments: "{}"}
	if got := look(t, small(keeps(&llms.ContentResponse{Choices: []*llms.ContentChoice{choice}})), human("hello")).answer.ToolCalls; len(got) != 1 || got[0].Name != "find" {
		t.Errorf("with a function call as well: %+v", got)
	}
	choice.ToolCalls = nil
	if got := look(t, small(keeps(&llms.ContentResponse{Choices: []*llms.ContentChoice{choice}})), human("hello")).answer.ToolCalls; len(got) != 1 || got[0].Name != "old" {
		t.Errorf("with a function call only: %+v", got)
	}
}

// The response counts the whole step: cached tokens as part of the prompt, reasoning as part of the
// answer.
func TestTheResponseCountsTheStep(t *testing.T) {
	counted := func(content string) *fake {
		return keepsFake(content, map[string]any{"InputTokens": 10, "CacheReadInputTokens": 20, "CacheCreationInputTokens": 200, "OutputTokens": 70, "ThinkingTokens": 40})
	}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(counted("")), large(counted("fine"))}})
	resp, err := m.GenerateContent(t.Context(), human("hello"))
	if err != nil {
		t.Fatal(err)
	}
	info := resp.Choices[0].GenerationInfo
	if info["stepfall.calls"] != 2 || info["stepfall.input_tokens"] != 2*230 || info["stepfall.output_tokens"] != 2*70 {
		t.Errorf("%v calls, %v tokens in, %v out", info["stepfall.calls"], info["stepfall.input_tokens"], info["stepfall.output_tokens"])
	}
}

func keepsFake(content string, info map[string]any) *fake {
	return &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: content, StopReason: "stop", GenerationInfo: info}}}, nil
	}}
}

// An answer ends at the first stop word, even if that is its beginning.
func TestAnswersEndAtTheFirstStopWord(t *testing.T) {
	for content, want := range map[string]string{"one STOP two END": "one ", "one END two STOP": "one ", "STOP one": "", "one": "one"} {
		got := look(t, small(says(content)), human("hello"), llms.WithStopWords([]string{"", "STOP", "END"}))
		if got.answer.Text != want {
			t.Errorf("%q ends as %q, want %q", content, got.answer.Text, want)
		}
	}
}

// Content blocks form one answer unless several were requested. A stop reason or a function in any of them
// counts.
func TestBlocksAreOneAnswerUnlessSeveralAreWanted(t *testing.T) {
	blocks := func() *llms.ContentResponse {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{
			{Content: "a", StopReason: "end_turn", FuncCall: &llms.FunctionCall{Name: "first"}}, {Content: "b", FuncCall: &llms.FunctionCall{Name: "second"}}, {Content: "c"}}}
	}
	for _, c := range []struct {
		provider string
		options  []llms.CallOption
		want     string
	}{
		{"openai", nil, "abc"}, {"openai", []llms.CallOption{llms.WithN(1)}, "abc"}, {"openai", []llms.CallOption{llms.WithN(3)}, "a"},
		{"openai", []llms.CallOption{llms.WithCandidateCount(2)}, "a"}, {"anthropic", []llms.CallOption{llms.WithN(3)}, "abc"},
	} {
		got := look(t, as(small(keeps(blocks())), c.provider), human("hello"), c.options...)
		if got.answer.Text != c.want || got.answer.StopReason != "end_turn" || got.answer.ToolCalls[0].Name != "first" {
			t.Errorf("%s: %q, ended %q, calls %+v; want %q", c.provider, got.answer.Text, got.answer.StopReason, got.answer.ToolCalls, c.want)
		}
	}
}

// A refusal is the text of an answer if there is no other text, and checks recognize it.
func TestARefusalIsTheAnswer(t *testing.T) {
	refuses := func(content, refusal string) *fake {
		return keepsFake(content, map[string]any{middleware.KeyExtra: &middleware.Extra{Refusal: refusal, Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}}})
	}
	for _, c := range []struct{ content, refusal, text, stop string }{
		{"", "No.", "No.", "refusal"}, {"Yes.", "No.", "Yes.", "stop"}, {"Yes.", "", "Yes.", "stop"}, {"", "", "", "stop"},
	} {
		if got := look(t, small(refuses(c.content, c.refusal)), human("hello")).answer; got.Text != c.text || got.StopReason != c.stop {
			t.Errorf("%+v: %q, %q", c, got.Text, got.StopReason)
		}
	}
}

// A client that returns a partial answer when the context ends has not answered.
func TestAnAnswerAfterTheEndIsNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	late := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		cancel()
		return text("half an ans"), nil
	}}
	resp, err := one(t, small(late)).GenerateContent(ctx, human("hello"))
	if resp != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", resp, err)
	}
}

// A native model gets the caller's metadata and no metadata of others.
func TestMetadataReachesASpeaker(t *testing.T) {
	for what, options := range map[string][]llms.CallOption{"none": nil, "some": {llms.WithMetadata(map[string]any{"a": 1})}} {
		s := &nativeModel{resp: text("fine")}
		if _, err := one(t, small(s)).GenerateContent(t.Context(), human("hello"), options...); err != nil {
			t.Fatal(what, err)
		}
		if got := s.options.Metadata["a"]; (got != nil) != (options != nil) {
			t.Errorf("%s: metadata %v", what, s.options.Metadata)
		}
	}
}

// A schema for a model without schemas is placed after the caller's system messages.
func TestASchemaIsToldAfterTheSystemsWords(t *testing.T) {
	system := said(llms.ChatMessageTypeSystem, llms.TextContent{Text: "be brief"})
	schema := middleware.WithParams(middleware.Params{Schema: &middleware.Schema{Name: "s", Schema: []byte(`{}`)}})
	for _, c := range []struct {
		messages []llms.MessageContent
		at       int
	}{
		{human("hello"), 0},
		{append([]llms.MessageContent{system}, human("hello")...), 1},
		{append([]llms.MessageContent{system, system}, human("hello")...), 2},
		{append(human("hello"), system), 0},
		{[]llms.MessageContent{system}, 1},
	} {
		r := keeps(text(`{}`))
		if got := look(t, small(r), c.messages, schema); got.err != nil {
			t.Fatal(got.err)
		}
		told := slices.IndexFunc(r.messages, func(m llms.MessageContent) bool {
			return m.Role == llms.ChatMessageTypeSystem && strings.Contains(m.Parts[0].(llms.TextContent).Text, "JSON schema")
		})
		if told != c.at || len(r.messages) != len(c.messages)+1 {
			t.Errorf("of %d messages the schema is number %d, want %d", len(r.messages), told, c.at)
		}
	}
}

// A run whose name contains a key has its account under a redacted name.
func TestRunsAreNotNamedByKeys(t *testing.T) {
	for name, want := range map[string]string{"sk-proj-planted0123456789": "[redacted]", "nightly": "nightly"} {
		w := &worst{}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("fine"))}, Step: step.Config{Ledger: w}})
		if _, err := m.GenerateContent(middleware.WithInfo(t.Context(), middleware.Info{Run: name}), human("q")); err != nil || w.run != want {
			t.Errorf("the account is of the run %q, want %q; %v", w.run, want, err)
		}
	}
}

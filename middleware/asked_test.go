package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Only a schema requests JSON. The number of answers is taken from either of langchaingo's options, N first.
func TestWhatOptionsAskFor(t *testing.T) {
	schema := middleware.Params{Schema: &middleware.Schema{Name: "s", Schema: []byte(`{}`)}}
	for what, c := range map[string]struct {
		options []llms.CallOption
		json    bool
		n       int
	}{
		"nothing":       {nil, false, 0},
		"a user":        {[]llms.CallOption{middleware.WithParams(middleware.Params{User: "u"})}, false, 0},
		"a schema":      {[]llms.CallOption{middleware.WithParams(schema)}, true, 0},
		"JSON":          {[]llms.CallOption{llms.WithJSONMode(), middleware.WithParams(middleware.Params{User: "u"})}, true, 0},
		"candidates":    {[]llms.CallOption{llms.WithCandidateCount(3)}, false, 3},
		"N":             {[]llms.CallOption{llms.WithN(2)}, false, 2},
		"N and both":    {[]llms.CallOption{llms.WithN(2), llms.WithCandidateCount(3)}, false, 2},
		"no candidates": {[]llms.CallOption{llms.WithCandidateCount(0)}, false, 0},
	} {
		o, p := middleware.Resolve(c.options...)
		n := 0
		if p.N != nil {
			n = *p.N
		}
		if o.JSONMode != c.json || n != c.n || (p.N != nil) != (c.n > 0) {
			t.Errorf("%s: JSON %v, %d answers; want %v, %d", what, o.JSONMode, n, c.json, c.n)
		}
	}
	zero, nought := 0.0, 0
	if _, p := middleware.Resolve(); p.Temperature != nil || p.Seed != nil || p.TopK != nil {
		t.Errorf("of nothing: %+v", p)
	}
	if _, p := middleware.Resolve(middleware.WithParams(middleware.Params{Temperature: &zero, Seed: &nought})); p.Temperature == nil || *p.Temperature != 0 || p.Seed == nil || *p.Seed != 0 {
		t.Errorf("of zeros that were set: %+v", p)
	}
}

// Deprecated functions are replaced by tools, with their choice. A tool choice that the caller made is kept.
func TestTheChoiceOfFunctions(t *testing.T) {
	functions := llms.WithFunctions([]llms.FunctionDefinition{{Name: "find"}})
	for what, c := range map[string]struct {
		options []llms.CallOption
		tools   int
		choice  any
	}{
		"nothing":       {nil, 0, nil},
		"functions":     {[]llms.CallOption{functions}, 1, nil},
		"a behaviour":   {[]llms.CallOption{functions, llms.WithFunctionCallBehavior(llms.FunctionCallBehaviorNone)}, 1, "none"},
		"a tool choice": {[]llms.CallOption{functions, llms.WithFunctionCallBehavior(llms.FunctionCallBehaviorNone), llms.WithToolChoice("required")}, 1, "required"},
	} {
		r := keeps(text("fine"))
		if _, err := one(t, small(r)).GenerateContent(t.Context(), human("hello"), c.options...); err != nil {
			t.Fatal(err)
		}
		if len(r.options.Tools) != c.tools || (r.options.Tools == nil) != (c.tools == 0) || r.options.ToolChoice != c.choice {
			t.Errorf("%s: %d tools, choice %v; want %d, %v", what, len(r.options.Tools), r.options.ToolChoice, c.tools, c.choice)
		}
	}
}

// A model that cannot fulfil a request is excluded, and the trace has the reason.
func TestWhoSpeaksTheDialectOfTheTools(t *testing.T) {
	for dialect, want := range map[middleware.Dialect]string{middleware.DialectChat: "", middleware.DialectAnthropic: "has no tool web_search of anthropic"} {
		var all traces
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(says("plain")), large(&nativeModel{resp: text("spoken")})}, Step: step.Config{Traces: all.record}})
		resp, err := m.GenerateContent(t.Context(), human("hello"), middleware.WithParams(middleware.Params{RawTools: []json.RawMessage{[]byte(`{"type":"web_search"}`)}, Dialect: dialect}))
		if (err == nil) != (want == "") || err == nil && resp.Choices[0].Content != "spoken" {
			t.Errorf("%s: %v, %v", dialect, resp, err)
		}
		reasons := ""
		for _, i := range all.list[0].Infeasible {
			reasons += i.Model + " " + i.Reason + ", "
		}
		if !strings.Contains(reasons, "small has no tool web_search of "+string(dialect)) || strings.Contains(reasons, "large") != (want != "") {
			t.Errorf("%s: %s", dialect, reasons)
		}
	}
	// In the first form of Anthropic's MCP connector, no tool stands for the servers.
	for servers, want := range map[string]string{`[{"type":"url","name":"s","url":"https://x"}]`: "has no tool mcp_servers of anthropic", "[]": ""} {
		m := one(t, large(&nativeModel{resp: text("spoken")}))
		_, err := m.GenerateContent(t.Context(), human("hello"), middleware.WithParams(middleware.Params{Extra: map[string]json.RawMessage{"mcp_servers": []byte(servers)}, Dialect: middleware.DialectAnthropic}))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("mcp_servers %s: %v, want %q", servers, err, want)
		}
	}
	yes := true
	for _, able := range []bool{false, true} {
		c := small(says("fine"))
		c.Model.Capabilities.LogProbs = able
		_, err := one(t, c).GenerateContent(t.Context(), human("hello"), middleware.WithParams(middleware.Params{LogProbs: &yes}))
		if (err == nil) != able {
			t.Errorf("log-probabilities of a model that gives them %v: %v", able, err)
		}
	}
}

// A provider's own tools that the caller runs are on offer, and so is any name where the request can offer tools of unknown
// names. Those that the provider runs are not called.
func TestCallsOfRawTools(t *testing.T) {
	const computer, search, toolset = `{"type":"computer_20250124","name":"computer"}`, `{"type":"web_search_20250305","name":"search"}`, `{"type":"computer_toolset_20260801"}`
	const space, patch, image = `{"type":"namespace","name":"docs","tools":[{"type":"function","name":"find"}]}`, `{"type":"custom","name":"patch"}`, `{"type":"image_generation"}`
	const right, wrong = sdk.StopNotWorth, sdk.StopExhausted
	of := func(part string, instead llms.ContentPart) llms.ContentPart {
		return middleware.RawPart{Dialect: middleware.DialectChat, Raw: json.RawMessage(part), Instead: instead}
	}
	added, found := of(`{"type":"tool_addition","tool":{}}`, nil), of(`{"type":"tool_search_output","tools":[{"type":"function","name":"find"}]}`, middleware.ResultPart{})
	for _, tt := range []struct {
		call  string
		tools []string
		part  llms.ContentPart
		want  sdk.StopReason
	}{
		{"computer", []string{computer, search}, nil, right}, {"search", []string{computer, search}, nil, wrong}, {"rm", []string{computer, search, image, patch}, nil, wrong},
		{"screenshot", []string{toolset}, nil, right}, {"navigate", []string{`{"type":"browser_toolset_20260801"}`}, nil, right}, {"find", []string{space}, nil, right},
		{"patch", []string{patch}, nil, right}, {"rm", []string{space}, nil, wrong}, {"rm", nil, nil, wrong},
		{"late", nil, added, right}, {"find", nil, found, right}, {"rm", nil, found, wrong}, {"rm", nil, of(`{"type":"container_upload"}`, nil), wrong},
	} {
		raw, messages := middleware.Params{Dialect: middleware.DialectChat}, human("hello")
		for _, tool := range tt.tools {
			raw.RawTools = append(raw.RawTools, json.RawMessage(tool))
		}
		if tt.part != nil {
			messages = append(messages, said(llms.ChatMessageTypeSystem, tt.part))
		}
		var all traces
		call := &nativeModel{resp: &llms.ContentResponse{Choices: []*llms.ContentChoice{{StopReason: "tool_calls", ToolCalls: []llms.ToolCall{{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: tt.call, Arguments: `{"action":"screenshot"}`}}}}}}}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(call), large(call)}, Step: step.Config{Traces: all.record}})
		if _, err := m.GenerateContent(t.Context(), messages, middleware.WithParams(raw)); err != nil {
			t.Fatal(err)
		}
		if got := all.list[0].Stop; got != tt.want {
			t.Errorf("%s of %v, %v: %s after %d calls, want %s", tt.call, tt.tools, tt.part, got, len(all.list[0].Calls), tt.want)
		}
	}
}

// Models that read only langchaingo's parts get replacements for the others, even in the mode off. Native models get
// all parts.
func TestPartsForOthers(t *testing.T) {
	messages := append([]llms.MessageContent{said(llms.ChatMessageTypeHuman, middleware.NamePart{Name: "ann"})},
		said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "look"}, middleware.NamePart{Name: "bob"}, middleware.FilePart{URL: "u"}, middleware.FilePart{MIMEType: "image/png", Data: []byte("x")},
			middleware.FilePart{ID: "file-1"}, middleware.RawPart{Raw: []byte(`{}`)}, middleware.RawPart{TextContent: llms.TextContent{Text: "said"}}, llms.TextContent{Text: "end"}),
		said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "bye"}))
	for _, mode := range []middleware.Mode{middleware.Enforce, middleware.Off} {
		r := keeps(text("fine"))
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(r)}, Mode: mode})
		if _, err := m.GenerateContent(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
		want := []llms.MessageContent{
			said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "look"}, llms.ImageURLContent{URL: "u"}, llms.BinaryContent{MIMEType: "image/png", Data: []byte("x")}, llms.TextContent{Text: "said"}, llms.TextContent{Text: "end"}),
			said(llms.ChatMessageTypeHuman, llms.TextContent{Text: "bye"}),
		}
		if diff := cmp.Diff(want, r.messages); diff != "" {
			t.Errorf("mode %q: %s", mode, diff)
		}
		s := &nativeModel{resp: text("fine")}
		m = wrap(t, middleware.Config{Models: []middleware.Candidate{small(s)}, Mode: mode})
		if _, err := m.GenerateContent(t.Context(), messages); err != nil || len(s.messages) != 3 || len(s.messages[1].Parts) != 8 {
			t.Errorf("mode %q: a model that knows all parts is given %+v, %v", mode, s.messages, err)
		}
	}
	if len(messages) != 3 || len(messages[1].Parts) != 8 {
		t.Error("the caller's messages were changed")
	}
}

// A thinking configuration is copied for each call, and the caller's is never modified.
func TestThinkingIsTheCallsOwn(t *testing.T) {
	config := &llms.ThinkingConfig{Mode: llms.ThinkingModeLow}
	metadata := map[string]any{"thinking_config": config}
	r := keeps(text("fine"))
	if _, err := one(t, small(r)).GenerateContent(t.Context(), human("hello"), llms.WithMetadata(metadata)); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.options.Metadata["thinking_config"].(*llms.ThinkingConfig); !ok || got == config || got.Mode != llms.ThinkingModeLow {
		t.Errorf("%+v is shared with the caller or lost", got)
	}
	if _, err := one(t, small(r)).GenerateContent(t.Context(), human("hello"), llms.WithMetadata(map[string]any{"thinking_config": (*llms.ThinkingConfig)(nil)})); err != nil {
		t.Errorf("no configuration at all: %v", err)
	}
}

// The reason for excluding a model because of a match block names the block.
func TestWhyAMatchLeavesAModelOut(t *testing.T) {
	for _, c := range []struct {
		route middleware.Route
		want  string
	}{
		{middleware.Route{Match: "x"}, ""},
		{middleware.Route{Models: []bool{true, true}}, ""},
		{middleware.Route{Models: []bool{true, false}}, "is not a candidate for this query"},
		{middleware.Route{Models: []bool{true, false}, Match: "code"}, "is not a candidate of match code"},
	} {
		if got := c.route.Exclude(1); got != c.want || c.route.Exclude(0) != "" {
			t.Errorf("%+v: %q, want %q", c.route, got, c.want)
		}
	}
}

// Faults of a configuration are reported, and limit values are accepted.
func TestTheEdgesOfAConfiguration(t *testing.T) {
	both := []middleware.Candidate{small(says("a")), large(says("b"))}
	for what, c := range map[string]struct {
		config middleware.Config
		want   string
	}{
		"the first as baseline": {middleware.Config{Baseline: "small", Mode: middleware.Observe}, ""},
		"no such baseline":      {middleware.Config{Baseline: "huge", Mode: middleware.Observe}, "baseline huge"},
		"shadow of all":         {middleware.Config{Mode: middleware.Shadow, Shadow: middleware.ShadowConfig{Sample: 1, CapUSD: 0.01}}, ""},
		"shadow of none":        {middleware.Config{Mode: middleware.Shadow, Shadow: middleware.ShadowConfig{CapUSD: 1}}, "sample in (0, 1]"},
		"shadow of too much":    {middleware.Config{Mode: middleware.Shadow, Shadow: middleware.ShadowConfig{Sample: 1.01, CapUSD: 1}}, "sample in (0, 1]"},
		"shadow without a cap":  {middleware.Config{Mode: middleware.Shadow, Shadow: middleware.ShadowConfig{Sample: 1}}, "and a cap"},
		"a negative lambda":     {middleware.Config{Lambda: -1}, "lambda"},
	} {
		c.config.Models = both
		m, err := middleware.New(c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if m != nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The checks at their limits.
func TestTheEdgesOfChecks(t *testing.T) {
	capped := sdk.Query{MaxOutputTokens: 100}
	refusal := "I'm sorry, but I can't. "
	long := func(n int) string { return refusal + strings.Repeat("x", n-len(refusal)) }
	past := func(arguments string) sdk.Query {
		return sdk.Query{Tools: []sdk.Tool{{Name: "find"}}, Messages: []sdk.Message{
			{Role: sdk.RoleAssistant, Parts: []sdk.Part{{Kind: sdk.PartToolCall, ToolCall: &sdk.ToolCall{ID: "1", Name: "find", Arguments: arguments}}}},
			{Role: sdk.RoleTool, Parts: []sdk.Part{{Kind: sdk.PartToolResult, ToolResult: &sdk.ToolResult{CallID: "1", IsError: true}}}}}}
	}
	schema := sdk.Query{Format: sdk.ResponseFormat{Schema: []byte(`{"type":"object","properties":{"a":{"type":"object","properties":{"days":{"type":"integer"}}}}}`)}}
	far := prompt("mrkl", strings.Repeat("x", 20_000)+"\nAction: the action to take, should be one of [ search ]\nQuestion: ?")
	for what, c := range map[string]struct {
		q    sdk.Query
		a    sdk.Answer
		want string
	}{
		"as long as asked":           {capped, sdk.Answer{Text: "x", StopReason: "length", Usage: sdk.Usage{OutputTokens: 60, ReasoningTokens: 40}}, ""},
		"shorter than asked":         {capped, sdk.Answer{Text: "x", StopReason: "length", Usage: sdk.Usage{OutputTokens: 60, ReasoningTokens: 39}}, "stop_reason: cut off at the token limit"},
		"a refusal of 600 bytes":     {sdk.Query{}, sdk.Answer{Text: long(600)}, "refusal: refused: " + long(600)[:120] + "..."},
		"an answer of 601 bytes":     {sdk.Query{}, sdk.Answer{Text: long(601)}, ""},
		"a line of 120 letters":      {sdk.Query{}, sdk.Answer{Text: long(120)}, "refusal: refused: " + long(120)},
		"a line of 121 letters":      {sdk.Query{}, sdk.Answer{Text: long(121)}, "refusal: refused: " + long(121)[:120] + "..."},
		"a wrapped argument again":   {past("Oslo"), calling("find", `{"__arg1":"Oslo"}`), `repeated_call: repeats the failed call find({"__arg1":"Oslo"})`},
		"another wrapped argument":   {past("Oslo"), calling("find", `{"__arg1":"Rome"}`), ""},
		"no argument":                {past("Oslo"), calling("find", `{}`), ""},
		"a schema broken far inside": {schema, sdk.Answer{Text: `{"a":{"days":"two"}}`}, "json: violates the JSON schema: at '/a/days': got string, want integer"},
		"a tool named at the end":    {far, sdk.Answer{Text: "Action: search\nAction Input: it"}, ""},
		"no tool named at the end":   {far, sdk.Answer{Text: "Action: dance\nAction Input: it"}, "protocol: unknown tool dance"},
	} {
		if got := judge(c.q, c.a); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// The trace of a call names the parameters that the model's API cannot express.
func TestTracesNameWhatWasNotSent(t *testing.T) {
	c := small(keeps(&llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "fine", StopReason: "stop", GenerationInfo: map[string]any{
		middleware.KeyExtra: &middleware.Extra{NotSent: []string{"Seed", "LogitBias"}, Usage: sdk.Usage{InputTokens: 1}}}}}}))
	ctx, report := middleware.WithReport(t.Context())
	m, err := middleware.New(middleware.Config{Models: []middleware.Candidate{c}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.GenerateContent(ctx, human("hello")); err != nil {
		t.Fatal(err)
	}
	if got := report.Steps()[0].Calls[0].NotSent; !slices.Equal(got, []string{"Seed", "LogitBias"}) {
		t.Errorf("not sent: %q", got)
	}
}

// The replay of a chosen answer contains all text and reasoning, in one piece for each streaming function, and tool
// calls for callers that can receive them.
func TestReplaysOfAnAnswer(t *testing.T) {
	a := &llms.ContentChoice{Content: "fine", ReasoningContent: "hm", StopReason: "stop", GenerationInfo: map[string]any{middleware.KeyExtra: &middleware.Extra{
		Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}, LogProbs: []sdk.TokenLogProb{{Token: "fine", LogProb: -1}}}},
		ToolCalls: []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: "find", Arguments: "{}"}}, {ID: "2"}}}
	resp := &llms.ContentResponse{Choices: []*llms.ContentChoice{a, {Content: "other", StopReason: "stop"}}}
	yes := true
	var deltas []middleware.Delta
	hear := func(_ context.Context, d *middleware.Delta) error { deltas = append(deltas, *d); return nil }
	for _, logProbs := range []*bool{nil, &yes} {
		deltas = nil
		c := small(keeps(resp))
		c.Model.Capabilities.LogProbs = true
		got := look(t, c, human("hello"), llms.WithN(2), llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "find"}}}), middleware.WithParams(middleware.Params{OnDelta: hear, LogProbs: logProbs}))
		if got.err != nil || len(deltas) != 3 {
			t.Fatalf("%+v, %v", deltas, got.err)
		}
		if d := deltas[0]; d.Text != "fine" || d.Reasoning != "hm" || (len(d.LogProbs) == 1) != (logProbs != nil) {
			t.Errorf("first %+v", d)
		}
		if d := deltas[1]; d.Tool == nil || d.Tool.Name != "find" || d.Tool.ID != "1" || d.Choice != 0 {
			t.Errorf("second %+v", d)
		}
		if d := deltas[2]; d.Text != "other" || d.Choice != 1 {
			t.Errorf("third %+v", d)
		}
	}
	var heard, thought strings.Builder
	got := look(t, small(keeps(resp)), human("hello"), llms.WithN(2),
		llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error { heard.Write(chunk); return nil }),
		llms.WithStreamingReasoningFunc(func(_ context.Context, t, _ []byte) error { thought.Write(t); return nil }))
	if got.err != nil || heard.String() != "fine" || thought.String() != "hm" {
		t.Errorf("heard %q, thought %q, %v", heard.String(), thought.String(), got.err)
	}
	gone := errors.New("gone")
	for what, options := range map[string][]llms.CallOption{
		"text":      {llms.WithStreamingFunc(func(context.Context, []byte) error { return gone })},
		"reasoning": {llms.WithStreamingReasoningFunc(func(context.Context, []byte, []byte) error { return gone })},
		"pieces":    {middleware.WithParams(middleware.Params{OnDelta: func(context.Context, *middleware.Delta) error { return gone }})},
	} {
		if got := look(t, small(keeps(resp)), human("hello"), options...); !errors.Is(got.err, gone) {
			t.Errorf("%s: a reader who has gone: %v", what, got.err)
		}
	}
	silent := 0
	nothing := &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: a.ToolCalls[:1], StopReason: "tool_calls", GenerationInfo: a.GenerationInfo}}}
	got = look(t, small(keeps(nothing)), human("hello"),
		llms.WithStreamingReasoningFunc(func(context.Context, []byte, []byte) error { silent++; return nil }))
	if got.err != nil || silent != 0 {
		t.Errorf("of tool calls only, %d pieces, %v", silent, got.err)
	}
}

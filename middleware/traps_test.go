package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// received is a model that records its input.
type received struct {
	fake
	messages []llms.MessageContent
	options  llms.CallOptions
}

func keeps(resp *llms.ContentResponse) *received {
	r := &received{}
	r.say = func(_ context.Context, messages []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		r.messages, r.options = messages, *o
		return resp, nil
	}
	return r
}

// as returns the candidate with the given provider.
func as(c middleware.Candidate, provider string) middleware.Candidate {
	c.Model.Provider = provider
	return c
}

func one(t *testing.T, c middleware.Candidate) *middleware.Model {
	t.Helper()
	return wrap(t, middleware.Config{Models: []middleware.Candidate{c}})
}

func TestCallGoesThroughTheRouter(t *testing.T) {
	ctx, rep := middleware.WithReport(t.Context())
	got, err := one(t, small(says("hi"))).Call(ctx, "question")
	if err != nil || got != "hi" || len(rep.Steps()) != 1 {
		t.Errorf("got %q, %v, %d steps", got, err, len(rep.Steps()))
	}
}

func TestModelNamesDoNotLeak(t *testing.T) {
	a, b := keeps(text("")), keeps(text("right"))
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(a), large(b)}})
	for _, options := range [][]llms.CallOption{
		{llms.WithModel("gpt-x"), nil, llms.WithTemperature(0.3)},
		{llms.WithOptions(llms.CallOptions{Model: "gpt-x", Temperature: 0.3})},
	} {
		if _, err := m.GenerateContent(t.Context(), human("q"), options...); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*received{a, b} {
			if r.options.Model != "provider-default" || r.options.Temperature != 0.3 {
				t.Errorf("options %+v", r.options)
			}
		}
	}
	before := a.calls.Load()
	resp, err := m.GenerateContent(t.Context(), human("q"), llms.WithModel("large"))
	if err != nil {
		t.Fatal(err)
	}
	if a.calls.Load() != before || resp.Choices[0].GenerationInfo["stepfall.model"] != "large" || b.options.Model != "provider-default" {
		t.Error("the name of a candidate does not pin the step to it")
	}
}

func TestOptionsThatShareStateDoNotRace(t *testing.T) {
	m := one(t, small(says("hi")))
	shared := map[string]any{"k": "v"}
	options := []llms.CallOption{llms.WithMetadata(shared), llms.WithThinkingMode(llms.ThinkingModeLow)}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := m.GenerateContent(t.Context(), human("q"), options...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(shared) != 1 {
		t.Errorf("the caller's map was changed: %v", shared)
	}
}

func TestFunctionsBecomeTools(t *testing.T) {
	call := text("")
	call.Choices[0].ToolCalls = []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: "add", Arguments: `{}`}}, {ID: "2"}}
	a := keeps(call)
	resp, err := one(t, small(a)).GenerateContent(t.Context(), human("q"), llms.WithFunctions([]llms.FunctionDefinition{{Name: "add"}}))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.options.Tools) != 1 || a.options.Tools[0].Function.Name != "add" || a.options.Tools[0].Type != "function" || a.options.Functions != nil {
		t.Errorf("options %+v", a.options)
	}
	got := resp.Choices[0]
	if len(got.ToolCalls) != 1 || got.ToolCalls[0].Type != "function" || got.FuncCall == nil || got.FuncCall.Name != "add" {
		t.Errorf("choice %+v: want one call, typed, also as FuncCall", got)
	}
	if call.Choices[0].ToolCalls[0].Type != "" || call.Choices[0].FuncCall != nil {
		t.Error("the model's response was modified")
	}
}

func TestContentBlocksAreOneChoice(t *testing.T) {
	usage := map[string]any{"InputTokens": 7, "OutputTokens": 5, "CacheReadInputTokens": 100}
	blocks := &llms.ContentResponse{Choices: []*llms.ContentChoice{
		{Content: "Let me see.", StopReason: "tool_use", GenerationInfo: usage},
		{StopReason: "tool_use", GenerationInfo: usage, ToolCalls: []llms.ToolCall{{ID: "1", FunctionCall: &llms.FunctionCall{Name: "a", Arguments: "{}"}}}},
		{StopReason: "tool_use", GenerationInfo: usage, ToolCalls: []llms.ToolCall{{ID: "2", FunctionCall: &llms.FunctionCall{Name: "b", Arguments: "{}"}}}},
	}}
	ctx, rep := middleware.WithReport(t.Context())
	tools := []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "a"}}, {Type: "function", Function: &llms.FunctionDefinition{Name: "b"}}}
	resp, err := one(t, as(small(keeps(blocks)), "anthropic")).GenerateContent(ctx, human("q"), llms.WithTools(tools))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Choices) != 1 || len(resp.Choices[0].ToolCalls) != 2 || resp.Choices[0].Content != "Let me see." {
		t.Errorf("choices %+v", resp.Choices)
	}
	if want := (sdk.Usage{InputTokens: 7, OutputTokens: 5, CachedInputTokens: 100}); rep.Usage() != want {
		t.Errorf("usage %+v, want it once: %+v", rep.Usage(), want)
	}
}

func TestAlternativesStaySeveralAndAreCountedOnce(t *testing.T) {
	two := text("one")
	two.Choices = append(two.Choices, text("two").Choices[0])
	ctx, rep := middleware.WithReport(t.Context())
	resp, err := one(t, as(small(keeps(two)), "openai")).GenerateContent(ctx, human("q"), llms.WithN(2))
	if err != nil || len(resp.Choices) != 2 || rep.Usage().OutputTokens != 10 {
		t.Errorf("%d choices, usage %+v, %v", len(resp.Choices), rep.Usage(), err)
	}
}

func TestMessagesAreWrittenForEachProvider(t *testing.T) {
	png := llms.BinaryContent{MIMEType: "image/png", Data: []byte("data")}
	url := llms.ImageURLContent{URL: "data:image/png;base64,ZGF0YQ=="}
	call := llms.ToolCall{ID: "1", FunctionCall: &llms.FunctionCall{Name: "calc", Arguments: "1+1"}}
	messages := []llms.MessageContent{
		{Role: "user", Parts: []llms.ContentPart{llms.WithCacheControl(llms.TextPart("long"), &llms.CacheControl{Type: "ephemeral"}), png, url}},
		{Role: "assistant", Parts: []llms.ContentPart{llms.TextPart("thinking"), call}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "1", Content: "2"}}},
	}
	before := append([]llms.MessageContent(nil), messages...)
	wrapped := llms.ToolCall{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "calc", Arguments: `{"__arg1":"1+1"}`}}
	for _, tt := range []struct {
		provider string
		want     []llms.MessageContent
	}{
		{"openai", []llms.MessageContent{
			{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextPart("long"), url, url}},
			{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.TextPart("thinking"), wrapped}},
			messages[2],
		}},
		{"anthropic", []llms.MessageContent{
			{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{messages[0].Parts[0], png, png}},
			{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.TextPart("thinking")}},
			{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{wrapped}},
			messages[2],
		}},
		{"googleai", []llms.MessageContent{
			{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextPart("long"), png, url}},
			{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.TextPart("thinking"), wrapped}},
			{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "1", Name: "calc", Content: "2"}}},
		}},
	} {
		a := keeps(text("hi"))
		if _, err := one(t, as(small(a), tt.provider)).GenerateContent(t.Context(), messages); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, a.messages); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.provider, diff)
		}
	}
	if !reflect.DeepEqual(before, messages) || messages[1].Parts[1].(llms.ToolCall).FunctionCall.Arguments != "1+1" {
		t.Error("the caller's messages were modified")
	}
}

// Calls without ids get ids, several results in one message are separated, and ids have the form that the model's API accepts.
func TestCallsOfOtherClientsAreAnswered(t *testing.T) {
	call := func(id string) llms.ToolCall {
		return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: "now", Arguments: "{}"}}
	}
	result := func(id, text string) llms.ToolCallResponse {
		return llms.ToolCallResponse{ToolCallID: id, Content: text}
	}
	ai, tool := llms.ChatMessageTypeAI, llms.ChatMessageTypeTool
	history := func(parts ...llms.ContentPart) []llms.MessageContent {
		return []llms.MessageContent{human("q")[0], {Role: ai, Parts: parts[:2]}, {Role: tool, Parts: parts[2:]}}
	}
	for name, c := range map[string]struct {
		served, provider string
		messages         []llms.MessageContent
		want             []string
	}{
		"without ids": {"small", "openai", history(call(""), call(""), result("", "a"), result("", "b")), []string{"stepfall_call_0", "stepfall_call_1", "stepfall_call_0 a", "stepfall_call_1 b"}},
		"with ids":    {"small", "openai", history(call("call_1"), call("call_2"), result("call_2", "b"), result("call_1", "a")), []string{"call_1", "call_2", "call_2 b", "call_1 a"}},
		"Google's":    {"small", "googleai", history(call("call_1"), call("call_2"), result("call_2", "b"), result("call_1", "a")), []string{"call_1", "call_2", "call_2 b", "call_1 a"}},
		"Mistral's":   {"mistral-small-latest", "openai", history(call("call_1"), call("abcdefgh9"), result("call_1", "a"), result("abcdefgh9", "b")), []string{"74196fe72", "abcdefgh9", "74196fe72 a", "abcdefgh9 b"}},
	} {
		a := keeps(text("hi"))
		candidate := as(small(a), c.provider)
		candidate.Model.Served = c.served
		if _, err := wrap(t, middleware.Config{Models: []middleware.Candidate{candidate}}).GenerateContent(t.Context(), c.messages); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range a.messages {
			if m.Role == tool && len(m.Parts) > 1 && c.provider == "openai" {
				t.Errorf("%s: %d results in a message, which the client refuses", name, len(m.Parts))
			}
			for _, p := range m.Parts {
				switch p := p.(type) {
				case llms.ToolCall:
					got = append(got, p.ID)
				case llms.ToolCallResponse:
					got = append(got, p.ToolCallID+" "+p.Content)
				}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// langchaingo's anthropic client returns a choice for each block; fields set by one block are not overwritten by the next.
func TestThinkingOfABlockIsKept(t *testing.T) {
	resp := &llms.ContentResponse{Choices: []*llms.ContentChoice{
		{StopReason: "end_turn", GenerationInfo: map[string]any{"ThinkingContent": "hm", "ThinkingSignature": "s", "InputTokens": 10, "OutputTokens": 8}},
		{Content: "hi", StopReason: "end_turn", GenerationInfo: map[string]any{"ThinkingContent": "", "OutputContent": "hi", "InputTokens": 10, "OutputTokens": 8}},
	}}
	got, err := one(t, as(small(keeps(resp)), "anthropic")).GenerateContent(t.Context(), human("q"))
	if err != nil {
		t.Fatal(err)
	}
	choice := got.Choices[0]
	if info := choice.GenerationInfo; len(got.Choices) != 1 || choice.Content != "hi" || choice.ReasoningContent != "hm" || info["ThinkingContent"] != "hm" || info["ThinkingSignature"] != "s" || info["OutputContent"] != "hi" {
		t.Errorf("%+v", choice)
	}
}

func TestWhatClientsReportAsSuccessIsAnError(t *testing.T) {
	for name, resp := range map[string]*llms.ContentResponse{
		"nil": nil, "no choices": {}, "nil choice": {Choices: []*llms.ContentChoice{nil}},
		"nothing said": {Choices: []*llms.ContentChoice{{}}},
	} {
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(keeps(resp)), large(says("right"))}})
		got, err := m.GenerateContent(t.Context(), human("q"))
		if err != nil || got.Choices[0].Content != "right" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		_, err = one(t, small(keeps(resp))).GenerateContent(t.Context(), human("q"))
		if !errors.Is(err, middleware.ErrEmptyResponse) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestPanicsOfProvidersAreErrors(t *testing.T) {
	bad := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		var m map[string]int
		m["x"] = 1 //nolint:govet,staticcheck // the panic is what is tested
		return nil, nil
	}}
	_, err := one(t, small(bad)).GenerateContent(t.Context(), human("q"))
	if _, ok := errors.AsType[*step.PanicError](err); !ok {
		t.Errorf("error %v", err)
	}
}

func TestContextErrorsAreVisible(t *testing.T) {
	for _, hidden := range []error{errors.New("request cancelled"), nil} {
		ctx, cancel := context.WithCancel(t.Context())
		m := one(t, small(&fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
			cancel()
			return nil, hidden
		}}))
		_, err := m.GenerateContent(ctx, human("q"))
		typed, ok := errors.AsType[*llms.Error](err)
		if !errors.Is(err, context.Canceled) || !ok || typed.Code != llms.ErrCodeCanceled {
			t.Errorf("client said %v: error %v", hidden, err)
		}
	}
}

func TestUsageIsReadInEverySpelling(t *testing.T) {
	type mistralUsage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	}
	for name, tt := range map[string]struct {
		info map[string]any
		want sdk.Usage
	}{
		"openai": {map[string]any{"PromptTokens": 10, "CompletionTokens": 8, "PromptCachedTokens": 4, "ReasoningTokens": 3, "CompletionReasoningTokens": 3},
			sdk.Usage{InputTokens: 6, CachedInputTokens: 4, OutputTokens: 5, ReasoningTokens: 3}},
		"anthropic": {map[string]any{"InputTokens": 10, "OutputTokens": 8, "CacheReadInputTokens": 4, "CacheCreationInputTokens": 2},
			sdk.Usage{InputTokens: 10, CachedInputTokens: 4, CacheWriteTokens: 2, OutputTokens: 8}},
		"google":    {map[string]any{"input_tokens": int32(10), "output_tokens": int32(8)}, sdk.Usage{InputTokens: 10, OutputTokens: 8}},
		"decoded":   {map[string]any{"PromptTokens": 10.0, "CompletionTokens": int64(8)}, sdk.Usage{InputTokens: 10, OutputTokens: 8}},
		"json":      {map[string]any{"PromptTokens": json.Number("10"), "CompletionTokens": uint16(8)}, sdk.Usage{InputTokens: 10, OutputTokens: 8}},
		"mistral":   {map[string]any{"usage": mistralUsage{10, 8}, "model": "m"}, sdk.Usage{InputTokens: 10, OutputTokens: 8}},
		"none":      {nil, sdk.Usage{InputTokens: 9, OutputTokens: 1, Estimated: true}},
		"unrelated": {map[string]any{"id": "x"}, sdk.Usage{InputTokens: 9, OutputTokens: 1, Estimated: true}},
	} {
		ctx, rep := middleware.WithReport(t.Context())
		resp := text("hi!")
		resp.Choices[0].GenerationInfo = tt.info
		if _, err := one(t, small(keeps(resp))).GenerateContent(ctx, human("q")); err != nil {
			t.Fatal(err)
		}
		if rep.Usage() != tt.want {
			t.Errorf("%s: %+v, want %+v", name, rep.Usage(), tt.want)
		}
	}
}

func TestGenerationInfoIsAFreshMap(t *testing.T) {
	shared := text("hi")
	m := one(t, small(keeps(shared)))
	for range 2 {
		resp, err := m.GenerateContent(t.Context(), human("q"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Choices[0].GenerationInfo["mine"] = true
		resp.Choices[0].Content = "changed"
	}
	if len(shared.Choices[0].GenerationInfo) != 3 || shared.Choices[0].Content != "hi" {
		t.Errorf("the model's response was modified: %+v", shared.Choices[0])
	}
}

func TestModelsThatLackACapabilityAreSkipped(t *testing.T) {
	plain := small(says("plain"))
	plain.Model.Capabilities = sdk.Capabilities{}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{plain, large(says(`{"able": true}`))}})
	image := []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLPart("https://example.com/x.png")}}}
	history := append(human("q"), llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "1", FunctionCall: &llms.FunctionCall{Name: "a", Arguments: "{}"}}}})
	for name, run := range map[string]func() (*llms.ContentResponse, error){
		"tools": func() (*llms.ContentResponse, error) {
			return m.GenerateContent(t.Context(), human("q"), llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "a"}}}))
		},
		"tools in history": func() (*llms.ContentResponse, error) { return m.GenerateContent(t.Context(), history) },
		"images":           func() (*llms.ContentResponse, error) { return m.GenerateContent(t.Context(), image) },
		"JSON mode": func() (*llms.ContentResponse, error) {
			return m.GenerateContent(t.Context(), human("q"), llms.WithJSONMode())
		},
	} {
		resp, err := run()
		if err != nil || resp.Choices[0].GenerationInfo["stepfall.model"] != "large" || resp.Choices[0].GenerationInfo["stepfall.calls"] != 1 {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	if resp, err := m.GenerateContent(t.Context(), human("q")); err != nil || resp.Choices[0].Content != "plain" {
		t.Errorf("a plain question: %v, %v", resp, err)
	}
}

func TestAnswersEndAtStopWords(t *testing.T) {
	resp, err := one(t, as(small(says("Action: a\nAction Input: b\nObservation: invented")), "mistral")).
		GenerateContent(t.Context(), human("q"), llms.WithStopWords([]string{"\nObservation:"}))
	if err != nil || resp.Choices[0].Content != "Action: a\nAction Input: b" {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestSupportsReasoningIsPassedOn(t *testing.T) {
	if one(t, small(says(""))).SupportsReasoning() {
		t.Error("a model without reasoning says it has some")
	}
	thinker := small(says(""))
	thinker.Model.Capabilities.Reasoning = true
	m := one(t, thinker)
	if !llms.SupportsReasoningModel(m) {
		t.Error("langchaingo does not see that a candidate reasons")
	}
}

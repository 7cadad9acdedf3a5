package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

func logTo(w *strings.Builder) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Debug})
}

// want compares a model's request with the expected one.
func want(t *testing.T, model *recorder, messages []llms.MessageContent, params *middleware.Params) {
	t.Helper()
	if diff := cmp.Diff(messages, model.messages, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("messages:\n%s", diff)
	}
	got := model.params
	got.OnDelta = nil
	if diff := cmp.Diff(*params, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("parameters:\n%s", diff)
	}
}

var lookTool = []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{
	Name: "look", Description: "looks", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true,
}}}

func TestChatArrivesWhole(t *testing.T) {
	model := says(llms.ContentChoice{Content: "fine"})
	h := newGateway(t, gateway.Options{Model: model, Models: named("small")})
	w := post(h, chatPath, `{
		"model": "small", "temperature": 0, "top_p": 0.5, "max_tokens": 10, "max_completion_tokens": 20, "seed": 0, "stop": ["a", "b"], "n": 1,
		"frequency_penalty": 0.25, "presence_penalty": 0.75, "metadata": {"team": "blue"}, "parallel_tool_calls": false, "reasoning_effort": "low",
		"logprobs": true, "top_logprobs": 3, "logit_bias": {"50256": -100}, "user": "u1", "store": null, "web_search_options": {"a": 1},
		"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type":"object"}}},
		"tools": [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type":"object"}, "strict": true}}],
		"tool_choice": {"type": "function", "function": {"name": "look"}},
		"messages": [
			{"role": "developer", "content": "be brief"},
			{"role": "user", "name": "ann", "content": [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
				{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAE="}}]},
			{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]},
			{"role": "tool", "tool_call_id": "c1", "content": "a cat"}
		]}`, gateway.HeaderRun, "r1", gateway.HeaderSession, "s1", gateway.HeaderGroup, "g1", gateway.HeaderQuery, "q1", gateway.HeaderTenant, "t1")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	want(t, model, []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, "be brief"),
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{
			middleware.NamePart{Name: "ann"}, llms.TextPart("what is this?"), llms.ImageURLWithDetailPart("data:image/png;base64,AA==", "low"),
			middleware.FilePart{Name: "a.pdf", MIMEType: "application/pdf", Data: []byte{0, 1}},
		}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "c1", Content: "a cat"}}},
	}, &middleware.Params{
		Temperature: new(0.0), TopP: new(0.5), FrequencyPenalty: new(0.25), PresencePenalty: new(0.75), Seed: new(0), MaxTokens: new(20), N: new(1),
		LogitBias: map[string]float64{"50256": -100}, LogProbs: new(true), TopLogProbs: new(3), ParallelToolCalls: new(false), ReasoningEffort: "low",
		User: "u1", Metadata: map[string]string{"team": "blue"}, Dialect: middleware.DialectChat,
		Schema: &middleware.Schema{Name: "x", Strict: new(true), Schema: json.RawMessage(`{"type":"object"}`)},
		Extra:  map[string]json.RawMessage{"web_search_options": json.RawMessage(`{"a": 1}`)},
	})
	o := model.options
	if o.Model != "small" || !o.JSONMode || !cmp.Equal(o.StopWords, []string{"a", "b"}) || !cmp.Equal(o.Tools, lookTool) {
		t.Errorf("options: %+v", o)
	}
	if choice, ok := o.ToolChoice.(llms.ToolChoice); !ok || choice.Function.Name != "look" {
		t.Errorf("tool choice: %+v", o.ToolChoice)
	}
	wantInfo := middleware.Info{Run: "r1", Session: "s1", Group: "g1", QueryID: "q1", Tenant: "t1", Labels: map[string]string{"team": "blue"}}
	if diff := cmp.Diff(wantInfo, model.info); diff != "" {
		t.Errorf("info:\n%s", diff)
	}
	if w := post(h, chatPath, hello); w.Code != 200 || model.params.Temperature != nil || model.params.Seed != nil {
		t.Errorf("what was not set was: %+v", model.params)
	}
}

func TestResponsesArriveWhole(t *testing.T) {
	model := says(llms.ContentChoice{Content: "fine"})
	h := newGateway(t, gateway.Options{Model: model})
	w := post(h, responsesPath, `{
		"model": "stepfall", "instructions": "be brief", "temperature": 0, "max_output_tokens": 20, "parallel_tool_calls": true, "metadata": {"team": "blue"},
		"reasoning": {"effort": "high", "summary": "auto"}, "store": false, "include": ["reasoning.encrypted_content"],
		"text": {"verbosity": "low", "format": {"type": "json_schema", "name": "x", "strict": true, "schema": {"type":"object"}}},
		"tools": [{"type": "function", "name": "look", "description": "looks", "parameters": {"type":"object"}, "strict": true}, {"type":"web_search"}],
		"tool_choice": "required",
		"input": [
			{"role": "user", "content": [{"type": "input_text", "text": "what is this?"}, {"type": "input_image", "image_url": "https://x/y.png"}]},
			{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
			{"type": "reasoning", "id": "rs_sf_req_1", "summary": []},
			{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
			{"type": "function_call_output", "call_id": "c1", "output": "a cat"},
			{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A cat.", "annotations": []}]}
		]}`)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	want(t, model, []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, "be brief"),
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextPart("what is this?"), llms.ImageURLPart("https://x/y.png")}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{
			middleware.RawPart{Dialect: middleware.DialectResponses, Model: "stepfall", Raw: json.RawMessage(`{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}`)},
			llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}},
		}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "c1", Content: "a cat"}}},
		llms.TextParts(llms.ChatMessageTypeAI, "A cat."),
	}, &middleware.Params{
		Temperature: new(0.0), MaxTokens: new(20), ParallelToolCalls: new(true), ReasoningEffort: "high", ReasoningSummary: "auto", Store: new(false), Verbosity: "low",
		Metadata: map[string]string{"team": "blue"}, Dialect: middleware.DialectResponses,
		Schema:   &middleware.Schema{Name: "x", Strict: new(true), Schema: json.RawMessage(`{"type":"object"}`)},
		RawTools: []json.RawMessage{json.RawMessage(`{"type":"web_search"}`)},
		Extra:    map[string]json.RawMessage{"include": json.RawMessage(`["reasoning.encrypted_content"]`), "tools": json.RawMessage(`{"look":{"strict":true}}`)},
	})
	if !cmp.Equal(model.options.Tools, lookTool) || model.options.ToolChoice != "required" {
		t.Errorf("options: %+v", model.options)
	}
}

func TestMessagesArriveWhole(t *testing.T) {
	model := says(llms.ContentChoice{Content: "fine"})
	h := newGateway(t, gateway.Options{Model: model})
	w := post(h, messagesPath, `{
		"model": "stepfall", "max_tokens": 20, "temperature": 0, "top_k": 5, "stop_sequences": ["a"], "metadata": {"user_id": "u1"}, "container": "c",
		"thinking": {"type": "enabled", "budget_tokens": 1024},
		"system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
		"tools": [{"name": "look", "description": "looks", "input_schema": {"type":"object"}, "strict": true}],
		"tool_choice": {"type": "any", "disable_parallel_tool_use": true},
		"messages": [
			{"role": "user", "content": [{"type": "text", "text": "what is this?"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAE="}}]},
			{"role": "assistant", "content": [
				{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "thinking", "thinking": "foreign", "signature": ""},
				{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c1", "name": "look", "input": {"at":1}}]},
			{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": [{"type": "text", "text": "no cat"}]}, {"type": "text", "text": "go on"}]}
		]}`)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	want(t, model, []llms.MessageContent{
		{Role: llms.ChatMessageTypeSystem, Parts: []llms.ContentPart{llms.CachedContent{
			ContentPart: llms.TextPart("be brief"), CacheControl: &llms.CacheControl{Type: "ephemeral", Duration: time.Hour},
		}}},
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextPart("what is this?"), llms.BinaryContent{MIMEType: "image/png", Data: []byte{0, 1}}}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{
			middleware.RawPart{Dialect: middleware.DialectAnthropic, Model: "stepfall", Raw: json.RawMessage(`{"type": "thinking", "thinking": "hm", "signature": "sig"}`)},
			llms.TextPart("I look."), llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}},
		}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "c1", Content: "no cat"}, Failed: true}}},
		llms.TextParts(llms.ChatMessageTypeHuman, "go on"),
	}, &middleware.Params{
		Temperature: new(0.0), TopK: new(5), MaxTokens: new(20), ReasoningTokens: new(1024), ParallelToolCalls: new(false), User: "u1", Dialect: middleware.DialectAnthropic,
		Extra: map[string]json.RawMessage{"container": json.RawMessage(`"c"`), "thinking": json.RawMessage(`{"type": "enabled", "budget_tokens": 1024}`)},
	})
	if !cmp.Equal(model.options.Tools, lookTool) || model.options.ToolChoice != "required" || !cmp.Equal(model.options.StopWords, []string{"a"}) {
		t.Errorf("options: %+v", model.options)
	}
	if w := post(h, messagesPath+"/count_tokens", `{"messages": [{"role": "user", "content": "four bytes make a token"}]}`); w.Code != 200 || w.Body.String() != "{\"input_tokens\":14}\n" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := post(h, responsesPath+"/input_tokens", `{"input": "four bytes make a token"}`); w.Code != 200 || w.Body.String() != "{\"input_tokens\":14,\"object\":\"response.input_tokens\"}\n" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := post(h, messagesPath+"/count_tokens", `{"model": "nobody", "messages": [{"role": "user", "content": "hi"}]}`); w.Code != 404 || !strings.Contains(w.Body.String(), "nobody") {
		t.Errorf("a model that is not there: status %d: %s", w.Code, w.Body)
	}
}

func TestRefusalsNameTheField(t *testing.T) {
	h := newGateway(t, gateway.Options{Model: says(llms.ContentChoice{}), Models: named("small", "large"), MaxBody: 600})
	const user = `"messages": [{"role": "user", "content": "hi"}]`
	for _, c := range []struct {
		path, body, says, param string
		status                  int
	}{
		{chatPath, `{`, "not JSON", "", 400},
		{chatPath, `[]`, "not a JSON object", "", 400},
		{chatPath, strings.Repeat("[", 500), "nested", "", 400},
		{chatPath, `{"messages": []}`, "there are none", "messages", 400},
		{chatPath, `{"model": "gpt-9", ` + user + `}`, "there are: stepfall, small, large", "model", 404},
		{chatPath, `{"functions": [], ` + user + `}`, "send tools", "functions", 400},
		{chatPath, `{"modalities": ["text", "audio"], ` + user + `}`, "only text", "modalities", 400},
		{chatPath, `{"n": 0, ` + user + `}`, "is 0", "n", 400},
		{chatPath, `{"temperature": "hot", ` + user + `}`, "want a number", "temperature", 400},
		{chatPath, `{"stop": 5, ` + user + `}`, "want a list", "stop", 400},
		{chatPath, `{"response_format": {"type": "xml"}, ` + user + `}`, `"xml"`, "response_format.type", 400},
		{chatPath, `{"response_format": {"type": "json_schema"}, ` + user + `}`, "want a JSON schema", "response_format.json_schema.schema", 400},
		{chatPath, `{"tools": [{"type": "web"}], ` + user + `}`, `"web"`, "tools[0].type", 400},
		{chatPath, `{"tools": [{"type": "function"}], ` + user + `}`, "no name", "tools[0].function.name", 400},
		{chatPath, `{"messages": [{"role": "robot", "content": "hi"}]}`, `"robot"`, "messages[0].role", 400},
		{chatPath, `{"messages": [{"role": "tool", "content": "hi"}]}`, "needs one", "messages[0].tool_call_id", 400},
		{chatPath, `{"messages": [{"role": "user", "content": 5}]}`, "neither text nor a list", "messages[0].content", 400},
		{chatPath, `{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}`, `"input_audio"`, "messages[0].content[0].type", 400},
		{chatPath, `{"messages": [{"role": "user", "content": "` + strings.Repeat("x", 600) + `"}]}`, "larger than 600 bytes", "", 413},
		{responsesPath, `{}`, "there is none", "input", 400},
		{responsesPath, `{"input": "hi", "previous_response_id": "resp_1"}`, "store: false", "previous_response_id", 400},
		{responsesPath, `{"input": "hi", "background": true}`, "keeps no state", "background", 400},
		{responsesPath, `{"input": [{"type": "item_reference", "id": "x"}]}`, "Send the items", "input[0]", 400},
		{messagesPath, `{"messages": [{"role": "user", "content": "hi"}]}`, "Field required", "", 400},
		{messagesPath, `{"max_tokens": 1, "messages": [{"role": "robot", "content": "hi"}]}`, "robot", "", 400},
		{chatPath, `{"stream_options": "x", ` + user + `}`, "want an object", "stream_options", 400},
		{chatPath, `{"stream_options": {"include_usage": "yes"}, ` + user + `}`, "want true or false", "stream_options.include_usage", 400},
		{chatPath, `{"tools": [{"type": "function", "function": {"name": "a", "strict": 1}}], ` + user + `}`, "want true or false", "tools[0].function.strict", 400},
		{responsesPath, `{"input": "hi", "reasoning": "high"}`, "want an object", "reasoning", 400},
		{responsesPath, `{"input": "hi", "text": []}`, "want an object", "text", 400},
		{messagesPath, `{"max_tokens": 1, "output_config": "low", ` + user + `}`, "output_config: want an object", "", 400},
		{messagesPath, `{"max_tokens": 1, "metadata": "ann", ` + user + `}`, "metadata: want an object", "", 400},
		{messagesPath, `{"max_tokens": 1, "system": [{"type": "text", "text": "a", "cache_control": true}], ` + user + `}`, "cache_control: want an object", "", 400},
		{messagesPath, `{"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": "no"}]}]}`, "is_error: want true or false", "", 400},
		{"/v1/embeddings", `{"input": "hi"}`, "supports embeddings", "model", 400},
		{"/v1/embeddings", `{"model": "stepfall"}`, "there is none", "input", 400},
		{"/v1/embeddings", `{"input": "a", "stream": true}`, "not streamed", "stream", 400},
	} {
		w := post(h, c.path, c.body)
		var got struct {
			Error struct {
				Message string
				Param   string
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: %v in %s", c.body, err, w.Body)
		}
		if w.Code != c.status || !strings.Contains(got.Error.Message, c.says) || got.Error.Param != c.param {
			t.Errorf("%s %.80s: status %d, %q, param %q; want %d, %q, %q", c.path, c.body, w.Code, got.Error.Message, got.Error.Param, c.status, c.says, c.param)
		}
	}
}

// spoken is an answer with content in every field.
func spoken() llms.ContentChoice {
	return llms.ContentChoice{
		Content: "I look.", StopReason: "tool_calls", ReasoningContent: "hm",
		ToolCalls: []llms.ToolCall{{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}},
		GenerationInfo: map[string]any{middleware.KeyExtra: &middleware.Extra{
			Usage:    sdk.Usage{InputTokens: 20, CachedInputTokens: 8, CacheWriteTokens: 2, OutputTokens: 7, ReasoningTokens: 5},
			LogProbs: []sdk.TokenLogProb{{Token: "I", LogProb: -0.5, Top: []sdk.TopLogProb{{Token: "I", LogProb: -0.5}}}},
		}},
	}
}

// question is a request in each API that requests everything that spoken has.
var question = map[string]string{
	chatPath:      `{"stream": %v, "logprobs": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "hi"}]}`,
	responsesPath: `{"stream": %v, "include": ["message.output_text.logprobs"], "input": "hi"}`,
	messagesPath:  `{"stream": %v, "max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 5}, "messages": [{"role": "user", "content": "hi"}]}`,
}

func answered(t *testing.T, model llms.Model, path string, stream bool) string {
	t.Helper()
	w := post(newGateway(t, gateway.Options{Model: model}), path, fmt.Sprintf(question[path], stream), "X-Request-Id", "r")
	if w.Code != 200 {
		t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// ownID matches the gateway's id in the id of an answer or of an item.
var ownID = regexp.MustCompile(`_[A-Z2-7]{26}`)

func TestAnswersInEachDialect(t *testing.T) {
	const (
		probs = `[{"token":"I","logprob":-0.5,"bytes":[73],"top_logprobs":[{"token":"I","logprob":-0.5,"bytes":[73]}]}]`
	)
	for path, parts := range map[string][]string{
		chatPath: {
			`"message":{"role":"assistant","content":"I look.","refusal":null,"reasoning_content":"hm","tool_calls":[{"function":{"arguments":"{\"at\":1}","name":"look"},"id":"c1","type":"function"}]}`,
			`"logprobs":{"content":` + probs, `"finish_reason":"tool_calls"`,
			`"usage":{"completion_tokens":12,"completion_tokens_details":{"accepted_prediction_tokens":0,"audio_tokens":0,"reasoning_tokens":5,"rejected_prediction_tokens":0},"prompt_tokens":30,"prompt_tokens_details":{"audio_tokens":0,"cache_write_tokens":2,"cached_tokens":8},"total_tokens":42}`,
		},
		responsesPath: {
			`"status":"completed"`, `"output":[{"id":"rs_sf_r_0","status":"completed","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"},`,
			`{"content":[{"annotations":[],"logprobs":` + probs + `,"text":"I look.","type":"output_text"}],"id":"msg_sf_r_1","role":"assistant","status":"completed","type":"message"},`,
			`{"arguments":"{\"at\":1}","call_id":"c1","id":"fc_sf_r_2","name":"look","status":"completed","type":"function_call"}]`,
			`"usage":{"input_tokens":30,"input_tokens_details":{"cache_write_tokens":2,"cached_tokens":8},"output_tokens":12,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":42}`,
		},
		messagesPath: {
			`"content":[{"signature":"","thinking":"hm","type":"thinking"},{"text":"I look.","type":"text"},{"id":"c1","input":{"at":1},"name":"look","type":"tool_use"}]`,
			`"stop_reason":"tool_use","stop_sequence":null`,
			`"usage":{"cache_creation_input_tokens":2,"cache_read_input_tokens":8,"input_tokens":20,"output_tokens":12,"output_tokens_details":{"thinking_tokens":5}}`,
		},
	} {
		choice := spoken()
		got := ownID.ReplaceAllString(answered(t, says(choice), path, false), "_r")
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %s in\n%s", path, part, got)
			}
		}
	}
}

// A streamed answer has the same content whether its pieces arrive in order, interleaved or all at once: pieces within a
// call do not split it.
func TestStreamsInEachDialect(t *testing.T) {
	pieces := []middleware.Delta{
		{Reasoning: "h"}, {Reasoning: "m"}, {Text: "I "}, {Text: "look."},
		{Tool: &middleware.ToolDelta{ID: "c1", Name: "look"}}, {Tool: &middleware.ToolDelta{Index: 1, ID: "c2", Name: "hear", Arguments: "{"}},
		{Tool: &middleware.ToolDelta{Arguments: `{"at":1}`}}, {Tool: &middleware.ToolDelta{Index: 1, Arguments: "}"}},
	}
	within := []middleware.Delta{
		{Reasoning: "h"}, {Text: "I "}, {Tool: &middleware.ToolDelta{ID: "c1", Name: "look", Arguments: `{"a`}}, {Reasoning: "m"}, {Text: "loo"},
		{Text: "k", Tool: &middleware.ToolDelta{Arguments: `t":1}`}}, {Tool: &middleware.ToolDelta{Index: 1, ID: "c2", Name: "hear", Arguments: "{"}}, {Text: ".", Tool: &middleware.ToolDelta{Index: 1}}, {Tool: &middleware.ToolDelta{Index: 1, Arguments: "}"}},
	}
	both := spoken()
	both.ToolCalls = append(both.ToolCalls, llms.ToolCall{ID: "c2", Type: "function", FunctionCall: &llms.FunctionCall{Name: "hear", Arguments: "{}"}})
	for path, said := range map[string]func(t *testing.T, events []event) map[string]string{chatPath: chatSays, responsesPath: responsesSay, messagesPath: messagesSay} {
		for name, model := range map[string]*recorder{"pieces": streams(both, pieces...), "other pieces within a call": streams(both, within...), "whole": says(both)} {
			got := said(t, eventsOf(t, answered(t, model, path, true)))
			wanted := map[string]string{"thought": "hm", "text": "I look.", "c1 look": `{"at":1}`, "c2 hear": "{}"}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("%s, %s:\n%s", path, name, diff)
			}
		}
	}
}

type event struct {
	name string
	data map[string]any
}

func eventsOf(t *testing.T, body string) (list []event) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		e := event{}
		for line := range strings.SplitSeq(text, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = name
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
				if err := json.Unmarshal([]byte(data), &e.data); err != nil {
					t.Fatalf("%v in %s", err, data)
				}
			}
		}
		list = append(list, e)
	}
	return list
}

func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func chatSays(t *testing.T, events []event) map[string]string {
	said, calls := map[string]string{}, map[any]string{}
	for i, e := range events {
		if e.data == nil {
			continue
		}
		choices, _ := e.data["choices"].([]any)
		if usage := e.data["usage"]; (len(choices) == 0) != (usage != nil) || usage != nil && i != len(events)-2 {
			t.Errorf("a chunk without a choice that is not the usage: %v", e.data)
		}
		delta := at(e.data, "choices", 0, "delta")
		said["thought"] += text(at(delta, "reasoning_content"))
		said["text"] += text(at(delta, "content"))
		if call := at(delta, "tool_calls", 0); call != nil {
			index := at(call, "index")
			if id := text(at(call, "id")); id != "" {
				calls[index] = id + " " + text(at(call, "function", "name"))
			}
			said[calls[index]] += text(at(call, "function", "arguments"))
		}
	}
	if last := events[len(events)-3]; text(at(last.data, "choices", 0, "finish_reason")) != "tool_calls" {
		t.Errorf("the end says %v", last.data)
	}
	return said
}

func responsesSay(t *testing.T, events []event) map[string]string {
	said, items := map[string]string{}, map[any]string{}
	for i, e := range events {
		if e.data["type"] != e.name || e.data["sequence_number"] != float64(i) {
			t.Errorf("event %d is %s: %v", i, e.name, e.data)
		}
		switch e.name {
		case "response.reasoning_summary_text.delta":
			said["thought"] += text(e.data["delta"])
		case "response.output_text.delta":
			said["text"] += text(e.data["delta"])
		case "response.output_item.added":
			items[e.data["output_index"]] = text(at(e.data, "item", "call_id")) + " " + text(at(e.data, "item", "name"))
		case "response.function_call_arguments.delta":
			said[items[e.data["output_index"]]] += text(e.data["delta"])
		case "response.output_item.done":
			if text(at(e.data, "item", "status")) != "completed" {
				t.Errorf("an item ends as %v", e.data)
			}
		}
	}
	last := events[len(events)-1]
	output, _ := at(last.data, "response", "output").([]any)
	whole := ""
	for _, item := range output {
		whole += text(at(item, "content", 0, "text"))
	}
	if last.name != "response.completed" || whole != "I look." || at(last.data, "response", "usage", "total_tokens") != 42.0 {
		t.Errorf("the end says %v", last.data)
	}
	return said
}

func messagesSay(t *testing.T, events []event) map[string]string {
	said, tool := map[string]string{}, ""
	open := -1.0
	for _, e := range events {
		if e.data["type"] != e.name {
			t.Errorf("event %s: %v", e.name, e.data)
		}
		switch index, _ := e.data["index"].(float64); e.name {
		case "content_block_start":
			if open >= 0 {
				t.Errorf("block %v begins within block %v", index, open)
			}
			open = index
			tool = text(at(e.data, "content_block", "id")) + " " + text(at(e.data, "content_block", "name"))
		case "content_block_delta":
			if index != open {
				t.Errorf("a piece of block %v within block %v", index, open)
			}
			said["thought"] += text(at(e.data, "delta", "thinking"))
			said["text"] += text(at(e.data, "delta", "text"))
			if arguments, ok := at(e.data, "delta", "partial_json").(string); ok {
				said[tool] += arguments
			}
		case "content_block_stop":
			open = -1
		case "message_delta":
			if text(at(e.data, "delta", "stop_reason")) != "tool_use" || at(e.data, "usage", "output_tokens") != 12.0 {
				t.Errorf("the end says %v", e.data)
			}
		}
	}
	if events[0].name != "message_start" || events[len(events)-1].name != "message_stop" {
		t.Errorf("from %v to %v", events[0], events[len(events)-1])
	}
	return said
}

// The provider's own reasoning reaches a client of its API unchanged, with its signature or its encrypted
// content.
func TestOwnReasoningPassesThrough(t *testing.T) {
	thinking := middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"type":"thinking","thinking":"hm","signature":"sig"}`)}
	item := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"abc"}`)}
	for path, c := range map[string]struct {
		raw  middleware.RawPart
		want []string
	}{
		messagesPath:  {thinking, []string{`"thinking":"hm"`, `"signature":"sig"`}},
		responsesPath: {item, []string{`"id":"rs_1"`, `"encrypted_content":"abc"`}},
	} {
		choice := llms.ContentChoice{Content: "so", ReasoningContent: "hm", StopReason: "stop", GenerationInfo: map[string]any{
			middleware.KeyExtra: &middleware.Extra{Parts: []llms.ContentPart{c.raw, llms.TextPart("so")}},
		}}
		live := []middleware.Delta{{Reasoning: "hm"}, {Raw: &c.raw}, {Text: "so"}}
		for name, got := range map[string]string{
			"whole": answered(t, says(choice), path, false), "streamed whole": answered(t, says(choice), path, true), "streamed": answered(t, streams(choice, live...), path, true),
		} {
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%s, %s: no %s in\n%s", path, name, part, got)
				}
			}
			if strings.Contains(got, "rs_sf_") || strings.Count(got, `"text":"so"`) == 0 && !strings.Contains(got, `"delta":"so"`) {
				t.Errorf("%s, %s: %s", path, name, got)
			}
		}
	}
}

// A summary that arrived in one piece is streamed in the events that clients expect.
func TestSummariesAreStreamed(t *testing.T) {
	item := middleware.RawPart{Dialect: middleware.DialectResponses, Raw: json.RawMessage(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"},{"type":"summary_text","text":"so"}],"encrypted_content":"abc"}`)}
	choice := llms.ContentChoice{Content: "fine", ReasoningContent: "hmso", StopReason: "stop", GenerationInfo: map[string]any{
		middleware.KeyExtra: &middleware.Extra{Parts: []llms.ContentPart{item, llms.TextPart("fine")}},
	}}
	var names []string
	summary := ""
	for _, e := range eventsOf(t, answered(t, says(choice), responsesPath, true)) {
		if names = append(names, strings.TrimPrefix(e.name, "response.")); e.name == "response.reasoning_summary_text.delta" {
			summary += text(e.data["delta"])
		}
	}
	part := []string{"reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done"}
	want := slices.Concat([]string{"created", "in_progress", "output_item.added"}, part, part, []string{"output_item.done"})
	if summary != "hmso" || !slices.Equal(names[:len(want)], want) {
		t.Errorf("summary %q of %q", summary, names)
	}
}

func TestStreamThatFailsInTheMiddle(t *testing.T) {
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if err := p.OnDelta(ctx, &middleware.Delta{Text: "half"}); err != nil {
			return nil, err
		}
		return nil, errors.New("the line is dead")
	}}
	for path, end := range map[string]string{chatPath: `data: {"error":{`, responsesPath: "event: error\n", messagesPath: "event: error\n"} {
		got := answered(t, model, path, true)
		if !strings.Contains(got, "half") || !strings.Contains(got, "the line is dead") || !strings.Contains(got, end) || strings.Contains(got, "[DONE]") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestStreamIsKeptOpenWhileNothingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &recorder{answer: func(context.Context, *middleware.Params) (*llms.ContentResponse, error) {
			time.Sleep(25 * time.Second)
			return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "late"}}}, nil
		}}
		body := answered(t, model, chatPath, true)
		if !strings.HasPrefix(body, ": at work\n: at work\ndata: ") || !strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.Contains(body, `"content":"late"`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestSeveralChoices(t *testing.T) {
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if p.OnDelta != nil {
			for _, d := range []middleware.Delta{{Text: "o"}, {Choice: 1, Text: "two"}, {Text: "ne"}} {
				if err := p.OnDelta(ctx, &d); err != nil {
					return nil, err
				}
			}
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "one"}, {Content: "two"}}}, nil
	}}
	w := post(newGateway(t, gateway.Options{Model: model}), chatPath, `{"stream": true, "n": 2, "messages": [{"role": "user", "content": "hi"}]}`)
	for _, want := range []string{`{"index":0,"delta":{"role":"assistant","content":"o"}`, `{"index":1,"delta":{"role":"assistant","content":"two"}`, `{"index":0,"delta":{"content":"ne"}`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in %s", want, w.Body)
		}
	}
}

func FuzzDialects(f *testing.F) {
	for path, body := range question {
		f.Add(path, fmt.Sprintf(body, true))
	}
	f.Add(messagesPath, `{"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]}]}`)
	f.Add(responsesPath, `{"input": [{"type": "function_call_output", "call_id": "a", "output": [{"type": "input_file", "file_id": "f"}]}], "tools": [{"type": "x"}]}`)
	f.Add(chatPath, `{"messages": [{"role": "assistant", "refusal": "\ud800", "tool_calls": [{"function": {"name": "a", "arguments": "\u2028"}}]}], "stop": null}`)
	choice := spoken()
	model := &recorder{answer: func(ctx context.Context, p *middleware.Params) (*llms.ContentResponse, error) {
		if p.OnDelta != nil {
			if err := p.OnDelta(ctx, &middleware.Delta{Text: p.User + p.ReasoningEffort}); err != nil {
				return nil, err
			}
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{&choice}}, nil
	}}
	g := newGateway(f, gateway.Options{Model: model, AnyModel: true})
	f.Fuzz(func(t *testing.T, path, body string) {
		if _, ok := question[path]; !ok {
			path = chatPath
		}
		w := post(g, path, body)
		switch {
		case w.Code != 200 && w.Code != 400:
			t.Errorf("status %d: %s", w.Code, w.Body)
		case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
			eventsOf(t, w.Body.String())
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("not JSON: %s", w.Body)
		}
	})
}

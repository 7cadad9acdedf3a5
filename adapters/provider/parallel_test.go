package provider_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// singleCalls is a server whose chat template accepts one call per turn.
type singleCalls struct{ bodies []string }

func (s *singleCalls) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.bodies = append(s.bodies, string(body))
	status, answer := http.StatusOK, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	for _, m := range gjson.GetBytes(body, "messages").Array() {
		if m.Get("tool_calls.#").Int() > 1 {
			status, answer = http.StatusBadRequest, `{"error":{"message":"This model only supports single tool-calls at once! This model only supports single tool-calls at once!","type":"BadRequestError","code":400}}`
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// If a server accepts one call per turn, a turn with several calls is sent as several turns with their results, and
// the next request does so without another error.
func TestCallsInParallelBecomeTurns(t *testing.T) {
	server := &singleCalls{}
	m, err := provider.New(provider.Options{Model: "llama-3", BaseURL: "http://localhost/v1", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	call := func(id string) llms.ToolCall {
		return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{}`}}
	}
	result := func(id string) llms.ToolCallResponse {
		return llms.ToolCallResponse{ToolCallID: id, Name: "look", Content: "saw " + id}
	}
	messages := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeHuman, "look twice"),
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.TextContent{Text: "I look."}, call("a"), call("b")}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{result("b"), result("a")}},
		llms.TextParts(llms.ChatMessageTypeHuman, "and?"),
	}
	for range 2 {
		answer, err := m.GenerateContent(t.Context(), messages)
		if err != nil {
			t.Fatal(err)
		}
		if x := middleware.ExtraOf(answer.Choices[0]); strings.Join(x.NotSent, ", ") != "calls in parallel" {
			t.Errorf("not sent are %q", x.NotSent)
		}
	}
	if len(server.bodies) != 3 {
		t.Errorf("the server is asked %d times for two answers", len(server.bodies))
	}
	var told []string
	for _, one := range gjson.Get(server.bodies[len(server.bodies)-1], "messages").Array() {
		told = append(told, one.Get("role").Str+" "+one.Get("content").Str+one.Get("tool_calls.0.id").Str)
	}
	if got := strings.Join(told, "|"); got != "user look twice|assistant I look.a|tool saw a|assistant b|tool saw b|user and?" {
		t.Errorf("the server is told %s", got)
	}
}

// A proxy in front of Mistral gets what Mistral accepts: call ids of nine letters and digits.
func TestMistralBehindAProxy(t *testing.T) {
	server := &singleCalls{}
	m, err := provider.Clients()["mistral"](middleware.ClientConfig{Model: "mistral-small", BaseURL: "http://proxy.example/v1", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.GenerateContent(t.Context(), []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeHuman, "look"),
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "call_5", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{}`}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "call_5", Name: "look", Content: "seen"}}},
	}); err != nil {
		t.Fatal(err)
	}
	id := gjson.Get(server.bodies[0], "messages.1.tool_calls.0.id").Str
	if answered := gjson.Get(server.bodies[0], "messages.2.tool_call_id").Str; len(id) != 9 || answered != id {
		t.Errorf("the call is %q, its result is one of %q; want one id of nine", id, answered)
	}
}

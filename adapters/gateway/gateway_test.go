package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"
	client "github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// recorder is a model that keeps what it was asked.
type recorder struct {
	answer   func(ctx context.Context, o *llms.CallOptions) (*llms.ContentResponse, error)
	messages []llms.MessageContent
	options  llms.CallOptions
	info     middleware.Info
}

func (r *recorder) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	r.messages, r.options, r.info = messages, llms.CallOptions{}, middleware.InfoFrom(ctx)
	for _, o := range options {
		o(&r.options)
	}
	return r.answer(ctx, &r.options)
}

func (r *recorder) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, r, prompt, options...)
}

// says returns a model that answers with the choice.
func says(choice llms.ContentChoice) *recorder {
	return &recorder{answer: func(context.Context, *llms.CallOptions) (*llms.ContentResponse, error) {
		own := choice
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{&own}}, nil
	}}
}

func newHandler(t *testing.T, o gateway.Options) http.Handler {
	t.Helper()
	h, err := gateway.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func post(h http.Handler, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestConversationArrivesWhole(t *testing.T) {
	model := says(llms.ContentChoice{Content: "fine"})
	h := newHandler(t, gateway.Options{Model: model, Models: named("small")})
	w := post(h, `{
		"model": "small", "temperature": 0, "top_p": 0.5, "max_tokens": 10, "max_completion_tokens": 20, "seed": 7, "stop": ["a", "b"], "n": 1,
		"frequency_penalty": 0.25, "presence_penalty": 0.75, "metadata": {"team": "blue"},
		"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
		"tools": [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object"}, "strict": true}}],
		"tool_choice": "required",
		"messages": [
			{"role": "developer", "content": "be brief"},
			{"role": "user", "content": [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}]},
			{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]},
			{"role": "tool", "tool_call_id": "c1", "content": "a cat"}
		]}`, gateway.HeaderRun, "r1", gateway.HeaderSession, "s1", gateway.HeaderGroup, "g1", gateway.HeaderQuery, "q1", gateway.HeaderTenant, "t1")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	want := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, "be brief"),
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextPart("what is this?"), llms.ImageURLWithDetailPart("data:image/png;base64,AA==", "low")}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "c1", Content: "a cat"}}},
	}
	if diff := cmp.Diff(want, model.messages); diff != "" {
		t.Errorf("messages:\n%s", diff)
	}
	wantOptions := llms.CallOptions{
		Model: "small", TopP: 0.5, MaxTokens: 20, Seed: 7, StopWords: []string{"a", "b"}, N: 1, FrequencyPenalty: 0.25, PresencePenalty: 0.75,
		JSONMode: true, ToolChoice: "required",
		Tools: []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "look", Description: "looks", Parameters: map[string]any{"type": "object"}, Strict: true}}},
	}
	if diff := cmp.Diff(wantOptions, model.options); diff != "" {
		t.Errorf("options:\n%s", diff)
	}
	wantInfo := middleware.Info{
		Run: "r1", Session: "s1", Group: "g1", QueryID: "q1", Tenant: "t1", Labels: map[string]string{"team": "blue"},
		Format: sdk.ResponseFormat{JSON: true, Schema: []byte(`{"type": "object"}`)},
	}
	if diff := cmp.Diff(wantInfo, model.info); diff != "" {
		t.Errorf("info:\n%s", diff)
	}
}

func TestAnswerSaysWhatTheStepCost(t *testing.T) {
	h := newHandler(t, gateway.Options{Model: says(llms.ContentChoice{
		Content: "42", StopReason: "max_tokens", ReasoningContent: "hm",
		GenerationInfo: map[string]any{
			middleware.KeyModel: "large", middleware.KeyTraceID: "abc", middleware.KeyCostUSD: 0.25, middleware.KeyCalls: 2,
			middleware.KeyQuality: 0.5, middleware.KeyStop: "not_worth", middleware.KeyInputTokens: 30, middleware.KeyOutputTokens: 12,
		},
	})})
	w := post(h, `{"model": "stepfall", "messages": [{"role": "user", "content": "6*7?"}]}`)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "id")
	delete(got, "created")
	want := map[string]any{
		"object": "chat.completion", "model": "large",
		"choices": []any{map[string]any{
			"index": 0.0, "finish_reason": "length",
			"message": map[string]any{"role": "assistant", "content": "42", "reasoning_content": "hm"},
		}},
		"usage":    map[string]any{"prompt_tokens": 30.0, "completion_tokens": 12.0, "total_tokens": 42.0},
		"stepfall": map[string]any{"model": "large", "trace_id": "abc", "cost_usd": 0.25, "calls": 2.0, "quality": 0.5, "stop": "not_worth"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for header, value := range map[string]string{gateway.HeaderModel: "large", gateway.HeaderTraceID: "abc", gateway.HeaderCostUSD: "0.25"} {
		if got := w.Header().Get(header); got != value {
			t.Errorf("%s: %q, want %q", header, got, value)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := newHandler(t, gateway.Options{Model: says(llms.ContentChoice{}), Models: named("small", "large"), MaxBody: 600})
	const user = `"messages": [{"role": "user", "content": "hi"}]`
	for _, c := range []struct {
		body, says string
		status     int
	}{
		{`{`, "not a chat completion request", 400},
		{`{"model": "stepfall", "messages": []}`, "messages is empty", 400},
		{`{"model": "gpt-9", ` + user + `}`, `ask for "stepfall", which lets the policy choose, or for one of: small, large`, 404},
		{`{"logprobs": true, ` + user + `}`, "logprobs cannot be had", 400},
		{`{"functions": [], ` + user + `}`, "send tools", 400},
		{`{"modalities": ["text", "audio"], ` + user + `}`, "only text", 400},
		{`{"n": 0, ` + user + `}`, "n is 0", 400},
		{`{"stop": 5, ` + user + `}`, "stop is neither", 400},
		{`{"response_format": {"type": "xml"}, ` + user + `}`, `"xml"`, 400},
		{`{"response_format": {"type": "json_schema"}, ` + user + `}`, "no json_schema.schema", 400},
		{`{"tools": [{"type": "web"}], ` + user + `}`, `tools[0] has the type "web"`, 400},
		{`{"tools": [{"type": "function"}], ` + user + `}`, "tools[0] has no name", 400},
		{`{"messages": [{"role": "robot", "content": "hi"}]}`, `messages[0]: unknown role "robot"`, 400},
		{`{"messages": [{"role": "tool", "content": "hi"}]}`, "needs a tool_call_id", 400},
		{`{"messages": [{"role": "user", "content": 5}]}`, "neither text nor a list", 400},
		{`{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}`, `content[0] has the type "input_audio"`, 400},
		{`{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, "without a URL", 400},
		{`{"messages": [{"role": "user", "content": "` + strings.Repeat("x", 600) + `"}]}`, "larger than 600 bytes", 413},
	} {
		w := post(h, c.body)
		var got struct {
			Error struct{ Message string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%s: %v in %s", c.body, err, w.Body)
		}
		if w.Code != c.status || !strings.Contains(got.Error.Message, c.says) {
			t.Errorf("%.80s: status %d, %q; want %d, %q", c.body, w.Code, got.Error.Message, c.status, c.says)
		}
	}
}

func TestAnyModel(t *testing.T) {
	model := says(llms.ContentChoice{Content: "hi"})
	h := newHandler(t, gateway.Options{Model: model, Models: named("small"), AnyModel: true})
	if w := post(h, `{"model": "gpt-9", "messages": [{"role": "user", "content": "hi"}]}`); w.Code != http.StatusOK || model.options.Model != "" {
		t.Errorf("status %d, pinned to %q", w.Code, model.options.Model)
	}
}

func TestKeysAreTenants(t *testing.T) {
	model := says(llms.ContentChoice{Content: "hi"})
	h := newHandler(t, gateway.Options{Model: model, Keys: map[string]string{"k-blue": "blue"}})
	const body = `{"messages": [{"role": "user", "content": "hi"}]}`
	for _, key := range []string{"", "Bearer k-red", "k"} {
		if w := post(h, body, "Authorization", key); w.Code != http.StatusUnauthorized {
			t.Errorf("key %q: status %d", key, w.Code)
		}
	}
	// With keys, a client cannot spend another tenant's budget.
	if w := post(h, body, "Authorization", "Bearer k-blue", gateway.HeaderTenant, "red"); w.Code != http.StatusOK || model.info.Tenant != "blue" {
		t.Errorf("status %d, tenant %q", w.Code, model.info.Tenant)
	}
	if _, err := gateway.New(gateway.Options{Model: model, Keys: map[string]string{"": "blue"}}); err == nil {
		t.Error("an empty key was accepted")
	}
}

func TestErrorsOfTheStep(t *testing.T) {
	for code, want := range map[llms.ErrorCode]int{
		llms.ErrCodeInvalidRequest: 400, llms.ErrCodeTokenLimit: 400, llms.ErrCodeContentFilter: 400, llms.ErrCodeQuotaExceeded: 429,
		llms.ErrCodeRateLimit: 429, llms.ErrCodeTimeout: 504, llms.ErrCodeProviderUnavailable: 503, llms.ErrCodeAuthentication: 502, llms.ErrCodeUnknown: 502,
	} {
		model := &recorder{answer: func(context.Context, *llms.CallOptions) (*llms.ContentResponse, error) {
			return nil, &llms.Error{Code: code, Message: "no"}
		}}
		h := newHandler(t, gateway.Options{Model: model})
		for _, stream := range []string{"false", "true"} {
			if w := post(h, `{"stream": `+stream+`, "messages": [{"role": "user", "content": "hi"}]}`); w.Code != want {
				t.Errorf("%s, stream %s: status %d, want %d", code, stream, w.Code, want)
			}
		}
	}
}

// TestClientRoundTrip lets langchaingo's client talk to the gateway.
func TestClientRoundTrip(t *testing.T) {
	call := llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}
	model := &recorder{answer: func(ctx context.Context, o *llms.CallOptions) (*llms.ContentResponse, error) {
		if o.StreamingFunc != nil {
			for _, chunk := range []string{"let ", "me ", "see", `[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]`} {
				if err := o.StreamingFunc(ctx, []byte(chunk)); err != nil {
					return nil, err
				}
			}
		}
		info := map[string]any{middleware.KeyModel: "large", middleware.KeyInputTokens: 30, middleware.KeyOutputTokens: 12}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "let me see", ToolCalls: []llms.ToolCall{call}, GenerationInfo: info}}}, nil
	}}
	server := httptest.NewServer(newHandler(t, gateway.Options{Model: model}))
	defer server.Close()
	c, err := client.New(client.WithBaseURL(server.URL+"/v1"), client.WithToken("none"), client.WithModel("stepfall"))
	if err != nil {
		t.Fatal(err)
	}
	tools := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "look", Parameters: map[string]any{"type": "object"}}}})
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "look")}
	for _, streaming := range []bool{false, true} {
		options := []llms.CallOption{tools}
		var text bytes.Buffer
		if streaming {
			options = append(options, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
				if !bytes.HasPrefix(chunk, []byte("[")) {
					text.Write(chunk)
				}
				return nil
			}))
		}
		resp, err := c.GenerateContent(t.Context(), messages, options...)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.Choices[0]
		if got.Content != "let me see" || got.StopReason != "tool_calls" || got.GenerationInfo["TotalTokens"] != 42 {
			t.Errorf("streaming %v: got %+v", streaming, got)
		}
		if diff := cmp.Diff([]llms.ToolCall{call}, got.ToolCalls); diff != "" {
			t.Errorf("streaming %v: tool calls:\n%s", streaming, diff)
		}
		if streaming && text.String() != "let me see" {
			t.Errorf("streamed %q", &text)
		}
	}
}

func TestStreamThatFailsInTheMiddle(t *testing.T) {
	model := &recorder{answer: func(ctx context.Context, o *llms.CallOptions) (*llms.ContentResponse, error) {
		if err := o.StreamingFunc(ctx, []byte("half")); err != nil {
			return nil, err
		}
		return nil, errors.New("the line is dead")
	}}
	w := post(newHandler(t, gateway.Options{Model: model}), `{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`)
	body := w.Body.String()
	if !strings.Contains(body, `"content":"half"`) || !strings.Contains(body, "the line is dead") || strings.Contains(body, "[DONE]") {
		t.Errorf("got %s", body)
	}
}

func TestStreamIsKeptOpenWhileNothingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &recorder{answer: func(context.Context, *llms.CallOptions) (*llms.ContentResponse, error) {
			time.Sleep(25 * time.Second)
			return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "late"}}}, nil
		}}
		w := post(newHandler(t, gateway.Options{Model: model}), `{"stream": true, "messages": [{"role": "user", "content": "hi"}]}`)
		want := ": at work\n\n: at work\n\ndata: "
		if body := w.Body.String(); !strings.HasPrefix(body, want) || !strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.Contains(body, `"content":"late"`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestSeveralChoices(t *testing.T) {
	model := &recorder{answer: func(_ context.Context, o *llms.CallOptions) (*llms.ContentResponse, error) {
		if o.StreamingFunc != nil {
			return nil, errors.New("chunks of several choices cannot be told apart")
		}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "one"}, {Content: "two"}}}, nil
	}}
	w := post(newHandler(t, gateway.Options{Model: model}), `{"stream": true, "n": 2, "messages": [{"role": "user", "content": "hi"}]}`)
	for _, want := range []string{`{"index":0,"delta":{"role":"assistant","content":"one"}`, `{"index":1,"delta":{"content":"two"}`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in %s", want, w.Body)
		}
	}
}

func TestModels(t *testing.T) {
	w := httptest.NewRecorder()
	newHandler(t, gateway.Options{Model: says(llms.ContentChoice{}), Models: named("small")}).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", http.NoBody))
	var got struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Data) != 2 || got.Data[0].ID != "stepfall" || got.Data[1].ID != "small" {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// TestClientsThatStall sends half a request, and leaves a step running for longer
// than a client may take to send one.
func TestClientsThatStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := &recorder{answer: func(ctx context.Context, _ *llms.CallOptions) (*llms.ContentResponse, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * time.Minute):
				return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "late"}}}, nil
			}
		}}
		server := http.Server{Handler: newHandler(t, gateway.Options{Model: model})}
		listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()

		const body = `{"messages": [{"role": "user", "content": "hi"}]}`
		ask := func(sent string) string {
			near, far := net.Pipe()
			defer near.Close()
			listener.conns <- far
			request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), sent)
			if _, err := near.Write([]byte(request)); err != nil {
				t.Error(err)
			}
			got, err := io.ReadAll(near)
			if err != nil {
				t.Error(err)
			}
			return string(got)
		}
		began := time.Now()
		if got := ask(body); !strings.Contains(got, `"content":"late"`) || time.Since(began) != 10*time.Minute {
			t.Errorf("a long step: %q after %v", got, time.Since(began))
		}
		began = time.Now()
		ask(body[:10])
		if took := time.Since(began); took > time.Minute {
			t.Errorf("half a request held its connection for %v", took)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// pipeListener accepts the connections that it is given.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// named returns names that do not change.
func named(names ...string) func() []string { return func() []string { return names } }

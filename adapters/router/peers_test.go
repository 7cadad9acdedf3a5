package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/compliance"
	"github.com/tmc/langchaingo/testing/llmtest"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// open returns a router for a policy from memory.
func open(t *testing.T, src string) *router.Router {
	t.Helper()
	p, err := policies.Parse("policy.hcl", []byte(src), policies.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(t.Context(), p, full.Complete(router.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// suitePolicy has one model of a provider at a server.
func suitePolicy(provider, url string) string {
	return `
model "only" {
  provider          = "` + provider + `"
  base_url          = "` + url + `"
  max_output_tokens = 1000
  capabilities      = ["tools", "images", "json_mode"]
  price { free = true }
}
strategy "route" { lambda = 1 }
retry { max_attempts = 1 }
`
}

// polite answers the prompts of langchaingo's suites.
func polite(_ context.Context, req *scripted.Request) scripted.Reply {
	if len(req.Tools) > 0 {
		return scripted.Reply{ToolCalls: []scripted.ToolCall{{ID: "1", Name: req.Tools[0], Arguments: `{"location":"Paris","expression":"2+2"}`}}}
	}
	last := req.LastUser()
	for asked, answer := range map[string]string{
		"my name": "Your name is Alice.", "42": "42", "Count": "1 2 3 4", "days of the week": "Monday, Tuesday, Wednesday, Thursday",
	} {
		if strings.Contains(last, asked) {
			return scripted.Reply{Text: answer}
		}
	}
	return scripted.Reply{Text: "Hello, World!"}
}

// The openai client itself fails the whole compliance suite, because it rejects the suite's roles.
func TestPeersSuitesPassOnTheWrappedOpenAIClient(t *testing.T) {
	server, err := scripted.Start(scripted.Options{Respond: polite})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	r := open(t, suitePolicy("openai", server.URL()))
	t.Run("llmtest", func(t *testing.T) { llmtest.TestLLM(t, r) })
	t.Run("compliance", func(t *testing.T) { compliance.NewSuite("stepfall", r).Run(t) })
}

// reply serves one body and status for every request and records the last request.
func reply(t *testing.T, status int, body string, last *map[string]any) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		data, err := io.ReadAll(req.Body)
		if err == nil && last != nil {
			err = json.Unmarshal(data, last)
		}
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestOllamaFailuresAreNotEmptyAnswers(t *testing.T) {
	r := open(t, suitePolicy("ollama", reply(t, http.StatusServiceUnavailable, "", nil)))
	resp, err := r.GenerateContent(t.Context(), []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "hi")})
	typed, ok := errors.AsType[*llms.Error](err)
	if resp != nil || !ok || typed.Code != llms.ErrCodeProviderUnavailable {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestAnthropicHistoryAndContentBlocks(t *testing.T) {
	var sent map[string]any
	url := reply(t, http.StatusOK, `{"id":"m","type":"message","role":"assistant","model":"claude","stop_reason":"tool_use",
		"content":[{"type":"text","text":"Again."},{"type":"tool_use","id":"t2","name":"calc","input":{"__arg1":"2+2"}}],
		"usage":{"input_tokens":11,"output_tokens":7,"cache_read_input_tokens":100}}`, &sent)
	r := open(t, suitePolicy("anthropic", url))
	ctx, rep := middleware.WithReport(t.Context())
	resp, err := r.GenerateContent(ctx, []llms.MessageContent{
		llms.TextParts("user", "1+1, then 2+2"),
		{Role: "assistant", Parts: []llms.ContentPart{llms.TextPart("First."), llms.ToolCall{ID: "t1", FunctionCall: &llms.FunctionCall{Name: "calc", Arguments: "1+1"}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "t1", Content: "2"}}},
	}, llms.WithFunctions([]llms.FunctionDefinition{{Name: "calc", Parameters: map[string]any{"type": "object"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if c := resp.Choices; len(c) != 1 || c[0].Content != "Again." || len(c[0].ToolCalls) != 1 || c[0].ToolCalls[0].Type != "function" {
		t.Errorf("choices %+v", c)
	}
	if u := rep.Usage(); u.InputTokens != 11 || u.OutputTokens != 7 || u.CachedInputTokens != 100 {
		t.Errorf("usage %+v", u)
	}
	wire, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"First."`, `"tool_use"`, `{"__arg1":"1+1"}`, `"tool_result"`, `"name":"calc"`} {
		if !strings.Contains(string(wire), part) {
			t.Errorf("the request lacks %s: %s", part, wire)
		}
	}
}

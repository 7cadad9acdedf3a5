package real_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"
	lc "github.com/tmc/langchaingo/llms/openai"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
)

// A cascade of two candidates that are the same model, so that any difference comes from the cascade.
const policy = `
model "first" {
  provider          = "openai"
  base_url          = %[1]q
  max_output_tokens = 64
  capabilities      = ["tools", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million  = 1
    output_usd_per_million = 2
  }
}
model "second" {
  provider          = "openai"
  base_url          = %[1]q
  max_output_tokens = 64
  capabilities      = ["tools", "json_mode", "json_schema", "log_probs"]
  price {
    input_usd_per_million  = 10
    output_usd_per_million = 20
  }
}
strategy "cascade_route" { lambda = 1 }
stream { mode = "commit" }
`

func ask(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

// A user's first steps, with the three clients that a Go program can use.
func TestClients(t *testing.T) {
	url := serve(t)
	theirs, err := lc.New(lc.WithModel("smollm2"), lc.WithToken("none"), lc.WithBaseURL(url))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := provider.New(provider.Options{Model: "smollm2", BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.hcl")
	if err := os.WriteFile(path, fmt.Appendf(nil, policy, url), 0o600); err != nil {
		t.Fatal(err)
	}
	cascade, err := full.Open(t.Context(), path, full.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cascade.Close()
	tokens := map[string]int{}
	for _, c := range []struct {
		name  string
		model llms.Model
	}{{"langchaingo", theirs}, {"ours", ours}, {"cascade", cascade}} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("chat and usage", func(t *testing.T) {
				choice := generate(t, c.model, "Say hello.", llms.WithMaxTokens(8), llms.WithTemperature(0))
				prompt, _ := choice.GenerationInfo["PromptTokens"].(int)
				if tokens[c.name] = prompt; strings.TrimSpace(choice.Content) == "" || prompt <= 0 {
					t.Errorf("got %+v", choice)
				}
			})
			t.Run("stream", func(t *testing.T) {
				var streamed strings.Builder
				choice := generate(t, c.model, "Say hello.", llms.WithMaxTokens(8), llms.WithTemperature(0), llms.WithStreamingFunc(func(_ context.Context, piece []byte) error {
					streamed.Write(piece)
					return nil
				}))
				if streamed.String() != choice.Content || choice.Content == "" {
					t.Errorf("streamed %q of %q", &streamed, choice.Content)
				}
			})
			t.Run("tools", func(t *testing.T) {
				choice := generate(t, c.model, "What is the weather in Paris?", llms.WithMaxTokens(64), llms.WithTemperature(0), llms.WithToolChoice("required"),
					llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "weather", Description: "The weather of a city.", Parameters: json.RawMessage(
						`{"type":"object","properties":{"city":{"type":"string","enum":["Paris","Rome"]}},"required":["city"],"additionalProperties":false}`)}}}))
				// A model this small hardly ever calls a tool, and this server does not force it to.
				if len(choice.ToolCalls) > 0 && choice.ToolCalls[0].FunctionCall.Name != "weather" || len(choice.ToolCalls) == 0 && choice.Content == "" {
					t.Errorf("got %+v", choice)
				}
				t.Logf("%d calls", len(choice.ToolCalls))
				history := append(ask("What is the weather in Paris?"),
					llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "call_1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "weather", Arguments: `{"city":"Paris"}`}}}},
					llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "call_1", Name: "weather", Content: "sunny"}}})
				resp, err := c.model.GenerateContent(t.Context(), history, llms.WithMaxTokens(8), llms.WithTemperature(0))
				if err != nil || resp.Choices[0].Content == "" {
					t.Errorf("after a result: %v", err)
				}
			})
			t.Run("schema", func(t *testing.T) {
				if c.name == "langchaingo" {
					t.Skip("it sends json_object in place of a schema")
				}
				choice := generate(t, c.model, "How many people live in Paris?", llms.WithMaxTokens(48), llms.WithTemperature(0), middleware.WithParams(middleware.Params{Schema: &middleware.Schema{
					Name: "city", Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","maxLength":12},"capital":{"type":"boolean"}},"required":["name","capital"],"additionalProperties":false}`),
				}}))
				var answer struct {
					Name    *string
					Capital *bool
				}
				if err := json.Unmarshal([]byte(choice.Content), &answer); err != nil || answer.Name == nil || answer.Capital == nil {
					t.Errorf("%q: %v", choice.Content, err)
				}
			})
			t.Run("abort", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_, err := c.model.GenerateContent(ctx, ask("Count from one to a thousand, in words."), llms.WithMaxTokens(1000), llms.WithStreamingFunc(func(context.Context, []byte) error {
					cancel()
					return nil
				}))
				if !errors.Is(err, context.Canceled) && c.name != "langchaingo" { // which hides it in a text
					t.Errorf("got %v", err)
				}
				// The server has one slot: it answers only after it has aborted the cancelled call.
				began := time.Now()
				generate(t, c.model, "Say hello.", llms.WithMaxTokens(1))
				t.Logf("the next answer took %v", time.Since(began).Round(time.Millisecond))
			})
		})
	}
	if tokens["ours"] != tokens["langchaingo"] || tokens["cascade"] != tokens["ours"] {
		t.Errorf("the same prompt is %v tokens long", tokens)
	}
}

func generate(t *testing.T, m llms.Model, text string, options ...llms.CallOption) *llms.ContentChoice {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	resp, err := m.GenerateContent(ctx, ask(text), options...)
	if errors.Is(err, io.EOF) {
		// This server closes idle connections without notice. Clients do not repeat a request that may have been
		// accepted; a cascade does.
		t.Logf("again after %v", err)
		resp, err = m.GenerateContent(ctx, ask(text), options...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return resp.Choices[0]
}

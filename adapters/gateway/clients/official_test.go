//go:build clients

package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// The expected course of a walk's conversation: see upstream.script.
const (
	firstAnswer  = "Done: 1 2 3 4."
	secondAnswer = "Done again."
	mostTurns    = 8
)

// officialWalks are Go clients, in process, each with one conversation: a question, a loop of tool calls with
// reasoning, and another question.
var officialWalks = map[string]func(ctx context.Context, g http.RoundTripper) error{
	"Go openai-go (chat)":                func(ctx context.Context, g http.RoundTripper) error { return walkChat(ctx, g, false) },
	"Go openai-go (chat, streamed)":      func(ctx context.Context, g http.RoundTripper) error { return walkChat(ctx, g, true) },
	"Go openai-go (responses)":           func(ctx context.Context, g http.RoundTripper) error { return walkResponses(ctx, g, false) },
	"Go openai-go (responses, streamed)": func(ctx context.Context, g http.RoundTripper) error { return walkResponses(ctx, g, true) },
	"Go anthropic-sdk-go":                func(ctx context.Context, g http.RoundTripper) error { return walkMessages(ctx, g, false) },
	"Go anthropic-sdk-go (streamed)":     func(ctx context.Context, g http.RoundTripper) error { return walkMessages(ctx, g, true) },
}

// errLost is the error of a walk that deviates from the script.
var errLost = errors.New("the conversation took another way")

// walked checks the texts at the end of a loop.
func walked(texts []string) error {
	if !slices.Equal(texts, []string{firstAnswer, secondAnswer}) {
		return fmt.Errorf("%w: %q", errLost, texts)
	}
	return nil
}

func walkChat(ctx context.Context, g http.RoundTripper, stream bool) error {
	c := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: g}), option.WithBaseURL("http://gateway/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	q := openai.ChatCompletionNewParams{
		Model: "stepfall", ReasoningEffort: shared.ReasoningEffortMedium,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Look up.")},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "lookup", Parameters: shared.FunctionParameters{
			"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}})},
	}
	var texts []string
	for range mostTurns {
		message, err := chatTurn(ctx, &c, q, stream)
		if err != nil {
			return err
		}
		q.Messages = append(q.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			q.Messages = append(q.Messages, openai.ToolMessage("found "+call.Function.Arguments, call.ID))
		}
		if len(message.ToolCalls) == 0 {
			if texts = append(texts, message.Content); len(texts) == 2 {
				break
			}
			q.Messages = append(q.Messages, openai.UserMessage("And again?"))
		}
	}
	return walked(texts)
}

func chatTurn(ctx context.Context, c *openai.Client, q openai.ChatCompletionNewParams, stream bool) (*openai.ChatCompletionMessage, error) {
	if !stream {
		got, err := c.Chat.Completions.New(ctx, q)
		if err != nil {
			return nil, err
		}
		return &got.Choices[0].Message, nil
	}
	s := c.Chat.Completions.NewStreaming(ctx, q)
	defer s.Close()
	var all openai.ChatCompletionAccumulator
	for s.Next() {
		all.AddChunk(s.Current())
	}
	if s.Err() != nil || len(all.Choices) == 0 {
		return nil, errors.Join(errLost, s.Err())
	}
	return &all.Choices[0].Message, nil
}

func walkResponses(ctx context.Context, g http.RoundTripper, stream bool) error {
	c := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: g}), option.WithBaseURL("http://gateway/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	input := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage("Look up.", responses.EasyInputMessageRoleUser)}
	q := responses.ResponseNewParams{
		Model: "stepfall", Store: param.NewOpt(false), Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffortMedium, Summary: shared.ReasoningSummaryAuto},
		Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("lookup", map[string]any{
			"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}, false)},
	}
	var texts []string
	for range mostTurns {
		q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: input}
		r, err := responsesTurn(ctx, &c, q, stream)
		if err != nil {
			return err
		}
		calls := 0
		for _, item := range r.Output {
			var own responses.ResponseInputItemUnionParam
			if err := json.Unmarshal([]byte(item.RawJSON()), &own); err != nil {
				return err
			}
			input = append(input, own)
		}
		for _, item := range r.Output {
			if item.Type == "function_call" {
				calls++
				input = append(input, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(item.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt("found " + item.Arguments.OfString)}}})
			}
		}
		if calls == 0 {
			if texts = append(texts, r.OutputText()); len(texts) == 2 {
				break
			}
			input = append(input, responses.ResponseInputItemParamOfMessage("And again?", responses.EasyInputMessageRoleUser))
		}
	}
	return walked(texts)
}

func responsesTurn(ctx context.Context, c *openai.Client, q responses.ResponseNewParams, stream bool) (*responses.Response, error) {
	if !stream {
		return c.Responses.New(ctx, q)
	}
	s := c.Responses.NewStreaming(ctx, q)
	defer s.Close()
	for s.Next() {
		if e := s.Current(); e.Type == "response.completed" {
			return &e.Response, nil
		}
	}
	return nil, errors.Join(errLost, s.Err())
}

func walkMessages(ctx context.Context, g http.RoundTripper, stream bool) error {
	c := anthropic.NewClient(anthropicoption.WithHTTPClient(&http.Client{Transport: g}), anthropicoption.WithBaseURL("http://gateway"), anthropicoption.WithAPIKey("none"), anthropicoption.WithMaxRetries(0))
	q := anthropic.MessageNewParams{
		Model: "stepfall", MaxTokens: 8000, Thinking: anthropic.ThinkingConfigParamOfEnabled(2000),
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Look up."))},
		Tools:    []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: map[string]any{"n": map[string]any{"type": "integer"}}}, "lookup")},
	}
	var texts []string
	for range mostTurns {
		m, err := messagesTurn(ctx, &c, q, stream)
		if err != nil {
			return err
		}
		q.Messages = append(q.Messages, m.ToParam())
		var results []anthropic.ContentBlockParamUnion
		text := ""
		for _, b := range m.Content {
			text += b.Text
			if b.Type == "tool_use" {
				results = append(results, anthropic.NewToolResultBlock(b.ID, "found "+string(b.Input), false))
			}
		}
		if len(results) > 0 {
			q.Messages = append(q.Messages, anthropic.NewUserMessage(results...))
			continue
		}
		if texts = append(texts, text); len(texts) == 2 {
			break
		}
		q.Messages = append(q.Messages, anthropic.NewUserMessage(anthropic.NewTextBlock("And again?")))
	}
	return walked(texts)
}

func messagesTurn(ctx context.Context, c *anthropic.Client, q anthropic.MessageNewParams, stream bool) (*anthropic.Message, error) {
	if !stream {
		return c.Messages.New(ctx, q)
	}
	s := c.Messages.NewStreaming(ctx, q)
	defer s.Close()
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return nil, err
		}
	}
	return &m, s.Err()
}

// TestOfficialClients runs the official Go clients on the nine cascades, and with -clients also those of npm and
// PyPI.
func TestOfficialClients(t *testing.T) {
	broken := brokenCells{}
	var results []result
	urls := map[string]string{}
	cascades(func(small, large *vendorModel) {
		name := small.name + " > " + large.name
		for client, walk := range officialWalks {
			u := newUpstream()
			r := result{Client: client, Feature: name, OK: true}
			if err := walk(t.Context(), cascadeOf(t, u, small, large)); err != nil {
				r.OK, r.Why = false, err.Error()
			}
			if _, refused, _ := u.forget(); len(refused) > 0 {
				r.OK, r.Why = false, refused[0].Model+" refused: "+refused[0].Message
			}
			results = append(results, r)
		}
		u := newUpstream()
		g := cascadeOf(t, u, small, large, "web_search", "namespace")
		mux := http.NewServeMux()
		mux.Handle("/", g)
		// The upstream's refusals during a client's walk, since the last call.
		mux.HandleFunc("/refused", func(w http.ResponseWriter, _ *http.Request) {
			_, refused, _ := u.forget()
			if refused == nil {
				refused = []refusal{}
			}
			_ = json.NewEncoder(w).Encode(refused)
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		urls[name] = server.URL
	})
	if *all {
		list, err := json.Marshal(urls)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("CASCADES", string(list))
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(cache, "stepfall", "clients")
		results = append(results, script(t, "", python(t, cache, "PyPI", "requirements.txt", "cascades.py", "official"))...)
		results = append(results, script(t, "", python(t, cache, "PyPI-agents", "agents.txt", "cascades.py", "agents"))...)
		results = append(results, script(t, "", npm(t, cache, "cascades.mjs"))...)
	}
	count := map[string]int{}
	for _, r := range results {
		count[r.Client]++
		if !r.OK {
			broken.addf(r.Client+", "+r.Feature, "%s", r.Why)
		}
	}
	for client, n := range count {
		if n != 9 {
			t.Errorf("%s walked through %d cascades, want 9", client, n)
		}
	}
	fmt.Printf("%d conversations of %d clients; broken are %d:\n", len(results), len(count), len(broken))
	for name, why := range broken {
		fmt.Printf("  %s: %.300s\n", name, why)
	}
	if *all {
		broken.compare(t, "broken-clients.txt")
	}
}

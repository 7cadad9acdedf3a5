//go:build clients

package clients_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

const (
	city   = `{"city":"Paris","population":2102650}`
	pixel  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	hello  = "Hello there."
	slowly = "slow down"
)

var citySchema = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}, "population": map[string]any{"type": "integer"}},
	"required": []string{"city", "population"}, "additionalProperties": false}

// probes collects the results of one client.
type probes struct {
	client string
	list   []result
}

func (p *probes) add(feature string, ok bool, why ...any) {
	p.list = append(p.list, result{p.client, feature, ok, fmt.Sprint(why...)})
}

// openAIChat tests chat completions with openai-go.
func openAIChat(t *testing.T, url string) []result {
	t.Helper()
	p := &probes{client: "Go openai-go (chat)"}
	c := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	params := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: "stepfall", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	ask := func(feature string, q openai.ChatCompletionNewParams, check func(*openai.ChatCompletion) bool) {
		t.Helper()
		var raw *http.Response
		r, err := c.Chat.Completions.New(t.Context(), q, option.WithResponseInto(&raw))
		p.add(feature, err == nil && len(r.Choices) > 0 && check(r), err, r)
		if feature == "answer" {
			p.add("request id", raw != nil && raw.Header.Get("X-Request-ID") != "")
		}
	}
	said := func(text string) func(*openai.ChatCompletion) bool {
		return func(r *openai.ChatCompletion) bool { return r.Choices[0].Message.Content == text }
	}
	weather := []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "weather", Parameters: shared.FunctionParameters{"type": "object"}})}
	calls := func(r *openai.ChatCompletion) bool {
		list := r.Choices[0].Message.ToolCalls
		return len(list) == 2 && list[0].Function.Arguments == `{"city":"Paris"}` && list[1].Function.Arguments == `{"city":"Rome"}` && r.Choices[0].FinishReason == "tool_calls"
	}
	// accumulate is the client's own reader of streams.
	accumulate := func(feature string, q openai.ChatCompletionNewParams, check func(*openai.ChatCompletion) bool) {
		t.Helper()
		q.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := c.Chat.Completions.NewStreaming(t.Context(), q)
		defer stream.Close()
		all := openai.ChatCompletionAccumulator{}
		whole := true
		for stream.Next() {
			whole = all.AddChunk(stream.Current()) && whole
		}
		p.add(feature, stream.Err() == nil && whole && len(all.Choices) > 0 && check(&all.ChatCompletion), stream.Err(), all)
	}
	ask("answer", params("hello"), said(hello))
	accumulate("stream", params("hello"), said(hello))
	tools := params("weather in two cities")
	tools.Tools = weather
	ask("tools", tools, calls)
	accumulate("streamed tools", tools, calls)
	usage := func(r *openai.ChatCompletion) bool {
		return r.Usage.PromptTokens == 12 && r.Usage.PromptTokensDetails.CachedTokens == 4 && r.Usage.CompletionTokensDetails.ReasoningTokens == 3
	}
	ask("usage", params("hello"), usage)
	accumulate("usage in streams", params("hello"), usage)
	schema := params("a city")
	schema.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "city", Schema: citySchema, Strict: openai.Bool(true)}}}
	ask("JSON schema", schema, said(city))
	image := params("")
	image.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart("look"), openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + pixel})})}
	ask("image", image, said("I see 1 image."))
	probs := params("hello")
	probs.Logprobs, probs.TopLogprobs = openai.Bool(true), openai.Int(1)
	ask("log-probs", probs, func(r *openai.ChatCompletion) bool {
		list := r.Choices[0].Logprobs.Content
		return len(list) == 2 && list[0].Token == "Hello" && list[0].Logprob == -0.1 && len(list[0].TopLogprobs) == 1
	})
	several := params("hello")
	several.N = openai.Int(2)
	ask("choices", several, func(r *openai.ChatCompletion) bool { return len(r.Choices) == 2 && r.Choices[1].Index == 1 })
	ask("refusal", params("refuse"), func(r *openai.ChatCompletion) bool { return r.Choices[0].Message.Refusal == "I will not." })
	ask("reasoning", params("think"), func(r *openai.ChatCompletion) bool {
		return r.Choices[0].Message.JSON.ExtraFields["reasoning_content"].Raw() == `"Let me think."`
	})
	_, err := c.Chat.Completions.New(t.Context(), params("busy"))
	var told *openai.Error
	p.add("errors", errors.As(err, &told) && told.StatusCode == http.StatusTooManyRequests && told.Response.Header.Get("Retry-After") == "7" && strings.Contains(told.Message, slowly), err)
	page, err := c.Models.List(t.Context())
	p.add("models", err == nil && len(page.Data) == 3 && page.Data[0].ID == "stepfall", err)
	made, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "vectors", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}})
	p.add("embeddings", err == nil && len(made.Data) == 2 && slices.Equal(made.Data[0].Embedding, []float64{0.5, -1}) && made.Usage.TotalTokens == 7, err)
	return p.list
}

// openAIResponses tests Responses with openai-go.
func openAIResponses(t *testing.T, url string) []result {
	t.Helper()
	p := &probes{client: "Go openai-go (responses)"}
	c := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	params := func(text string) responses.ResponseNewParams {
		return responses.ResponseNewParams{Model: "stepfall", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt(text)}, Store: param.NewOpt(false)}
	}
	ask := func(feature string, q responses.ResponseNewParams, check func(*responses.Response) bool) {
		t.Helper()
		r, err := c.Responses.New(t.Context(), q)
		p.add(feature, err == nil && check(r), err, r)
	}
	// last returns the final response of a stream.
	last := func(feature string, q responses.ResponseNewParams, check func(*responses.Response, string) bool) {
		t.Helper()
		stream := c.Responses.NewStreaming(t.Context(), q)
		defer stream.Close()
		var text strings.Builder
		var end *responses.Response
		for stream.Next() {
			e := stream.Current()
			if e.Type == "response.output_text.delta" {
				text.WriteString(e.Delta)
			}
			if e.Type == "response.completed" {
				end = &e.Response
			}
		}
		p.add(feature, stream.Err() == nil && end != nil && check(end, text.String()), stream.Err(), end)
	}
	calls := func(r *responses.Response) bool {
		var list []string
		for _, item := range r.Output {
			if item.Type == "function_call" {
				list = append(list, item.Arguments.OfString)
			}
		}
		return strings.Join(list, "") == `{"city":"Paris"}{"city":"Rome"}`
	}
	ask("answer", params("hello"), func(r *responses.Response) bool { return r.OutputText() == hello })
	last("stream", params("hello"), func(r *responses.Response, text string) bool { return r.OutputText() == hello && text == hello })
	tools := params("weather in two cities")
	tools.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", map[string]any{"type": "object"}, false)}
	ask("tools", tools, calls)
	last("streamed tools", tools, func(r *responses.Response, _ string) bool { return calls(r) })
	ask("usage", params("hello"), func(r *responses.Response) bool {
		return r.Usage.InputTokens == 12 && r.Usage.InputTokensDetails.CachedTokens == 4 && r.Usage.OutputTokensDetails.ReasoningTokens == 3
	})
	schema := params("a city")
	schema.Text = responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigParamOfJSONSchema("city", citySchema)}
	ask("JSON schema", schema, func(r *responses.Response) bool { return r.OutputText() == city })
	ask("reasoning", params("think"), func(r *responses.Response) bool {
		return len(r.Output) > 0 && r.Output[0].Type == "reasoning" && r.Output[0].EncryptedContent == "sealed"
	})
	_, err := c.Responses.New(t.Context(), params("busy"))
	var told *openai.Error
	p.add("errors", errors.As(err, &told) && told.StatusCode == http.StatusTooManyRequests && strings.Contains(told.Message, slowly), err)
	return p.list
}

// anthropicMessages tests Messages with anthropic-sdk-go.
func anthropicMessages(t *testing.T, url string) []result {
	t.Helper()
	p := &probes{client: "Go anthropic-sdk-go"}
	c := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("none"), anthropicoption.WithMaxRetries(0))
	params := func(blocks ...anthropic.ContentBlockParamUnion) anthropic.MessageNewParams {
		return anthropic.MessageNewParams{Model: "stepfall", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(blocks...)}}
	}
	text := anthropic.NewTextBlock
	said := func(want string) func(*anthropic.Message) bool {
		return func(m *anthropic.Message) bool {
			return len(m.Content) > 0 && m.Content[len(m.Content)-1].Text == want
		}
	}
	ask := func(feature string, q anthropic.MessageNewParams, check func(*anthropic.Message) bool) {
		t.Helper()
		m, err := c.Messages.New(t.Context(), q)
		p.add(feature, err == nil && check(m), err, m)
	}
	accumulate := func(feature string, q anthropic.MessageNewParams, check func(*anthropic.Message) bool) {
		t.Helper()
		stream := c.Messages.NewStreaming(t.Context(), q)
		defer stream.Close()
		var m anthropic.Message
		var err error
		for stream.Next() && err == nil {
			err = m.Accumulate(stream.Current())
		}
		p.add(feature, stream.Err() == nil && err == nil && check(&m), stream.Err(), err, m.RawJSON())
	}
	calls := func(m *anthropic.Message) bool {
		var list []string
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				data, err := json.Marshal(b.Input)
				list = append(list, fmt.Sprintf("%s%v", data, map[bool]string{true: "", false: "!"}[err == nil]))
			}
		}
		return strings.Join(list, "") == `{"city":"Paris"}{"city":"Rome"}` && m.StopReason == "tool_use"
	}
	usage := func(m *anthropic.Message) bool {
		return m.Usage.InputTokens == 8 && m.Usage.CacheReadInputTokens == 4 && m.Usage.OutputTokens == 8
	}
	ask("answer", params(text("hello")), said(hello))
	accumulate("stream", params(text("hello")), said(hello))
	tools := params(text("weather in two cities"))
	tools.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{}, "weather")}
	ask("tools", tools, calls)
	accumulate("streamed tools", tools, calls)
	ask("usage", params(text("hello")), usage)
	accumulate("usage in streams", params(text("hello")), usage)
	ask("image", params(anthropic.NewImageBlockBase64("image/png", pixel), text("look")), said("I see 1 image."))
	ask("reasoning", params(text("think")), func(m *anthropic.Message) bool {
		return m.Content[0].Thinking == "Let me think." && m.Content[0].Signature == "signed"
	})
	ask("refusal", params(text("refuse")), func(m *anthropic.Message) bool { return m.StopReason == "refusal" })
	_, err := c.Messages.New(t.Context(), params(text("busy")))
	var told *anthropic.Error
	p.add("errors", errors.As(err, &told) && told.StatusCode == http.StatusTooManyRequests && told.RequestID != "" && strings.Contains(told.Error(), slowly), err)
	counted, err := c.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "stepfall", Messages: params(text("hello")).Messages})
	p.add("token count", err == nil && counted.InputTokens > 0, err)
	page, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
	p.add("models", err == nil && len(page.Data) == 3 && page.Data[0].ID == "stepfall", err)
	return p.list
}

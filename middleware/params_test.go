package middleware_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// nativeModel is a model that reads Params and records its requests.
type nativeModel struct {
	messages []llms.MessageContent
	options  llms.CallOptions
	params   middleware.Params
	deltas   []middleware.Delta
	resp     *llms.ContentResponse
}

func (*nativeModel) Dialect() middleware.Dialect { return middleware.DialectChat }

func (s *nativeModel) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	s.messages = messages
	s.options, s.params = middleware.Resolve(options...)
	if s.params.OnDelta != nil {
		for i := range s.deltas {
			if err := s.params.OnDelta(ctx, &s.deltas[i]); err != nil {
				return nil, err
			}
		}
	}
	return s.resp, nil
}

func (s *nativeModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, s, prompt, options...)
}

func TestUnsetStaysUnset(t *testing.T) {
	_, none := middleware.Resolve()
	if d := cmp.Diff(middleware.Params{}, none); d != "" {
		t.Errorf("nothing was asked for:\n%s", d)
	}
	_, zero := middleware.Resolve(llms.WithTemperature(0), llms.WithSeed(0), llms.WithTopP(0), llms.WithMaxTokens(0))
	if zero.Temperature == nil || zero.Seed == nil || zero.TopP == nil || zero.MaxTokens != nil {
		t.Errorf("got %+v", zero)
	}
	o, later := middleware.Resolve(
		middleware.WithParams(middleware.Params{Temperature: new(0.5), MaxTokens: new(7), User: "ada"}),
		llms.WithTemperature(0),
		middleware.WithParams(middleware.Params{Verbosity: "low"}),
	)
	if *later.Temperature != 0 || *later.MaxTokens != 7 || o.MaxTokens != 7 || later.User != "ada" || later.Verbosity != "low" || len(o.Metadata) > 0 {
		t.Errorf("got %+v and %+v", later, o)
	}
}

var point = &middleware.Schema{Name: "point", Schema: json.RawMessage(`{"type":"object","required":["x"],"properties":{"x":{"type":"number"}}}`), Strict: new(true)}

func TestParamsReachWhoReadsThem(t *testing.T) {
	knows := &nativeModel{resp: text(`{"x": 1}`)}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{large(knows)}})
	if _, err := m.GenerateContent(t.Context(), human("where?"), middleware.WithParams(middleware.Params{
		Temperature: new(0.0), Schema: point, ReasoningEffort: "low", Extra: map[string]json.RawMessage{"new": json.RawMessage(`1`)}, Dialect: middleware.DialectChat,
	})); err != nil {
		t.Fatal(err)
	}
	want := middleware.Params{Temperature: new(0.0), Schema: point, ReasoningEffort: "low", Extra: map[string]json.RawMessage{"new": json.RawMessage(`1`)}, Dialect: middleware.DialectChat}
	if d := cmp.Diff(want, knows.params); d != "" {
		t.Error(d)
	}
	if !knows.options.JSONMode || len(knows.messages) != 1 {
		t.Errorf("got %+v and %v", knows.options, knows.messages)
	}
}

// A model with a client of langchaingo's gets what langchaingo can express, the schema as text, and nothing that the
// client would send by mistake.
func TestParamsForOthers(t *testing.T) {
	var messages []llms.MessageContent
	var options llms.CallOptions
	other := &fake{say: func(_ context.Context, m []llms.MessageContent, o *llms.CallOptions) (*llms.ContentResponse, error) {
		messages, options = m, *o
		return text(`{"x": 1}`), nil
	}}
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{large(other)}})
	conversation := []llms.MessageContent{
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{
			middleware.NamePart{Name: "ada"}, llms.TextContent{Text: "where?"},
			middleware.FilePart{MIMEType: "image/png", Data: []byte{1}},
		}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{
			middleware.RawPart{Dialect: middleware.DialectAnthropic, Raw: json.RawMessage(`{"type":"thinking"}`)},
			llms.ToolCall{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}},
		}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "1", Name: "look", Content: "dark"}, Failed: true},
		}},
	}
	if _, err := m.GenerateContent(t.Context(), conversation, middleware.WithParams(middleware.Params{Temperature: new(0.5), Schema: point, User: "ada"})); err != nil {
		t.Fatal(err)
	}
	if options.Temperature != 0.5 || !options.JSONMode || len(options.Metadata) > 0 {
		t.Errorf("got %+v", options)
	}
	want := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, messages[0].Parts[0].(llms.TextContent).Text),
		{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.TextContent{Text: "where?"}, llms.BinaryContent{MIMEType: "image/png", Data: []byte{1}}}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{conversation[1].Parts[1]}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "1", Name: "look", Content: "dark"}}},
	}
	if d := cmp.Diff(want, messages); d != "" {
		t.Error(d)
	}
	if said := messages[0].Parts[0].(llms.TextContent).Text; !strings.Contains(said, string(point.Schema)) {
		t.Errorf("the schema is not in %q", said)
	}
}

func TestSchemaIsChecked(t *testing.T) {
	m := wrap(t, middleware.Config{Models: []middleware.Candidate{small(&nativeModel{resp: text(`{"y": 1}`)}), large(&nativeModel{resp: text(`{"x": 1}`)})}})
	resp, err := m.GenerateContent(t.Context(), human("where?"), middleware.WithParams(middleware.Params{Schema: point}))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Choices[0].Content; got != `{"x": 1}` {
		t.Errorf("got %s", got)
	}
}

func TestDeltas(t *testing.T) {
	call := llms.ToolCall{ID: "1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":1}`}}
	pieces := []middleware.Delta{{Reasoning: "hm"}, {Text: "I "}, {Text: "look"}, {Tool: &middleware.ToolDelta{ID: "1", Name: "look"}}, {Tool: &middleware.ToolDelta{Arguments: `{"at":1}`}}}
	whole := []middleware.Delta{{Reasoning: "hm", Text: "I look"}, {Tool: &middleware.ToolDelta{ID: "1", Name: "look", Arguments: `{"at":1}`}}}
	offer := llms.WithTools([]llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "look"}}})
	for _, tt := range []struct {
		mode middleware.StreamMode
		want []middleware.Delta
	}{{middleware.Passthrough, pieces}, {middleware.Buffer, whole}} {
		resp := text("I look")
		resp.Choices[0].ReasoningContent, resp.Choices[0].ToolCalls = "hm", []llms.ToolCall{call}
		m := wrap(t, middleware.Config{Models: []middleware.Candidate{large(&nativeModel{resp: resp, deltas: slices.Clone(pieces)})}, Stream: tt.mode})
		var got []middleware.Delta
		if _, err := m.GenerateContent(t.Context(), human("q"), offer, middleware.WithParams(middleware.Params{
			OnDelta: func(_ context.Context, d *middleware.Delta) error { got = append(got, *d); return nil },
		})); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].From != "large" {
				t.Errorf("%s: said by %q", tt.mode, got[i].From)
			}
			got[i].From = ""
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s:\n%s", tt.mode, d)
		}
	}
}

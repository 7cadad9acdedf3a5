package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// table reads the table of docs/providers.md whose header begins with header.
func table(t *testing.T, header string) (columns []string, rows map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			if columns != nil {
				return columns, rows
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case strings.HasPrefix(line, header):
			columns = cells[1:]
		case columns != nil && cells[0] != "---":
			rows[cells[0]] = cells[1:]
		}
	}
	t.Fatalf("no table %q", header)
	return nil, nil
}

// at returns the value at a path in a request.
func at(asked any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := asked.(map[string]any)
		if !ok {
			return nil, false
		}
		if asked, ok = object[name]; !ok {
			return nil, false
		}
	}
	return asked, true
}

var pointSchema = json.RawMessage(`{"type":"object","properties":{"x":{"type":"number"}},"additionalProperties":false}`)

// asks are the rows of the table: how to request each field, and the expected request, as far as it is the same for
// all APIs.
func asks(d middleware.Dialect) map[string]struct {
	option llms.CallOption
	want   any
} {
	type ask = struct {
		option llms.CallOption
		want   any
	}
	with := func(p middleware.Params) llms.CallOption { return middleware.WithParams(p) }
	return map[string]ask{
		"Temperature": {with(middleware.Params{Temperature: new(0.0)}), 0.0}, "TopP": {llms.WithTopP(0.25), 0.25}, "TopK": {llms.WithTopK(7), 7.0},
		"Seed": {llms.WithSeed(0), 0.0}, "FrequencyPenalty": {llms.WithFrequencyPenalty(0), 0.0}, "PresencePenalty": {llms.WithPresencePenalty(0.5), 0.5},
		"RepetitionPenalty": {llms.WithRepetitionPenalty(1.5), 1.5}, "MaxTokens": {llms.WithMaxTokens(17), 17.0}, "N": {llms.WithN(2), 2.0},
		"LogitBias": {with(middleware.Params{LogitBias: map[string]float64{"50": -100}}), nil}, "LogProbs": {with(middleware.Params{LogProbs: new(true)}), nil},
		"TopLogProbs": {with(middleware.Params{LogProbs: new(true), TopLogProbs: new(3)}), 3.0},
		"Schema":      {with(middleware.Params{Schema: &middleware.Schema{Name: "point", Schema: pointSchema}}), pointSchema},
		"JSONMode":    {llms.WithJSONMode(), nil}, "StopWords": {llms.WithStopWords([]string{"END"}), []any{"END"}},
		"Tools": {llms.WithTools(lookTool()), nil}, "ToolChoice": {options(llms.WithTools(lookTool()), llms.WithToolChoice("required")), nil},
		"ParallelToolCalls": {options(llms.WithTools(lookTool()), with(middleware.Params{ParallelToolCalls: new(false)})), nil},
		"ReasoningEffort":   {with(middleware.Params{ReasoningEffort: "low"}), nil}, "ReasoningTokens": {with(middleware.Params{ReasoningTokens: new(2048)}), 2048.0},
		"ReasoningSummary": {with(middleware.Params{ReasoningSummary: "auto"}), nil}, "Verbosity": {with(middleware.Params{Verbosity: "low"}), "low"},
		"User": {with(middleware.Params{User: "ada"}), "ada"}, "SafetyIdentifier": {with(middleware.Params{SafetyIdentifier: "s"}), "s"},
		"PromptCacheKey": {with(middleware.Params{PromptCacheKey: "c"}), "c"}, "ServiceTier": {with(middleware.Params{ServiceTier: "default"}), nil},
		"Store": {with(middleware.Params{Store: new(false)}), false}, "Metadata": {with(middleware.Params{Metadata: map[string]string{"a": "b"}}), map[string]any{"a": "b"}},
		"Prediction": {with(middleware.Params{Prediction: json.RawMessage(`{"type":"content","content":"x"}`)}), nil},
		"Extra":      {with(middleware.Params{Dialect: d, Extra: map[string]json.RawMessage{"novel": json.RawMessage(`{"deep":[1]}`)}}), map[string]any{"deep": []any{1.0}}},
	}
}

func options(list ...llms.CallOption) llms.CallOption {
	return func(o *llms.CallOptions) {
		for _, option := range list {
			option(o)
		}
	}
}

func lookTool() []llms.Tool {
	return []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "look", Description: "looks", Parameters: pointSchema}}}
}

// Every cell of the table of fields matches the actual request, and no field is sent that was not
// requested.
func TestEveryFieldOfTheTable(t *testing.T) {
	columns, rows := table(t, "| asked for |")
	for c, column := range columns {
		d := &dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == column })]
		u := d.serve(t)
		m := u.model(t)
		speaks := m.(middleware.NativeModel).Dialect()
		if _, err := m.GenerateContent(t.Context(), human("hi")); err != nil {
			t.Fatal(err)
		}
		plain := u.asked
		for name, ask := range asks(speaks) {
			row, ok := rows[name]
			if !ok {
				t.Errorf("the table has no row %s", name)
				continue
			}
			t.Run(column+"/"+name, func(t *testing.T) {
				if _, there := at(plain, row[c]); there && name != "MaxTokens" {
					t.Errorf("%s is sent without having been asked for", row[c])
				}
				resp, err := m.GenerateContent(t.Context(), human("hi"), ask.option)
				if err != nil {
					t.Fatal(err)
				}
				notSent := middleware.ExtraOf(resp.Choices[0]).NotSent
				if row[c] == "-" {
					if !slices.Contains(notSent, name) {
						t.Errorf("NotSent is %v, and does not have %s", notSent, name)
					}
					if sent, was := fmt.Sprint(u.asked), fmt.Sprint(plain); name != "JSONMode" && name != "ToolChoice" && name != "ParallelToolCalls" && sent != was {
						t.Errorf("the request changed: %s", sent)
					}
					return
				}
				got, there := at(u.asked, row[c])
				if !there || slices.Contains(notSent, name) {
					t.Fatalf("no %s in %v (not sent: %v)", row[c], u.asked, notSent)
				}
				want := ask.want
				if raw, ok := want.(json.RawMessage); ok {
					if err := json.Unmarshal(raw, &want); err != nil {
						t.Fatal(err)
					}
				}
				if want != nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", row[c], got, want)
				}
			})
		}
	}
	if len(rows) != len(asks("")) {
		t.Errorf("the table has %d rows, the test %d", len(rows), len(asks("")))
	}
}

// Every field of Params is in the table.
func TestEveryParamHasARow(t *testing.T) {
	_, rows := table(t, "| asked for |")
	p := reflect.TypeFor[middleware.Params]()
	for f := range p.Fields() {
		switch name := f.Name; name {
		case "RawTools", "Dialect", "OnDelta":
		default:
			if _, ok := rows[name]; !ok {
				t.Errorf("the table says nothing of %s", name)
			}
		}
	}
}

// Every cell of the table of message parts is correct.
func TestEveryPartOfTheTable(t *testing.T) {
	call := llms.ToolCall{ID: "c1", Type: "function", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: `{"at":12345}`}}
	tool := func(p llms.ContentPart) []llms.MessageContent {
		return append(human("hi"), llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{p}})
	}
	user := func(p ...llms.ContentPart) []llms.MessageContent {
		return []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: append(p, llms.TextContent{Text: "hi"})}}
	}
	data := []byte("payload") // cGF5bG9hZA== in base64
	cases := map[string]struct {
		messages []llms.MessageContent
		mark     string // what the request then holds
	}{
		"text":                     {user(), "hi"},
		"image, in full":           {user(llms.BinaryContent{MIMEType: "image/png", Data: data}), "cGF5bG9hZA=="},
		"image, by address":        {user(llms.ImageURLContent{URL: "https://example.com/a.png"}), "https://example.com/a.png"},
		"PDF, in full":             {user(middleware.FilePart{Name: "a.pdf", MIMEType: "application/pdf", Data: data}), "cGF5bG9hZA=="},
		"PDF, by address":          {user(middleware.FilePart{MIMEType: "application/pdf", URL: "https://example.com/a.pdf"}), "https://example.com/a.pdf"},
		"audio, in full":           {user(llms.BinaryContent{MIMEType: "audio/wav", Data: data}), "cGF5bG9hZA=="},
		"name of the speaker":      {user(middleware.NamePart{Name: "speaker-ada"}), "speaker-ada"},
		"tool call and its result": {tool(llms.ToolCallResponse{ToolCallID: "c1", Name: "look", Content: "it is dark"}), "it is dark"},
		"result with an image": {tool(middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "c1", Name: "look", Content: "see"},
			Parts: []llms.ContentPart{llms.TextContent{Text: "see"}, llms.BinaryContent{MIMEType: "image/png", Data: data}}}), "cGF5bG9hZA=="},
		"result that failed": {tool(middleware.ResultPart{ToolCallResponse: llms.ToolCallResponse{ToolCallID: "c1", Name: "look", Content: "boom"}, Failed: true}), "error"},
		"cache mark":         {user(llms.CachedContent{ContentPart: llms.TextContent{Text: "long"}, CacheControl: &llms.CacheControl{Type: "ephemeral"}}), "ephemeral"},
	}
	columns, rows := table(t, "| part |")
	for c, column := range columns {
		d := &dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == column })]
		for name, row := range rows {
			t.Run(column+"/"+name, func(t *testing.T) {
				tt, ok := cases[name]
				if !ok {
					t.Fatal("no such case")
				}
				u := d.serve(t)
				_, err := u.model(t).GenerateContent(t.Context(), tt.messages)
				sent, fault := json.Marshal(u.asked)
				if fault != nil {
					t.Fatal(fault)
				}
				holds := strings.Contains(string(sent), tt.mark)
				switch row[c] {
				case "yes":
					if err != nil || !holds {
						t.Errorf("%v; sent %s", err, sent)
					}
				case "left out":
					if err != nil || holds {
						t.Errorf("%v; sent %s", err, sent)
					}
				case "refused":
					if err == nil || u.requests > 0 {
						t.Errorf("sent %s", sent)
					}
				default:
					t.Errorf("unknown cell %q", row[c])
				}
			})
		}
	}
	if len(rows) != len(cases) {
		t.Errorf("the table has %d rows, the test %d", len(rows), len(cases))
	}
}

// refusals are the forms in which each API reports that the model refused, or that the answer was blocked.
var refusals = map[string]struct{ refused, blocked string }{
	"chat": {`{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"content":null,"refusal":"I will not"}}]}`,
		`{"id":"c","choices":[{"index":0,"finish_reason":"content_filter","message":{"content":""}}]}`},
	"Responses": {`{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"I will not"}]}]}`,
		`{"id":"r","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`},
	"Anthropic": {`{"id":"m","content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"I will not"}}`,
		`{"id":"m","content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber"}}`},
	"Gemini": {`{"candidates":[{"index":0,"finishReason":"SAFETY"}]}`, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`},
	"Ollama": {`{"message":{"content":"no"},"done":true}`, `{"message":{"content":"no"},"done":true}`},
}

// Every cell of the table of answers is correct.
func TestEveryAnswerOfTheTable(t *testing.T) {
	columns, rows := table(t, "| | chat |")
	for c, column := range columns {
		d := &dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.name == column })]
		u := d.serve(t)
		m := u.model(t)
		ask := func(body string) *middleware.Extra {
			t.Helper()
			u.answer = nil
			if body != "" {
				u.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, body)
				}
			}
			resp, err := m.GenerateContent(t.Context(), human("hi"))
			if err != nil {
				t.Fatal(column, err)
			}
			return middleware.ExtraOf(resp.Choices[0])
		}
		x, refused, blocked := ask(""), ask(refusals[column].refused), ask(refusals[column].blocked)
		written := strings.NewReplacer(`"cached_tokens":40`, `"cached_tokens":40,"cache_write_tokens":5`).Replace(strings.ReplaceAll(d.whole, "\n", ""))
		writes := ask(written)
		got := map[string]bool{
			"ID": x.ID != "", "RequestID": x.RequestID != "", "Served": x.Served != "", "Fingerprint": x.Fingerprint != "", "ServiceTier": x.ServiceTier != "",
			"Created": x.Created > 0, "StopReason": x.StopReason != "", "LogProbs": len(x.LogProbs) == 1 && x.LogProbs[0].Top[0].Token == "Hello",
			"cached input": x.Usage.CachedInputTokens > 0, "cache writes": writes.Usage.CacheWriteTokens > 0, "reasoning tokens": x.Usage.ReasoningTokens > 0,
			"Refusal": refused.Refusal == "I will not", "Blocked": blocked.Blocked != "", "Parts": len(x.Parts) > 0,
		}
		for name, row := range rows {
			if there, ok := got[name]; !ok || there != (row[c] == "yes") {
				t.Errorf("%s, %s: the table says %q; it comes: %v", column, name, row[c], there)
			}
		}
		if len(rows) != len(got) {
			t.Errorf("the table has %d rows, the test %d", len(rows), len(got))
		}
	}
}

package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
)

// Compatible servers stream in different ways. Either the whole answer arrives, or the call fails; a partial answer is
// never accepted as complete.
func TestOddStreams(t *testing.T) {
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	piece := func(text string) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
	}
	tool := func(fragment string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[` + fragment + `]},"finish_reason":null}]}`
	}
	called := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	plain := chunks(piece("Hello"), piece(" there"), end, "[DONE]")
	const whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}]}`
	for name, tt := range map[string]struct {
		mime, stream string
		text         string   // "" fails
		calls        []string // name and arguments
	}{
		"carriage returns":       {"", strings.ReplaceAll(plain, "\n", "\r\n"), "Hello there", nil},
		"comments":               {"", ": OPENROUTER PROCESSING\n\n: again\n\n" + plain, "Hello there", nil},
		"byte order mark":        {"", "\ufeff" + plain, "Hello there", nil},
		"names, ids, retries":    {"", strings.ReplaceAll(plain, "data:", "id: 1\nretry: 5\nevent: chunk\ndata:"), "Hello there", nil},
		"data in several lines":  {"", strings.ReplaceAll(plain, `"delta":`, "\ndata: \"delta\":"), "Hello there", nil},
		"halves of an emoji":     {"", chunks(`{"choices":[{"index":0,"delta":{"content":"Hi \ud83d"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\ude00!\uD83D"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\uDE00"}}]}`, end), "Hi 😀!😀", nil},
		"halves that are text":   {"", chunks(`{"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}`, `{"choices":[{"index":0,"delta":{"content":"\\ude00"}}]}`, end), `\ud83d\ude00`, nil},
		"no space":               {"", strings.ReplaceAll(plain, "data: ", "data:"), "Hello there", nil},
		"no end mark":            {"", chunks(piece("Hello"), piece(" there"), end), "Hello there", nil},
		"no end at all":          {"", chunks(piece("Hello"), piece(" there")), "", nil},
		"end mark only":          {"", chunks("[DONE]"), "", nil},
		"nothing":                {"", "", "", nil},
		"usage in each":          {"", strings.ReplaceAll(plain, `"choices"`, `"usage":{"prompt_tokens":1,"completion_tokens":2},"choices"`), "Hello there", nil},
		"usage null":             {"", strings.ReplaceAll(plain, `"choices"`, `"usage":null,"choices"`), "Hello there", nil},
		"usage after the end":    {"", chunks(piece("Hello there"), end, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, "[DONE]"), "Hello there", nil},
		"filters before":         {"", chunks(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, piece("Hello there"), end, "[DONE]"), "Hello there", nil},
		"choices null":           {"", chunks(`{"choices":null}`, piece("Hello there"), end, "[DONE]"), "Hello there", nil},
		"the role each time":     {"", strings.ReplaceAll(plain, `"delta":{"content"`, `"delta":{"role":"assistant","content"`), "Hello there", nil},
		"text in parts":          {"", chunks(`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Hello"},{"type":"text","text":" there"}]}}]}`, end), "Hello there", nil},
		"an end without a text":  {"", chunks(piece("Hello there"), `{"choices":[{"index":0,"finish_reason":"stop"}]}`, "[DONE]"), "Hello there", nil},
		"an end with a null":     {"", chunks(piece("Hello there"), `{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}`, "[DONE]"), "Hello there", nil},
		"an error":               {"", chunks(piece("Hello"), `{"error":{"message":"too busy"}}`, "[DONE]"), "", nil},
		"an error without data":  {"", chunks(piece("Hello")) + "event: error\ndata: {\"error\":\"too busy\"}\n\n", "", nil},
		"an error null":          {"", strings.ReplaceAll(plain, `"choices"`, `"error":null,"choices"`), "Hello there", nil},
		"a page":                 {"text/html", "<html><body>Sign in</body></html>", "", nil},
		"a page as a stream":     {"", "<html><body>Sign in</body></html>", "", nil},
		"a stream as JSON":       {"application/json", plain, "Hello there", nil},
		"a stream as text":       {"text/plain; charset=utf-8", plain, "Hello there", nil},
		"an answer as JSON":      {"application/json; charset=utf-8", whole, "Hello there", nil},
		"an answer as text":      {"text/plain", " \n" + whole, "Hello there", nil},
		"tools without an index": {"", chunks(tool(`{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), tool(`{"function":{"arguments":"1}"}}`), tool(`{"id":"b","function":{"name":"g","arguments":"{}"}}`), called), "", []string{`f {"x":1}`, "g {}"}},
		"tools by id":            {"", chunks(tool(`{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), tool(`{"id":"b","function":{"name":"g","arguments":"{"}}`), tool(`{"id":"a","function":{"arguments":"1}"}}`), tool(`{"id":"b","function":{"arguments":"}"}}`), called), "", []string{`f {"x":1}`, "g {}"}},
		"tools interleaved":      {"", chunks(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":""}}`), tool(`{"index":1,"function":{"arguments":"{"}}`), tool(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`), tool(`{"index":1,"function":{"arguments":"}"}}`), called), "", []string{`f {"x":1}`, "g {}"}},
		"tools all at index 0":   {"", chunks(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), tool(`{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}`), tool(`{"index":0,"function":{"arguments":"}"}}`), called), "", []string{`f {"x":1}`, "g {}"}},
		"another id each time":   {"", chunks(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), tool(`{"index":0,"id":"b","function":{"arguments":"1}"}}`), called), "", []string{`f {"x":1}`}},
		"the name each time":     {"", chunks(tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}`), called), "", []string{`f {"x":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			u := dialects[0].serve(t)
			u.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if tt.mime != "" {
					w.Header().Set("Content-Type", tt.mime)
				}
				fmt.Fprint(w, tt.stream)
			}
			var streamed strings.Builder
			resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), middleware.WithParams(middleware.Params{OnDelta: func(_ context.Context, d *middleware.Delta) error {
				streamed.WriteString(d.Text)
				return nil
			}}))
			if tt.text == "" && tt.calls == nil {
				if err == nil {
					t.Errorf("it passes for %+v", resp.Choices[0])
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			choice := resp.Choices[0]
			var calls []string
			for _, c := range choice.ToolCalls {
				calls = append(calls, c.FunctionCall.Name+" "+c.FunctionCall.Arguments)
			}
			if diff := cmp.Diff(tt.calls, calls); choice.Content != tt.text || streamed.String() != tt.text || diff != "" {
				t.Errorf("%q, streamed %q; %s", choice.Content, &streamed, diff)
			}
		})
	}
}

// An answer without content, a redirect or a proxy's page is a fault of the provider.
func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"204": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"202": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!doctype html><title>Sign in</title>") },
	} {
		for i := range dialects {
			d := &dialects[i]
			t.Run(name+" "+d.name, func(t *testing.T) {
				u := d.serve(t)
				u.answer = answer
				for _, o := range []llms.CallOption{nil, llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })} {
					if resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), o); err == nil {
						t.Errorf("it passes for %+v", resp.Choices[0])
					}
				}
			})
		}
	}
}

// A stream of Responses whose last event has no items consists of the items completed before it. An answer without
// items is empty, as in other APIs.
func TestResponsesWithoutItems(t *testing.T) {
	const last = `{"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":4}}}`
	for stream, want := range map[string]string{
		chunks(`{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}}`,
			`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"}}`, last): "Hello look",
		chunks(last): " ",
	} {
		u := dialects[1].serve(t)
		u.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, stream)
		}
		resp, err := u.model(t).GenerateContent(t.Context(), human("hi"), llms.WithStreamingFunc(func(context.Context, []byte) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		got := resp.Choices[0].Content + " "
		for _, call := range resp.Choices[0].ToolCalls {
			got += call.FunctionCall.Name
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

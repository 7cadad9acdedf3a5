package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// Calls of custom tools pass through chat completions unchanged, beside function calls, whole and streamed, and become
// function calls for models of other APIs.
func TestCustomToolsOfChat(t *testing.T) {
	const (
		custom   = `{"id":"c1","type":"custom","custom":{"name":"patch","input":"*** \"Begin\""}}`
		function = `{"id":"c2","type":"function","function":{"name":"look","arguments":"{}"}}`
		head     = `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":`
		tools    = `"tools":[{"type":"custom","custom":{"name":"patch"}},{"type":"function","function":{"name":"look"}}]`
	)
	api := exampleAPIs["chat"]
	answers := upstream{
		whole: `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[` + custom + `,` + function + `]}}]}`,
		streamed: sse(head+`{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"custom","custom":{"name":"patch","input":""}}]}}]}`,
			head+`{"tool_calls":[{"index":0,"custom":{"input":"*** "}}]}}]}`, head+`{"tool_calls":[{"index":0,"custom":{"input":"\"Begin\""}}]}}]}`,
			head+`{"tool_calls":[{"index":1,"id":"c2","type":"function","custom":{},"function":{"name":"look","arguments":"{}"}}]}}]}`,
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]"),
	}
	for _, isStreamed := range []bool{false, true} {
		for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
			_, w := askExampleBy(t, api, fmt.Sprintf(`{"stream":%v,"messages":[{"role":"user","content":"hi"}],%s}`, isStreamed, tools), answers, stream)
			calls := map[string]string{} // by id
			if isStreamed {
				indexes := map[int64]bool{}
				for line := range strings.SplitSeq(w.body, "\n") {
					gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta.tool_calls").ForEach(func(_, call gjson.Result) bool {
						indexes[call.Get("index").Int()] = true
						calls[call.Get("id").Str] += call.Get("custom.input").Str + call.Get("function.arguments").Str
						return true
					})
				}
				if len(indexes) != 2 || !strings.Contains(w.body, `"finish_reason":"tool_calls"`) {
					t.Errorf("%s: %s", mode, w.body)
				}
			}
			for _, call := range gjson.Get(w.body, "choices.0.message.tool_calls").Array() {
				calls[call.Get("id").Str] = call.Get("custom.input").Str + call.Get("function.arguments").Str
			}
			if len(calls) != 2 || calls["c1"] != `*** "Begin"` || calls["c2"] != "{}" || isStreamed == (gjson.Get(w.body, "choices.0.finish_reason").Str == "tool_calls") {
				t.Errorf("%s, streamed %v: %v in %s", mode, isStreamed, calls, w.body)
			}
		}
	}
	history := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[` + custom + `,` + function + `]},
		{"role":"tool","tool_call_id":"c1","content":"done"},{"role":"tool","tool_call_id":"c2","content":"a cat"}]}`
	up, w := askExample(t, api, history, answers)
	if got := gjson.Get(up.body, "messages.1.tool_calls").Raw; w.code != http.StatusOK || got != "["+custom+`,{"function":{"arguments":"{}","name":"look"},"id":"c2","type":"function"}]` {
		t.Errorf("status %d: the model is sent %s", w.code, up.body)
	}
	claude := exampleAPIs["Messages"]
	up, w = askExample(t, exampleAPI{path: chatPath, open: claude.open}, history, upstream{whole: claude.answer})
	want := `{"id":"c1","input":{"input":"*** \"Begin\""},"name":"patch","type":"tool_use"}`
	if got := gjson.Get(up.body, "messages.1.content.0").Raw; w.code != http.StatusOK || got != want {
		t.Errorf("status %d: Claude is sent %s", w.code, up.body)
	}
}

package gateway_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// What nobody here knows of a call comes in a piece of that call, before the end of the answer, and
// what the server says of itself with the end.
func TestChatStreamsEndWithWhatIsKnown(t *testing.T) {
	const about = `"id":"a","system_fingerprint":"fp_1","service_tier":"default"`
	_, w := askExampleBy(t, exampleAPIs["chat"], strings.Replace(asked[chatPath], "%v", `true, "stream_options": {"include_usage": true}`, 1), upstream{streamed: sse(
		`{`+about+`,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`,
		`{`+about+`,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","type":"function","novel_t":{"q":1},"function":{"name":"look","arguments":"{}","novel_f":2}}]}}]}`,
		`{`+about+`,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `{`+about+`,"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, "[DONE]")}, middleware.Passthrough)
	hasEnded, isNovel := false, false
	var last gjson.Result
	for line := range strings.Lines(w.body) {
		chunk := gjson.Parse(strings.TrimPrefix(line, "data: "))
		if !chunk.IsObject() {
			continue
		}
		last = chunk
		for _, call := range chunk.Get("choices.0.delta.tool_calls").Array() {
			if !call.Get("index").Exists() || hasEnded {
				t.Errorf("a piece of a call is %s; it comes after the end: %v", call, hasEnded)
			}
			isNovel = isNovel || call.Get("index").Int() == 1 && call.Get("novel_t.q").Int() == 1 && call.Get("function.novel_f").Int() == 2 && call.Get("function.arguments").Exists()
		}
		if hasEnded = hasEnded || chunk.Get("choices.0.finish_reason").Str != ""; hasEnded && (chunk.Get("system_fingerprint").Str != "fp_1" || chunk.Get("service_tier").Str != "default") {
			t.Errorf("the end is %s", chunk)
		}
	}
	if !isNovel || !last.Get("usage").Exists() {
		t.Errorf("the stream is %s", w.body)
	}
}

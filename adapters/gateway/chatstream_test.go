package gateway_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// Unknown members of a call are sent in a piece of that call, before the end of the answer.
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
		hasEnded = hasEnded || chunk.Get("choices.0.finish_reason").Str != ""
	}
	if !isNovel || !last.Get("usage").Exists() {
		t.Errorf("the stream is %s", w.body)
	}
}

// Members about the server are in each chunk, live and held back, as in OpenAI's streams: official clients read some of
// them only in the first chunk.
func TestChatChunksNameTheServer(t *testing.T) {
	const about = `"id":"a","system_fingerprint":"fp_1","service_tier":"default"`
	chat := sse(`{`+about+`,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `{`+about+`,"choices":[{"index":0,"delta":{"content":"h"}}]}`, `{`+about+`,"choices":[{"index":0,"delta":{"content":"i"}}]}`,
		`{`+about+`,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{`+about+`,"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`, "[DONE]")
	claude := append([]string(nil), exampleAPIs["Messages"].events...)
	claude[0] = strings.Replace(claude[0], `"usage":{`, `"usage":{"service_tier":"standard",`, 1)
	for name, streamed := range map[string]string{"chat": chat, "Messages": sse(claude...)} {
		for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
			api := exampleAPIs[name]
			api.path = chatPath
			whole := `{` + about + `,"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
			if name == "Messages" {
				whole = strings.Replace(api.answer, `"usage":{`, `"usage":{"service_tier":"standard",`, 1)
			}
			_, w := askExampleBy(t, api, strings.Replace(asked[chatPath], "%v", `true, "stream_options": {"include_usage": true}`, 1), upstream{whole: whole, streamed: streamed}, stream)
			chunks := 0
			for line := range strings.Lines(w.body) {
				chunk := gjson.Parse(strings.TrimPrefix(line, "data: "))
				if !chunk.IsObject() {
					continue
				}
				if chunks++; chunk.Get("service_tier").Str != "default" || name == "chat" && chunk.Get("system_fingerprint").Str != "fp_1" {
					t.Errorf("%s, %s: a chunk is %s", name, mode, chunk)
				}
			}
			if chunks < 3 {
				t.Errorf("%s, %s: %d chunks in %s", name, mode, chunks, w.body)
			}
		}
	}
}

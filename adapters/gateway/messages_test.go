package gateway_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/internal/dialect"
	"github.com/stepfall/stepfall/middleware"
)

// Claude's members about a refusal and about its cache reach a client of Messages at the same place: the explanation of a
// refusal does not become text.
func TestMessagesAnswersKeepTheirForm(t *testing.T) {
	const (
		details = `"stop_details":{"type":"refusal","category":"cyber","explanation":"no"}`
		usage   = `"usage":{"input_tokens":3,"output_tokens":4,"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0},"output_tokens_details":{"thinking_tokens":1},"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0}}`
		whole   = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"refusal",` + details + `,"content":[{"type":"text","text":"I can"}],` + usage + `}`
	)
	streamed := sse(`{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","model":"m","content":[],`+usage+`}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I can"}}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"refusal",`+details+`},"usage":{"output_tokens":4,"output_tokens_details":{"thinking_tokens":1}}}`, `{"type":"message_stop"}`)
	for _, stream := range []string{"false", "true"} {
		_, w := askExample(t, exampleAPIs["Messages"], strings.Replace(asked[messagesPath], "%v", stream, 1), upstream{whole: whole, streamed: streamed})
		if strings.Contains(w.body, `"text":"no"`) || !strings.Contains(w.body, `"explanation":"no"`) || !strings.Contains(w.body, `"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0}`) ||
			!strings.Contains(w.body, `"output_tokens_details":{"thinking_tokens":1}`) || !strings.Contains(w.body, `"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0}`) {
			t.Errorf("stream %s: %s", stream, w.body)
		}
	}
}

// Additional counts of a server reach the client unchanged, and code execution does not count as a search.
func TestUsageHasWhatTheServerCounted(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"prompt_tokens_details":{"audio_tokens":4},"completion_tokens_details":{"accepted_prediction_tokens":3,"rejected_prediction_tokens":2}}`
	streamed := sse(`{"choices":[{"index":0,"delta":{"content":"fine"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],`+usage+`}`, `[DONE]`)
	for _, stream := range []string{"false", "true"} {
		_, w := askExample(t, exampleAPIs["chat"], `{"stream":`+stream+`,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`,
			upstream{whole: `{"choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],` + usage + `}`, streamed: streamed})
		for _, want := range []string{`"accepted_prediction_tokens":3`, `"rejected_prediction_tokens":2`, `"audio_tokens":4`, `"audio_tokens":0`} {
			if strings.Count(w.body, want) != 1 {
				t.Errorf("stream %s: no %s in %s", stream, want, w.body)
			}
		}
	}
	const ran = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"z":1,"a":2}},{"type":"text","text":"ran"}],` +
		`"usage":{"input_tokens":3,"output_tokens":4,"server_tool_use":{"web_search_requests":0}}}`
	_, w := askExample(t, exampleAPIs["Messages"], `{"max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`, upstream{whole: ran})
	if !strings.Contains(w.body, `"web_search_requests":0`) || !strings.Contains(w.body, `{"z":1,"a":2}`) {
		t.Errorf("a run of code is told as %s", w.body)
	}
}

// A cited text is a separate block in streams, without the texts around it.
func TestStreamedTextsKeepTheirBlocks(t *testing.T) {
	const cited = `{"type":"text","text":"two","citations":[{"type":"char_location","cited_text":"c","document_index":0}]}`
	whole := `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"one"},` + cited + `,{"type":"text","text":"three"}],"usage":{"input_tokens":3,"output_tokens":4}}`
	block := func(index, start, text, citation string) string {
		events := []string{`{"type":"content_block_start","index":` + index + `,"content_block":` + start + `}`, `{"type":"content_block_delta","index":` + index + `,"delta":{"type":"text_delta","text":"` + text + `"}}`}
		if citation != "" {
			events = append(events, `{"type":"content_block_delta","index":`+index+`,"delta":{"type":"citations_delta","citation":`+citation+`}}`)
		}
		return sse(append(events, `{"type":"content_block_stop","index":`+index+`}`)...)
	}
	streamed := sse(exampleAPIs["Messages"].events[0]) + block("0", `{"type":"text","text":""}`, "one", "") + block("1", `{"type":"text","text":"","citations":[]}`, "two", `{"type":"char_location","cited_text":"c","document_index":0}`) +
		block("2", `{"type":"text","text":""}`, "three", "") + sse(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`, `{"type":"message_stop"}`)
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		_, w := askExampleBy(t, exampleAPIs["Messages"], strings.Replace(asked[messagesPath], "%v", "true", 1), upstream{whole: whole, streamed: streamed}, stream)
		if got, want := gjson.Parse(contentOf(w.body)), gjson.Get(whole, "content"); !reflect.DeepEqual(got.Value(), want.Value()) {
			t.Errorf("%s: the blocks are %s", mode, got.Raw)
		}
	}
}

// A compaction that Claude made while streaming reaches the client in one piece, and its encrypted content is sent back
// to that model.
func TestStreamedCompactions(t *testing.T) {
	claude := exampleAPIs["Messages"]
	streamed := sse(claude.events[0],
		`{"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"All said.","encrypted_content":"sealed","signature":"signed"}}`, `{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"compaction"},"usage":{"output_tokens":4}}`, `{"type":"message_stop"}`)
	streamed = strings.Replace(streamed, "data: ", sse(`{"type":"novel","index":"x","delta":"y","message":"z","content_block":1}`)+"data: ", 1) // what is not known is skipped
	_, w := askExampleBy(t, claude, strings.Replace(asked[messagesPath], "%v", "true", 1), upstream{streamed: streamed}, middleware.Passthrough)
	var block string
	for line := range strings.Lines(w.body) {
		if own := gjson.Get(strings.TrimPrefix(line, "data: "), "content_block"); own.Get("type").Str == "compaction" {
			block = own.Raw
		}
	}
	if gjson.Get(block, "content").Str != "All said." || !strings.HasSuffix(gjson.Get(block, "encrypted_content").Str, "sealed") || !strings.Contains(w.body, `"stop_reason":"compaction"`) {
		t.Fatalf("the client gets %s", w.body)
	}
	request := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[` + block + `]},{"role":"user","content":"go on"}]}`
	up, w := askExample(t, claude, request, upstream{whole: claude.answer})
	if got := gjson.Get(up.body, "messages.1.content.0"); got.Get("content").Str != "All said." || got.Get("encrypted_content").Str != "sealed" {
		t.Errorf("its model gets %s; %s", up.body, w.body)
	}
	other, _ := dialect.Open(middleware.DialectAnthropic, json.RawMessage(block))
	own, _ := dialect.Own([]llms.MessageContent{{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{other}}}, middleware.DialectAnthropic, dialect.Origin("elsewhere", "m"))
	if len(own) > 0 && len(own[0].Parts) > 0 {
		t.Errorf("another Claude gets %s", own[0].Parts)
	}
}

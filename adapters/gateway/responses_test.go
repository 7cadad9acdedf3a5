package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/middleware"
)

// askResponses sends a streamed request to a model of Responses, and returns its events by type.
func askResponses(t *testing.T, events ...string) (of map[string]gjson.Result, types []string) {
	t.Helper()
	_, w := askExampleBy(t, exampleAPIs["Responses"], strings.Replace(asked[responsesPath], "%v", "true", 1), upstream{streamed: sse(events...)}, middleware.Passthrough)
	of = map[string]gjson.Result{}
	for line := range strings.Lines(w.body) {
		if event := gjson.Parse(strings.TrimPrefix(line, "data: ")); event.Get("type").Exists() {
			of[event.Get("type").Str] = event
			types = append(types, event.Get("type").Str)
		}
	}
	return of, types
}

// The use of a hosted tool is shown while it runs, and a message states its phase from the
// beginning.
func TestResponsesShowHostedTools(t *testing.T) {
	const (
		message = `"type":"message","id":"msg_1","role":"assistant","phase":"commentary"`
		text    = `"content":[{"type":"output_text","text":"hi","annotations":[]}]`
		search  = `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"x"}}`
	)
	of, types := askResponses(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}`,
		`{"type":"response.web_search_call.in_progress","output_index":0,"item_id":"ws_1"}`, `{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}`,
		`{"type":"response.web_search_call.completed","output_index":0,"item_id":"ws_1"}`, `{"type":"response.output_item.done","output_index":0,"item":`+search+`}`,
		`{"type":"response.output_item.added","output_index":1,"item":{`+message+`,"status":"in_progress","content":[]}}`, `{"type":"response.output_text.delta","output_index":1,"item_id":"msg_1","content_index":0,"delta":"hi"}`,
		`{"type":"response.output_item.done","output_index":1,"item":{`+message+`,"status":"completed",`+text+`}}`,
		`{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[`+search+`,{`+message+`,"status":"completed",`+text+`}],"usage":{"input_tokens":3,"output_tokens":4}}}`)
	const want = "response.created response.in_progress response.output_item.added response.web_search_call.in_progress response.web_search_call.searching response.web_search_call.completed " +
		"response.output_item.done response.output_item.added response.content_part.added response.output_text.delta response.output_text.done response.content_part.done response.output_item.done response.completed"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("the events are %s", got)
	}
	if searching := of["response.web_search_call.searching"]; searching.Get("item_id").Str != "ws_1" || searching.Get("output_index").Raw != "0" || searching.Get("sequence_number").Raw != "4" {
		t.Errorf("an event of the search is %s", searching)
	}
	if added := of["response.output_item.added"].Get("item"); added.Get("phase").Str != "commentary" {
		t.Errorf("the message begins as %s", added)
	}
	if whole := of["response.completed"].Get("response.output"); whole.Get("#").Int() != 2 || whole.Get("0.action.query").Str != "x" {
		t.Errorf("the answer is %s", whole)
	}
}

// Calls of custom tools are also streamed, and unknown events are skipped.
func TestResponsesShowCustomCalls(t *testing.T) {
	const (
		call    = `{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"apply_patch","input":"abc","status":"completed"}`
		message = `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"The patch:","annotations":[]}]}`
	)
	_, types := askResponses(t, `{"type":"response.novel","output_index":"none","response":"x","item":1,"delta":{}}`,
		`{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"The patch:"}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"apply_patch","input":"","status":"in_progress"}}`,
		`{"type":"response.custom_tool_call_input.delta","output_index":1,"item_id":"ctc_1","delta":"abc"}`, `{"type":"response.custom_tool_call_input.done","output_index":1,"item_id":"ctc_1","input":"abc"}`,
		`{"type":"response.output_item.done","output_index":1,"item":`+call+`}`,
		`{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[`+message+`,`+call+`],"usage":{"input_tokens":3,"output_tokens":4}}}`)
	const want = "response.output_item.done response.output_item.added response.custom_tool_call_input.delta response.custom_tool_call_input.done response.output_item.done response.completed"
	if got := strings.Join(types, " "); !strings.HasSuffix(got, want) {
		t.Errorf("the events are %s", got)
	}
}

// A truncated message says so, like the response.
func TestResponsesSayWhatWasCut(t *testing.T) {
	const item = `{"type":"message","id":"msg_1","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"hi","annotations":[]}]}`
	for reason, want := range map[string]string{"max_output_tokens": "incomplete", "content_filter": "incomplete"} {
		of, _ := askResponses(t, `{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"hi"}`,
			`{"type":"response.incomplete","response":{"id":"r","object":"response","status":"incomplete","incomplete_details":{"reason":"`+reason+`"},"model":"m","output":[`+item+`],"usage":{"input_tokens":3,"output_tokens":4}}}`)
		if got := of["response.output_item.done"].Get("item.status").Str + " " + of["response.incomplete"].Get("response.output.0.status").Str; got != want+" "+want {
			t.Errorf("%s: the message is %s", reason, got)
		}
	}
}

// Strict clients know only a few codes of failed responses.
func TestResponsesFailByCodesOfTheAPI(t *testing.T) {
	for said, want := range map[string]string{
		"server_error": "server_error", "rate_limit_exceeded": "rate_limit_exceeded", "insufficient_quota": "insufficient_quota", "context_length_exceeded": "context_length_exceeded",
		"invalid_prompt": "invalid_prompt", "invalid_image_format": "invalid_prompt", // Codex tries again after codes that it does not know
	} {
		of, types := askResponses(t, `{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"hi, this is a longer text"}`,
			`{"type":"response.failed","response":{"id":"r","object":"response","status":"failed","model":"m","output":[],"error":{"code":"`+said+`","message":"broken"}}}`)
		if code := of["response.failed"].Get("response.error.code").Str; code != want {
			t.Errorf("%s: the code is %q; %s", said, code, types)
		}
	}
}

// An error of Mistral's in the middle of a stream keeps its message.
func TestErrorsInStreamsAreRead(t *testing.T) {
	for _, said := range []string{`{"object":"error","message":"no room left","type":"internal_error","param":null,"code":"3505"}`, `{"error":{"message":"no room left","code":502}}`} {
		_, w := askExampleBy(t, exampleAPIs["chat"], strings.Replace(asked[chatPath], "%v", "true", 1), upstream{streamed: sse(`{"id":"a","choices":[{"index":0,"delta":{"content":"Ben Nevis is quite high"}}]}`, said)}, middleware.Passthrough)
		if !strings.Contains(w.body, "no room left") {
			t.Errorf("%s: %s", said, w.body)
		}
	}
}

// A call without arguments gets an empty object, because clients parse arguments as JSON.
func TestResponsesCallsHaveArguments(t *testing.T) {
	const item = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"","status":"completed"}`
	whole := `{"id":"r","object":"response","status":"completed","model":"m","output":[` + item + `],"usage":{"input_tokens":3,"output_tokens":4}}`
	streamed := sse(`{"type":"response.output_item.added","output_index":0,"item":`+item+`}`, `{"type":"response.output_item.done","output_index":0,"item":`+item+`}`, `{"type":"response.completed","response":`+whole+`}`)
	for path := range asked {
		api := exampleAPIs["Responses"]
		api.path = path
		for _, stream := range []string{"false", "true"} {
			if _, w := askExampleBy(t, api, strings.Replace(asked[path], "%v", stream, 1), upstream{whole: whole, streamed: streamed}, middleware.Passthrough); !strings.Contains(w.body, "{}") || strings.Contains(w.body, `"arguments":""}}],"finish_reason":"tool_calls"`) || strings.Contains(w.body, `"arguments":"","name":"look","status":"completed"`) || path == chatPath && !strings.Contains(w.body, `"arguments":"{}"`) {
				t.Errorf("%s, streamed %s: %s", path, stream, w.body)
			}
		}
	}
}

// A stream with an end marker but neither a stop reason nor usage was broken off behind a proxy.
func TestMarkAloneEndsNoAnswer(t *testing.T) {
	_, w := askExample(t, exampleAPIs["chat"], strings.Replace(asked[chatPath], "%v", "false", 1), upstream{whole: "{}", streamed: sse(`{"id":"a","choices":[{"index":0,"delta":{"content":"Ben Nevis is"}}]}`, "[DONE]")})
	if w.code == http.StatusOK {
		t.Errorf("the answer is %s", w.body)
	}
	_, w = askExampleBy(t, exampleAPIs["chat"], strings.Replace(asked[chatPath], "%v", "true", 1), upstream{streamed: sse(`{"id":"a","choices":[{"index":0,"delta":{"content":"Ben Nevis is"}}]}`, "[DONE]")}, middleware.Passthrough)
	if !strings.Contains(w.body, `"error"`) || strings.Contains(w.body, `"finish_reason":"stop"`) {
		t.Errorf("the stream is %s", w.body)
	}
}

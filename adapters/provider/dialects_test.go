package provider_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// dialect is one API, with an answer in its actual form: some reasoning, the text "Hello there", a call of the tool
// look, and all other members of the API.
type dialect struct {
	name string
	make func(url string, limit int64) (llms.Model, error)
	// whole is an answer that is not streamed, stream the same answer as a stream.
	whole, stream string
	// long is a stream with a text of one line, %s.
	long  string
	mime  string
	fault string // an error within a stream
	usage sdk.Usage
}

var dialects = []dialect{
	{
		name: "chat",
		make: func(url string, limit int64) (llms.Model, error) {
			return provider.New(provider.Options{Model: "m", APIKey: "k", BaseURL: url + "/v1", MaxAnswer: limit})
		},
		whole: `{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"m-2026","system_fingerprint":"fp","service_tier":"default",
			"choices":[{"index":0,"finish_reason":"tool_calls","logprobs":{"content":[{"token":"Hello","logprob":-0.1,"bytes":[72],"top_logprobs":[{"token":"Hello","logprob":-0.1,"bytes":null}]}],"refusal":null},
			"message":{"role":"assistant","content":"Hello there","refusal":null,"reasoning_content":"hm","annotations":[],
			"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}}]}}],
			"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":20}}}`,
		stream: chunks(
			`{"id":"chatcmpl-1","created":1767225600,"model":"m-2026","system_fingerprint":"fp","service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":{"content":[{"token":"Hello","logprob":-0.1,"top_logprobs":[{"token":"Hello","logprob":-0.1}]}],"refusal":null},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" there"},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"look","arguments":""}}]},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":1}"}}]},"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":20}}}`,
			`[DONE]`),
		long:  chunks(`{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":"stop"}]}`, `[DONE]`),
		mime:  "text/event-stream",
		fault: chunks(`{"choices":[{"index":0,"delta":{"content":"He"},"finish_reason":null}]}`, `{"error":{"message":"too busy","type":"overloaded_error"}}`),
		usage: sdk.Usage{InputTokens: 60, CachedInputTokens: 40, OutputTokens: 10, ReasoningTokens: 20},
	},
	{
		name: "Responses",
		make: func(url string, limit int64) (llms.Model, error) {
			return provider.New(provider.Options{Model: "m", APIKey: "k", BaseURL: url + "/v1", API: middleware.DialectResponses, MaxAnswer: limit})
		},
		whole: response,
		stream: chunks(
			`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"}`,
			`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Hello","logprobs":[{"token":"Hello","logprob":-0.1,"top_logprobs":[{"token":"Hello","logprob":-0.1}]}]}`,
			`{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":" there","logprobs":[]}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"at\":1}"}`,
			`{"type":"response.completed","response":`+response+`}`),
		long:  chunks(`{"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"%s"}]}]}}`),
		mime:  "text/event-stream",
		fault: chunks(`{"type":"response.output_text.delta","delta":"He"}`, `{"type":"error","code":"overloaded","message":"too busy"}`),
		usage: sdk.Usage{InputTokens: 60, CachedInputTokens: 40, OutputTokens: 10, ReasoningTokens: 20},
	},
	{
		name: "Anthropic",
		make: func(url string, limit int64) (llms.Model, error) {
			return provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", APIKey: "k", BaseURL: url, MaxAnswer: limit})
		},
		whole: `{"id":"msg_1","type":"message","role":"assistant","model":"m-2026","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"Hello there"},
			{"type":"tool_use","id":"call_1","name":"look","input":{"at":1}}],"stop_reason":"tool_use","stop_sequence":null,
			"usage":{"input_tokens":60,"cache_creation_input_tokens":7,"cache_read_input_tokens":40,"output_tokens":30,"output_tokens_details":{"thinking_tokens":20},"service_tier":"default"}}`,
		stream: events(
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m-2026","content":[],"stop_reason":null,"usage":{"input_tokens":60,"cache_creation_input_tokens":7,"cache_read_input_tokens":40,"output_tokens":1,"service_tier":"default"}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hello"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" there"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"look","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"at\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":20}}}`,
			`{"type":"message_stop"}`),
		long: events(`{"type":"message_start","message":{"id":"msg_1","content":[]}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`),
		mime:  "text/event-stream",
		fault: events(`{"type":"message_start","message":{"id":"msg_1","content":[]}}`, `{"type":"error","error":{"type":"overloaded_error","message":"too busy"}}`),
		usage: sdk.Usage{InputTokens: 60, CachedInputTokens: 40, CacheWriteTokens: 7, OutputTokens: 10, ReasoningTokens: 20},
	},
	{
		name: "Gemini",
		make: func(url string, limit int64) (llms.Model, error) {
			return provider.New(provider.Options{API: middleware.DialectGemini, Model: "m", APIKey: "k", BaseURL: url, MaxAnswer: limit})
		},
		whole: `{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Hello there"},{"functionCall":{"id":"call_1","name":"look","args":{"at":1}},"thoughtSignature":"c2ln"}]},
			"logprobsResult":{"chosenCandidates":[{"token":"Hello","logProbability":-0.1}],"topCandidates":[{"candidates":[{"token":"Hello","logProbability":-0.1}]}]}}],
			"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":10,"thoughtsTokenCount":20,"totalTokenCount":130},"modelVersion":"m-2026","responseId":"r1"}`,
		stream: chunks(
			`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"hm","thought":true}]}}],"modelVersion":"m-2026","responseId":"r1"}`,
			`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Hello"}]},"logprobsResult":{"chosenCandidates":[{"token":"Hello","logProbability":-0.1}],"topCandidates":[{"candidates":[{"token":"Hello","logProbability":-0.1}]}]}}]}`,
			`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":" there"}]}}]}`,
			`{"candidates":[{"index":0,"finishReason":"STOP","content":{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"look","args":{"at":1}},"thoughtSignature":"c2ln"}]}}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":10,"thoughtsTokenCount":20,"totalTokenCount":130}}`),
		long:  chunks(`{"candidates":[{"index":0,"finishReason":"STOP","content":{"parts":[{"text":"%s"}]}}]}`),
		mime:  "text/event-stream",
		fault: chunks(`{"candidates":[{"index":0,"content":{"parts":[{"text":"He"}]}}]}`, `{"error":{"code":503,"message":"too busy","status":"UNAVAILABLE"}}`),
		usage: sdk.Usage{InputTokens: 60, CachedInputTokens: 40, OutputTokens: 10, ReasoningTokens: 20},
	},
	{
		name: "Ollama",
		make: func(url string, limit int64) (llms.Model, error) {
			return provider.New(provider.Options{API: middleware.DialectOllama, Model: "m", APIKey: "k", BaseURL: url, MaxAnswer: limit})
		},
		whole: `{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"Hello there","thinking":"hm","tool_calls":[{"id":"call_1","function":{"name":"look","arguments":{"at":1}}}]},` +
			`"logprobs":[{"token":"Hello","logprob":-0.1,"top_logprobs":[{"token":"Hello","logprob":-0.1}]}],"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":30}`,
		stream: lines(
			`{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
			`{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"Hello"},"logprobs":[{"token":"Hello","logprob":-0.1,"top_logprobs":[{"token":"Hello","logprob":-0.1}]}],"done":false}`,
			`{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":" there"},"done":false}`,
			`{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","function":{"name":"look","arguments":{"at":1}}}]},"done":false}`,
			`{"model":"m-2026","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":30}`),
		long:  lines(`{"model":"m","message":{"content":"%s"},"done":true,"done_reason":"stop"}`),
		mime:  "application/x-ndjson",
		fault: lines(`{"model":"m","message":{"content":"He"},"done":false}`, `{"error":"too busy: overloaded"}`),
		usage: sdk.Usage{InputTokens: 100, OutputTokens: 30},
	},
}

// response is an answer of the Responses API.
const response = `{"id":"resp_1","object":"response","created_at":1767225600,"model":"m-2026","status":"completed","service_tier":"default","error":null,"incomplete_details":null,"output":[
	{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"c2ln"},
	{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello there","annotations":[],"logprobs":[{"token":"Hello","logprob":-0.1,"top_logprobs":[{"token":"Hello","logprob":-0.1}]}]}]},
	{"type":"function_call","id":"fc_1","call_id":"call_1","name":"look","arguments":"{\"at\":1}","status":"completed"}],
	"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":130}}`

// chunks returns events without names.
func chunks(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + strings.ReplaceAll(d, "\n", "") + "\n\n")
	}
	return b.String()
}

// events returns events whose name is their type.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(d), &e); err != nil {
			panic(err)
		}
		b.WriteString("event: " + e.Type + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

func lines(data ...string) string { return strings.Join(data, "\n") + "\n" }

// upstream is a server of an API that records its requests.
type upstream struct {
	*httptest.Server
	d        *dialect
	asked    map[string]any
	requests int
	header   http.Header
	// answer, when not nil, replaces the dialect's answer.
	answer http.HandlerFunc
}

// serve starts an upstream.
func (d *dialect) serve(t testing.TB) *upstream {
	u := &upstream{d: d}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		u.requests++
		u.header, u.asked = r.Header.Clone(), nil
		if err := json.Unmarshal(body, &u.asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Request-ID", "req-1")
		if u.answer != nil {
			u.answer(w, r)
			return
		}
		d.say(w, r, u.asked)
	}))
	t.Cleanup(u.Close)
	return u
}

// streams reports whether a request asks for a stream.
func streams(r *http.Request, asked map[string]any) bool {
	return asked["stream"] == true || strings.Contains(r.URL.Path, "streamGenerateContent")
}

func (d *dialect) say(w http.ResponseWriter, r *http.Request, asked map[string]any) {
	if streams(r, asked) {
		w.Header().Set("Content-Type", d.mime)
		fmt.Fprint(w, d.stream)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, strings.ReplaceAll(d.whole, "\n", ""))
}

// model returns a model of the dialect at the upstream.
func (u *upstream) model(t testing.TB) llms.Model {
	t.Helper()
	m, err := u.d.make(u.URL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func human(text string) []llms.MessageContent {
	return []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, text)}
}

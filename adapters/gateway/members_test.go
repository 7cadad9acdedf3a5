package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/adapters/provider"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// exampleAPI is an API with a request, an answer and the events of a stream that contain all objects in which a client
// or a model can write unknown members.
type exampleAPI struct {
	path, request, answer string
	events                []string
	open                  func(http.RoundTripper) (llms.Model, error)
}

var exampleAPIs = map[string]exampleAPI{
	"chat": {
		path: chatPath,
		request: `{"model":"m","stream":true,"reasoning_effort":"low","stream_options":{"include_usage":true},"metadata":{},
			"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}},
			"tools":[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object","properties":{}},"strict":false}},{"type":"custom","custom":{"name":"free"}}],
			"tool_choice":{"type":"function","function":{"name":"look"}},
			"messages":[{"role":"system","content":[{"type":"text","text":"be"}]},
				{"role":"user","name":"u","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},{"type":"file","file":{"filename":"f.pdf","file_data":"data:application/pdf;base64,AAE="}}]},
				{"role":"assistant","content":[{"type":"text","text":"b"}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"done"}]},
				{"role":"assistant","content":[{"type":"refusal","refusal":"c"}]},{"role":"user","content":"d"}]}`,
		answer: `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","logprobs":null,
			"message":{"role":"assistant","content":"hi","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}],
			"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}}`,
		events: []string{`{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"h"}}]}`, `{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"i"}}]}`,
			`{"id":"a","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`,
			`{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `{"id":"a","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}}`},
		open: func(up http.RoundTripper) (llms.Model, error) {
			return provider.New(provider.Options{Model: "m", BaseURL: "http://upstream/v1", Transport: up})
		},
	},
	"Messages": {
		path: messagesPath,
		request: `{"model":"m","max_tokens":2000,"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false}}},
			"tools":[{"name":"look","description":"d","input_schema":{"type":"object","properties":{}}},{"type":"web_search_20250305","name":"web_search","user_location":{"type":"approximate"}}],"tool_choice":{"type":"auto"},
			"system":[{"type":"text","text":"be","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"image","source":{"type":"file","file_id":"file_1"}},{"type":"document","title":"t","source":{"type":"base64","media_type":"application/pdf","data":"AAE="}}]},
				{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"b"},{"type":"tool_use","id":"t1","name":"look","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"done"}],"cache_control":{"type":"ephemeral"}}]},
				{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`,
		answer: `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},
			{"type":"tool_use","id":"t1","name":"look","input":{}},{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}],"usage":{"input_tokens":3,"output_tokens":4}}`,
		events: []string{`{"type":"message_start","message":{"id":"a","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"look","input":{}}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}`, `{"type":"message_stop"}`},
		open: func(up http.RoundTripper) (llms.Model, error) {
			return provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "m", BaseURL: "http://upstream", Transport: up})
		},
	},
	"Responses": {
		path: responsesPath,
		request: `{"model":"m","reasoning":{"effort":"low"},"text":{"verbosity":"low","format":{"type":"json_schema","name":"answer","schema":{"type":"object"},"strict":true}},"metadata":{},
			"tools":[{"type":"function","name":"look","description":"d","parameters":{"type":"object","properties":{}},"strict":false},{"type":"web_search","filters":{"allowed_domains":["x"]}}],"tool_choice":{"type":"function","name":"look"},
			"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"be"}]},
				{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://example.com/a.png","detail":"low"},{"type":"input_file","filename":"f.pdf","file_data":"data:application/pdf;base64,AAE="}]},
				{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"},
				{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]},{"type":"refusal","refusal":"no"}]},
				{"type":"function_call","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"done"},{"role":"user","content":"d"}]}`,
		answer: `{"id":"r","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}]},
			{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]},{"type":"function_call","id":"fc_1","call_id":"c1","name":"look","arguments":"{}","status":"completed"}],
			"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7,"input_tokens_details":{"cached_tokens":1},"output_tokens_details":{"reasoning_tokens":1}}}`,
		events: []string{`{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","output":[]}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"hi"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}}`,
			`{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":4}}}`},
		open: func(up http.RoundTripper) (llms.Model, error) {
			return provider.New(provider.Options{Model: "m", API: middleware.DialectResponses, BaseURL: "http://upstream/v1", Transport: up})
		},
	},
}

// isOpaque reports whether a member contains the caller's own JSON, or nothing but names.
func isOpaque(name string) bool {
	switch name {
	case "schema", "parameters", "input_schema", "metadata", "properties":
		return true
	}
	return false
}

const novel = "novel_member"

// withNovel calls do with one text for each object of text, in which that object has an additional member.
func withNovel(t *testing.T, text string, do func(path, text string)) {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err, text)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s.%d", path, i), v[i])
			}
		case map[string]any:
			v[novel] = map[string]any{"deep": []any{"a", 1.5}}
			data, err := json.Marshal(root)
			if err != nil {
				t.Fatal(err)
			}
			delete(v, novel)
			do(strings.TrimPrefix(path, "."), string(data))
			for name, inner := range v {
				if kind, _ := v["type"].(string); !isOpaque(name) && (name != "input" || !strings.HasSuffix(kind, "tool_use")) {
					walk(path+"."+name, inner)
				}
			}
		}
	}
	walk("", root)
}

// novelIn returns the paths of the additional member in a text.
func novelIn(text string) (paths []string) {
	var root any
	if json.Unmarshal([]byte(text), &root) != nil {
		return nil
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case []any:
			for i := range v {
				walk(fmt.Sprintf("%s.%d", path, i), v[i])
			}
		case map[string]any:
			if fmt.Sprint(v[novel]) == "map[deep:[a 1.5]]" {
				paths = append(paths, strings.TrimPrefix(path, "."))
			}
			for name, inner := range v {
				walk(path+"."+name, inner)
			}
		}
	}
	walk("", root)
	return paths
}

// Unknown members of a request are sent to a model of the same API, at the same place.
func TestUnknownMembersOfRequests(t *testing.T) {
	for name, api := range exampleAPIs {
		t.Run(name, func(t *testing.T) {
			withNovel(t, api.request, func(path, request string) {
				up, w := askExample(t, api, request, upstream{whole: api.answer, streamed: sse(api.events...)})
				if w.code != http.StatusOK {
					t.Errorf("%s: status %d: %s", path, w.code, w.body)
					return
				}
				if got := novelIn(up.body); len(got) != 1 || got[0] != path {
					t.Errorf("%s: is at %q in %s", path, got, up.body)
				}
			})
		})
	}
}

// Unknown members of an answer are returned to a client of the same API, at the same place.
func TestUnknownMembersOfAnswers(t *testing.T) {
	for name, api := range exampleAPIs {
		t.Run(name, func(t *testing.T) {
			withNovel(t, api.answer, func(path, answer string) {
				_, w := askExample(t, api, asked[api.path], upstream{whole: answer})
				if got := novelIn(w.body); len(got) != 1 || got[0] != path {
					t.Errorf("%s: is at %q in %s", path, got, w.body)
				}
			})
		})
	}
}

// The same holds for the events of a stream; members of the whole answer may come at its end. Members around a piece of
// an answer of Responses are dropped. An item of Responses is in its own event and in the answer at the end.
func TestUnknownMembersOfEvents(t *testing.T) {
	for name, api := range exampleAPIs {
		t.Run(name, func(t *testing.T) {
			for i, event := range api.events {
				withNovel(t, event, func(path, changed string) {
					want := 1
					if strings.HasPrefix(event, `{"type":"response.`) {
						if want = 2; !strings.HasPrefix(event, `{"type":"response.output_item.done`) || path == "" {
							return
						}
					}
					events := append(append(append([]string(nil), api.events[:i]...), changed), api.events[i+1:]...)
					_, w := askExample(t, api, strings.Replace(asked[api.path], "%v", `true, "stream_options": {"include_usage": true}`, 1), upstream{streamed: sse(events...)})
					found := 0
					for line := range strings.Lines(w.body) {
						found += len(novelIn(strings.TrimPrefix(line, "data: ")))
					}
					if found < want {
						t.Errorf("event %d, %s: is there %d times in %s", i, path, found, w.body)
					}
				})
			}
		})
	}
}

// The unknown members of a block of Messages are sent at its beginning, live and held back.
func TestUnknownMembersOfStreamedBlocks(t *testing.T) {
	api := exampleAPIs["Messages"]
	for _, thinking := range []string{"hm", ""} {
		streamed := sse(api.events[0], `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":"","novel":"a"}}`,
			fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%q}}`, thinking),
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","novel":"b"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hi"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"look","input":{},"novel":"c"}}`, `{"type":"content_block_stop","index":2}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}`, `{"type":"message_stop"}`)
		answer := fmt.Sprintf(`{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","content":[{"type":"thinking","thinking":%q,"signature":"s","novel":"a"},{"type":"text","text":"hi","novel":"b"},
			{"type":"tool_use","id":"t1","name":"look","input":{},"novel":"c"}],"usage":{"input_tokens":3,"output_tokens":4}}`, thinking)
		for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
			_, w := askExampleBy(t, api, `{"model":"stepfall","max_tokens":2000,"stream":true,"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"hi"}]}`, upstream{whole: answer, streamed: streamed}, stream)
			var got, text string
			for line := range strings.Lines(w.body) {
				event := gjson.Parse(strings.TrimPrefix(line, "data: "))
				if block := event.Get("content_block"); event.Get("type").Str == "content_block_start" {
					got += block.Get("type").Str + " " + block.Get("novel").Str + block.Get("text").Str + block.Get("thinking").Str + block.Get("signature").Str + ", "
				}
				text += event.Get("delta.thinking").Str + event.Get("delta.text").Str
			}
			if got != "thinking a, text b, tool_use c, " || text != thinking+"hi" || !strings.Contains(w.body, "signature_delta") {
				t.Errorf("%s, %q thought: blocks %q, text %q in %s", mode, thinking, got, text, w.body)
			}
		}
	}
}

// Members of a message that are known at its beginning are in the first event, live and held back: official clients
// read some of them nowhere else.
func TestMembersOfTheFirstEvent(t *testing.T) {
	api := exampleAPIs["Messages"]
	const usage = `"usage":{"service_tier":"standard","cache_creation":{"ephemeral_1h_input_tokens":0},`
	events := append([]string(nil), api.events...)
	events[0] = strings.Replace(events[0], `"usage":{`, usage, 1)
	for mode, stream := range map[string]middleware.StreamMode{"held": middleware.Buffer, "live": middleware.Passthrough} {
		_, w := askExampleBy(t, api, strings.Replace(asked[api.path], "%v", "true", 1), upstream{whole: strings.Replace(api.answer, `"usage":{`, usage, 1), streamed: sse(events...)}, stream)
		_, first, _ := strings.Cut(w.body, "data: ")
		if usage := gjson.Get(first, "message.usage"); usage.Get("service_tier").Str != "standard" || !usage.Get("cache_creation.ephemeral_1h_input_tokens").Exists() || usage.Get("input_tokens").Int() == 0 {
			t.Errorf("%s: the first event is %.400s", mode, first)
		}
	}
}

// refusesTemperature answers as OpenAI does for reasoning models.
type refusesTemperature struct{ http.RoundTripper }

func (r refusesTemperature) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte("temperature")) {
		return r.RoundTripper.RoundTrip(request)
	}
	resp, err := canned{"application/json", `{"error":{"code":"unsupported_parameter","param":"temperature","message":"Unsupported parameter: 'temperature'"}}`}.RoundTrip(request)
	if err == nil {
		resp.StatusCode = http.StatusBadRequest
	}
	return resp, err
}

// Members that are not sent to a model of another API are named in the client's terms.
func TestUnknownMembersAreNamed(t *testing.T) {
	chat, claude := exampleAPIs["chat"], exampleAPIs["Messages"]
	gemini := func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{API: middleware.DialectGemini, Model: "m", BaseURL: "http://upstream", Transport: up})
	}
	opus := func(up http.RoundTripper) (llms.Model, error) { // which rejects conversations that end with an answer
		return provider.New(provider.Options{API: middleware.DialectAnthropic, Model: "claude-opus-4-6", BaseURL: "http://upstream", Transport: up})
	}
	unable := func(up http.RoundTripper) (llms.Model, error) { // which refuses a parameter, and is asked again
		return chat.open(refusesTemperature{up})
	}
	gpt := func(up http.RoundTripper) (llms.Model, error) {
		return provider.New(provider.Options{Model: "gpt-4.1", Transport: up})
	}
	for want, api := range map[string]exampleAPI{
		"context_management, tools.cache_control": {path: messagesPath, open: chat.open, answer: chat.answer, request: `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[]},
			"tools":[{"name":"look","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`},
		"response_format, web_search_options": {path: chatPath, open: claude.open, answer: claude.answer, request: `{"messages":[{"role":"user","content":"hi"}],"web_search_options":{},
			"response_format":{"type":"json_schema","novel":1,"json_schema":{"name":"a","schema":{"type":"object"}}}}`},
		"": {path: responsesPath, open: claude.open, answer: claude.answer, request: `{"input":"hi","include":["reasoning.encrypted_content"],
			"tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}}}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"look"}]}}`},
		"include": {path: responsesPath, open: chat.open, answer: chat.answer, request: `{"input":"hi","include":["reasoning.encrypted_content","file_search_call.results"]}`},
		"citations, context of a document, is_error": {path: messagesPath, open: chat.open, answer: chat.answer, request: `{"max_tokens":9,"messages":[
			{"role":"user","content":[{"type":"document","context":"c","citations":{"enabled":true},"source":{"type":"base64","media_type":"application/pdf","data":"AAE="}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"boom"}]}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`},
		"system role within the conversation": {path: chatPath, open: claude.open, answer: claude.answer, request: `{"messages":[{"role":"user","content":"hi"},{"role":"system","content":"be brief"},{"role":"user","content":"go on"}]}`},
		"novel":                               {path: chatPath, open: claude.open, answer: claude.answer, request: `{"messages":[{"role":"user","content":[{"type":"text","text":"hi","novel":1}]}]}`},
		"cache_control, citations": {path: messagesPath, open: chat.open, answer: chat.answer, request: `{"max_tokens":9,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":[{"type":"document","citations":{"enabled":true},"cache_control":{"type":"ephemeral"},"source":{"type":"text","media_type":"text/plain","data":"a"}}]}]}`},
		"filename": {path: chatPath, open: gemini, answer: `{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`,
			request: `{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAE="}}]}]}`},
		"filename ": {path: chatPath, open: chat.open, answer: chat.answer, request: `{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_id":"file-1"}}]}]}`}, // OpenAI's own
		"content of another API": {path: responsesPath, open: opus, answer: claude.answer, // and the conversation ends with what the user said
			request: `{"input":[{"role":"user","content":"hi"},{"type":"code_interpreter_call","id":"ci_1","code":"1","container_id":"c","outputs":[]}]}`},
		"seed":                             {path: chatPath, open: claude.open, answer: claude.answer, request: `{"seed":1,"messages":[{"role":"user","content":"hi"}]}`},
		"repetition_penalty, top_k, min_p": {path: chatPath, open: gpt, answer: chat.answer, request: `{"top_k":1,"repetition_penalty":1.1,"min_p":0.1,"messages":[{"role":"user","content":"hi"}]}`},
		"top_k":                            {path: chatPath, open: gpt, answer: chat.answer, request: `{"top_k":-1,"messages":[{"role":"user","content":"hi"}]}`}, // none, to vLLM
		"top_logprobs":                     {path: responsesPath, open: chat.open, answer: chat.answer, request: `{"top_logprobs":2,"input":"hi"}`},
		"temperature above 1":              {path: chatPath, open: claude.open, answer: claude.answer, request: `{"temperature":1.5,"messages":[{"role":"user","content":"hi"}]}`},
		"top_k, thinking.budget_tokens, stop_sequences": {path: messagesPath, open: exampleAPIs["Responses"].open, answer: exampleAPIs["Responses"].answer,
			request: `{"max_tokens":2000,"top_k":3,"stop_sequences":["x"],"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"hi"}]}`},
		"temperature": {path: responsesPath, open: unable, answer: chat.answer, request: `{"input":"hi","temperature":0.5}`},
		" ": {path: messagesPath, open: chat.open, answer: chat.answer, request: `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}],
			"output_format":{"type":"json_schema","schema":{"type":"object","properties":{},"additionalProperties":false}}}`},
		"name, detail": {path: chatPath, open: claude.open, answer: claude.answer, request: `{"messages":[{"role":"user","name":"ann","content":[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},
			{"type":"image_url","image_url":{"url":"https://x/z.png","detail":"auto"}}]}]}`},
	} {
		_, w := askExample(t, api, api.request, upstream{whole: api.answer})
		if got := w.header.Get("X-Stepfall-Not-Sent"); w.code != http.StatusOK || got != strings.TrimSpace(want) || got != gjson.Get(w.body, "stepfall.not_sent").Str {
			t.Errorf("%q is not sent, want %q; status %d: %s", got, want, w.code, w.body)
		}
	}
}

// Leaving out strict has a meaning in Responses, and only there: the API then makes the schema strict.
func TestFunctionsOfResponsesCanOmitStrict(t *testing.T) {
	for members, want := range map[string][2]string{ // in Responses, and in chat completions
		"":                {"", ""},
		`,"strict":null`:  {"", ""},
		`,"strict":false`: {"false", ""},
		`,"strict":true`:  {"true", "true"},
	} {
		for i, name := range []string{"Responses", "chat"} {
			api := exampleAPIs[name]
			up, w := askExample(t, exampleAPI{path: responsesPath, open: api.open, answer: api.answer},
				`{"input":"hi","tools":[{"type":"function","name":"a.b","parameters":{"type":"object","properties":{}}`+members+`}]}`, upstream{whole: api.answer})
			got, unsent := gjson.Get(up.body, "tools.0.strict").Raw+gjson.Get(up.body, "tools.0.function.strict").Raw, w.header.Get("X-Stepfall-Not-Sent")
			if w.code != http.StatusOK || got != want[i] || unsent != "" {
				t.Errorf("%q to %s: status %d, strict is %q, want %q; not sent: %q", members, name, w.code, got, want[i], unsent)
			}
		}
	}
}

// Members that are sent to a model of the client's own API are not named, and those that its vendor does not accept are.
func TestOwnMembersAreNotNamed(t *testing.T) {
	chat, claude := exampleAPIs["chat"], exampleAPIs["Messages"]
	for request, api := range map[string]exampleAPI{
		`{"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"hi","novel":1,"cache_control":{"type":"ephemeral"}}]}]}`:                                                       claude,
		`{"messages":[{"role":"user","name":"ann","novel":1,"content":[{"type":"text","text":"hi","cache_control":{}},{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]}]}`: chat,
	} {
		_, w := askExample(t, api, request, upstream{whole: api.answer})
		if got := w.header.Get("X-Stepfall-Not-Sent"); w.code != http.StatusOK || got != "" {
			t.Errorf("%s: %q is not sent; status %d: %s", request, got, w.code, w.body)
		}
	}
}

type clientAnswer struct {
	header http.Header
	code   int
	body   string
}

// askExample sends a request to a gateway in front of one model of an API, and returns the model's request.
func askExample(t *testing.T, api exampleAPI, request string, answers upstream) (*seen, clientAnswer) {
	t.Helper()
	return askExampleBy(t, api, request, answers, middleware.Passthrough)
}

func askExampleBy(t *testing.T, api exampleAPI, request string, answers upstream, stream middleware.StreamMode) (*seen, clientAnswer) {
	t.Helper()
	up := &seen{upstream: answers}
	llm, err := api.open(up)
	if err != nil {
		t.Fatal(err)
	}
	m, err := middleware.New(middleware.Config{Lambda: 1, Stream: stream, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true, Images: true, JSONMode: true, JSONSchema: true}}, LLM: llm}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	w := post(newGateway(t, gateway.Options{Model: m, Models: named("m")}), api.path, strings.Replace(request, "%v", "false", 1))
	return up, clientAnswer{w.Header(), w.Code, w.Body.String()}
}

package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/stepfall/stepfall/adapters/gateway"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// A model's reasoning between its texts and calls keeps its position, both in a stream of an answer that was held back
// and in an answer that is not streamed: the model rejects its turn in another order. A client of chat completions,
// whose messages have no order, does not send such state back.
func TestReasoningStaysInOrder(t *testing.T) {
	const (
		claude = `{"id":"a","type":"message","role":"assistant","model":"m","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"A","signature":"s1"},{"type":"text","text":"hi"},
			{"type":"thinking","thinking":"B","signature":"s2"},{"type":"tool_use","id":"t1","name":"look","input":{}},{"type":"tool_use","id":"t2","name":"look","input":{}},
			{"type":"thinking","thinking":"C","signature":"s3"},{"type":"tool_use","id":"t3","name":"look","input":{}}],"usage":{"input_tokens":3,"output_tokens":4}}`
		gpt = `{"id":"a","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"e1"},
			{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"hi"}]},{"type":"reasoning","id":"r2","summary":[],"encrypted_content":"e2"},
			{"type":"function_call","call_id":"t1","name":"look","arguments":"{}"},{"type":"reasoning","id":"r3","summary":[],"encrypted_content":"e3"},{"type":"function_call","call_id":"t2","name":"look","arguments":"{}"}],
			"usage":{"input_tokens":3,"output_tokens":4}}`
	)
	ask := func(api, path, answer, request string) string {
		llm, err := exampleAPIs[api].open(&seen{upstream: upstream{whole: answer}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := middleware.New(middleware.Config{Lambda: 1, Models: []middleware.Candidate{{Model: sdk.Model{Name: "m", Capabilities: sdk.Capabilities{Tools: true}}, LLM: llm}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w := post(newGateway(t, gateway.Options{Model: m, Models: named("m")}), path, request)
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	kinds := func(stream, event, path string) string {
		var list []string
		for line := range strings.Lines(stream) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && gjson.Get(data, "type").Str == event {
				list = append(list, gjson.Get(data, path).String())
			}
		}
		return strings.Join(list, " ")
	}
	const tools = `"tools":[{"name":"look","type":"function","input_schema":{"type":"object"},"parameters":{"type":"object"}}]`
	got := ask("Messages", messagesPath, claude, `{"stream":true,"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[{"role":"user","content":"hi"}],`+strings.Replace(tools, `"type":"function",`, "", 1)+`}`)
	if order := kinds(got, "content_block_start", "content_block.type"); order != "thinking text thinking tool_use tool_use thinking tool_use" {
		t.Errorf("Messages: %s in %s", order, got)
	}
	got = ask("Responses", responsesPath, gpt, `{"stream":true,"input":"hi","include":["reasoning.encrypted_content"],`+tools+`}`)
	if order := kinds(got, "response.output_item.done", "item.type"); order != "reasoning message reasoning function_call reasoning function_call" {
		t.Errorf("Responses: %s in %s", order, got)
	}
	// State that a server of chat completions requires back with its calls is sent to a client that did not
	// request thinking, in a form that the client ignores, and returns with its next request.
	const deep = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"t1","type":"function","function":{"name":"look","arguments":"{}"}}]}}]}`
	if got = ask("chat", messagesPath, deep, `{"max_tokens":40,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`); gjson.Get(got, "content.#.type").Raw != `["redacted_thinking","tool_use"]` {
		t.Errorf("without thinking: %s", got)
	}
	for _, stream := range []string{"true", "false"} { // and not without calls: "content[0].text" is the answer
		got = ask("chat", messagesPath, strings.Replace(deep, `"content":null`, `"content":"hi"`, 1), `{"stream":`+stream+`,"max_tokens":40,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`)
		if order := kinds(got, "content_block_start", "content_block.type") + strings.Join(strings.FieldsFunc(gjson.Get(got, "content.#.type").Raw, func(c rune) bool { return strings.ContainsRune(`[",]`, c) }), " "); order != "text redacted_thinking tool_use" {
			t.Errorf("a text before the call: %q in %s", order, got)
		}
		got = ask("chat", messagesPath, `{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi","reasoning_content":"hm"}}]}`, `{"stream":`+stream+`,"max_tokens":40,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`)
		if strings.Contains(got, "thinking") || !strings.Contains(got, `"text"`) {
			t.Errorf("without calls: %s", got)
		}
	}
	got = ask("chat", messagesPath, deep, `{"stream":true,"max_tokens":40,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"look","input_schema":{"type":"object"}}]}`)
	if order := kinds(got, "content_block_start", "content_block.type") + " " + kinds(got, "content_block_start", "index"); order != "redacted_thinking tool_use 0 1" {
		t.Errorf("streamed without thinking: %q in %s", order, got)
	}
	chat := `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]}`
	if got = ask("Messages", chatPath, claude, chat); gjson.Get(got, "choices.0.message.reasoning_details").Exists() || len(gjson.Get(got, "choices.0.message.tool_calls").Array()) != 3 {
		t.Errorf("chat: %s", got)
	}
}

// The reasoning of a chat completions model precedes its text in a live stream, once, and is sent back
// to it.
func TestReasoningOfChatStaysInOrder(t *testing.T) {
	chunk := func(delta string) string {
		return `{"id":"a","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `}]}`
	}
	end := `{"id":"a","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	const call = `"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":"{\"a\":"}`
	rest := chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`)
	for name, c := range map[string]struct{ streamed, order, path, want string }{
		"in turn": {sse(chunk(`{"reasoning_content":"A"}`), chunk(`{"reasoning_content":"B"}`), chunk(`{"content":"hi"}`), chunk(`{`+call+`}]}`), rest, end, "[DONE]"), "thought text call", "reasoning_content", "AB"},
		"at once": {sse(chunk(`{"content":"hi","reasoning_content":"AB",`+call+`}]}`), rest, end, "[DONE]"), "thought text call", "reasoning_content", "AB"},
		"signed":  {sse(chunk(`{`+call+`,"extra_content":{"google":{"thought_signature":"S"}}}]}`), rest, end, "[DONE]"), "thought call", "tool_calls.0.extra_content.google.thought_signature", "S"},
	} {
		for path, request := range map[string]string{
			messagesPath:  `"max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[{"name":"look","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}`,
			responsesPath: `"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}],"input":[{"role":"user","content":"hi"}`,
		} {
			api := exampleAPIs["chat"]
			api.path = path
			_, w := askExampleBy(t, api, `{"model":"m","stream":true,`+request+`]}`, upstream{streamed: c.streamed}, middleware.Passthrough)
			var kinds []string
			var content string
			if path == messagesPath {
				content = contentOf(w.body)
			}
			for line := range strings.Lines(w.body) {
				if event := gjson.Parse(strings.TrimPrefix(line, "data: ")); event.Get("type").Str == "response.completed" {
					content = event.Get("response.output").Raw
				}
			}
			for _, one := range gjson.Parse(content).Array() {
				kinds = append(kinds, map[string]string{"thinking": "thought", "redacted_thinking": "thought", "reasoning": "thought", "text": "text", "message": "text", "tool_use": "call", "function_call": "call"}[one.Get("type").Str])
			}
			if got := strings.Join(kinds, " "); got != c.order {
				t.Errorf("%s, %s: %s in %s", name, path, got, w.body)
				continue
			}
			next := `,{"role":"assistant","content":` + content + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a"}]}`
			if path == responsesPath {
				next = "," + content[1:len(content)-1] + `,{"type":"function_call_output","call_id":"t1","output":"a"}`
			}
			up, w := askExampleBy(t, api, `{"model":"m",`+request+next+`]}`, upstream{whole: api.answer}, middleware.Passthrough)
			if back := gjson.Get(up.body, "messages.1."+c.path).Str; back != c.want {
				t.Errorf("%s, %s: the model is sent %s; status %d: %s", name, path, up.body, w.code, w.body)
			}
		}
	}
}

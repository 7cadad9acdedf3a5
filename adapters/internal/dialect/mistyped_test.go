package dialect

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/middleware"
)

// A member of an unexpected type makes the answer a fault of the server, whole or streamed. The answer is never
// returned without the member.
func TestMembersOfAWrongType(t *testing.T) {
	const (
		chatDelta, chatMessage = `{"choices":[{"index":0,"delta":%}]}`, `{"choices":[{"index":0,"message":%,"finish_reason":"stop"}]}`
		block                  = `{"type":"content_block_start","index":0,"content_block":%}`
		delta                  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n" + `{"type":"content_block_delta","index":0,"delta":%}`
		call                   = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{}}}` + "\n" + `{"type":"content_block_delta","index":0,"delta":%}`
		message                = `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"a"},%],"stop_reason":"end_turn"}`
	)
	for _, tt := range []struct {
		client    Client
		isWhole   bool
		form      string
		bad, good []string
	}{
		{chat{}, false, `{"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n" + `{"choices":%}`, []string{`null`, `7`, `{}`, `"x"`, `[null]`, `[7]`}, []string{`[]`}},
		{chat{}, false, chatDelta, []string{`7`, `[]`, `"x"`, `{"content":7}`, `{"content":{}}`, `{"content":["a"]}`, `{"content":[{"type":"text","text":7}]}`, `{"refusal":7}`, `{"reasoning_content":[{"text":7}]}`,
			`{"reasoning_details":7}`, `{"reasoning_details":[7]}`, `{"reasoning_details":[{"type":"reasoning.text","text":7}]}`,
			`{"tool_calls":{}}`, `{"tool_calls":[7]}`, `{"tool_calls":[{"function":7}]}`, `{"tool_calls":[{"function":{"name":7}}]}`, `{"tool_calls":[{"function":{"name":"a","arguments":7}}]}`, `{"tool_calls":[{"custom":7}]}`},
			[]string{`null`, `{"content":null,"refusal":null,"tool_calls":null,"reasoning_details":null,"reasoning":null}`, `{"tool_calls":[{"index":0,"id":null,"function":{"name":"a","arguments":null}}]}`, `{"content":[{"type":"image_url"}]}`}},
		{chat{}, false, `{"choices":[{"index":0,"delta":{},"finish_reason":%}]}`, []string{`7`, `{}`}, []string{`null`}},
		{chat{}, true, chatMessage, []string{`7`, `{"content":7,"tool_calls":[{"id":"a","function":{"name":"b","arguments":"{}"}}]}`, `{"content":[{"type":"text","text":"one"},{"type":"text","text":7}]}`,
			`{"content":"a","tool_calls":"str"}`, `{"content":"a","tool_calls":7}`, `{"content":"a","tool_calls":true}`, `{"content":"a","tool_calls":{"0":"1"}}`},
			[]string{`{"content":"a","tool_calls":null,"refusal":null}`, `{"content":null,"tool_calls":[{"id":"a","function":{"name":"b","arguments":{"c":1}}}]}`}},
		{messages{}, false, `{"type":%}`, []string{`7`, `{}`}, []string{`"ping"`, `null`}},
		{messages{}, false, block, []string{`7`, `null`, `{}`, `{"type":7}`, `{"type":null}`, `{"type":"text","text":7}`, `{"type":"thinking","thinking":7}`, `{"type":"tool_use","id":7,"name":"b"}`, `{"type":"tool_use","id":"a","name":7}`}, []string{`{"type":"text","text":null}`}},
		{messages{}, false, delta, []string{`null`, `7`, `"x"`, `[]`, `{"type":"text_delta","text":7}`, `{"type":"thinking_delta","thinking":7}`, `{"type":"signature_delta","signature":7}`}, []string{`{"type":"text_delta","text":null}`, `{"type":"novel_delta","novel":7}`}},
		{messages{}, false, call, []string{`{"type":"input_json_delta","partial_json":7}`}, []string{`{"type":"input_json_delta","partial_json":null}`, `{"type":"input_json_delta","partial_json":"{}"}`}},
		{messages{}, false, `{"type":"content_block_start","index":%,"content_block":{"type":"text","text":""}}`, []string{`"0"`, `{}`, `null`}, []string{`0`}},
		{messages{}, true, message, []string{`7`, `{"type":"text","text":7}`, `{"type":7,"text":"b"}`, `{"type":"tool_use","id":"a","name":7,"input":{}}`}, []string{`{"type":"text","text":"b"}`}},
		{responses{}, false, `{"type":"response.output_text.delta","output_index":0,"delta":%}`, []string{`7`, `{}`}, []string{`"a"`, `null`}},
		{responses{}, false, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":%}`, []string{`7`}, []string{`"{"`}},
		{responses{}, false, `{"type":%}`, []string{`7`, `{}`}, []string{`null`, `"response.novel"`}},
		{responses{}, true, `{"id":"r","status":"completed","output":[%]}`, []string{`null`, `{}`, `7`, `{"type":7}`}, []string{`{"content":[{"text":"a"}]}`}},
		{gemini{}, false, `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":%}}]}}]}`, []string{`7`, `[]`}, []string{`null`, `{}`, `"{}"`}},
		{ollama{}, false, `{"message":{"tool_calls":[{"function":{"name":"a","arguments":%}}]},"done":false}`, []string{`7`, `[]`}, []string{`null`, `{}`, `"{}"`}},
		{messages{}, true, `{"id":"m","content":[{"type":"tool_use","id":"a","name":"b","input":%}],"stop_reason":"tool_use"}`, []string{`7`, `[]`}, []string{`null`, `{}`, `"{}"`}},
		{gemini{}, false, `{"candidates":[{"content":{"parts":[{"text":%}]}}]}`, []string{`7`}, []string{`"a"`, `null`}},
		{ollama{}, false, `{"message":{"content":%},"done":false}`, []string{`7`}, []string{`"a"`, `null`}},
	} {
		read := func(value string) error {
			r := tt.client.Reader(&Reply{Emit: func(*middleware.Delta) {}})
			if tt.isWhole {
				return r.Whole([]byte(strings.Replace(tt.form, "%", value, 1)))
			}
			for event := range strings.SplitSeq(strings.Replace(tt.form, "%", value, 1), "\n") {
				if err := r.Event([]byte(event)); err != nil {
					return err
				}
			}
			return nil
		}
		for _, value := range tt.bad {
			if err := read(value); err == nil || strings.Contains(err.Error(), "%") {
				t.Errorf("%s: %s of a wrong type passes for %s: %v", tt.client.Dialect(), tt.form, value, err)
			}
		}
		for _, value := range tt.good {
			if err := read(value); err != nil {
				t.Errorf("%s: %s with %s: %v", tt.client.Dialect(), tt.form, value, err)
			}
		}
	}
}

// Arguments are always an object, whatever represents missing ones, and a call without a name is an error.
func TestCallsAsServersWriteThem(t *testing.T) {
	for answer, want := range map[string]string{
		`{"name":"a","args":null}`: "{}", `{"name":"a"}`: "{}", `{"name":"a","args":"{\"b\":1}"}`: `{"b":1}`, `{"name":"a","args":{"b":1}}`: `{"b":1}`, `{"args":{}}`: "", `{"name":null}`: "",
	} {
		reply := &Reply{Emit: func(*middleware.Delta) {}}
		if err := (gemini{}).Reader(reply).Whole([]byte(`{"candidates":[{"content":{"parts":[{"functionCall":` + answer + `}]},"finishReason":"STOP"}]}`)); err != nil {
			t.Fatal(err)
		}
		got, err := reply.Response()
		if (err != nil) != (want == "") || err == nil && got.Choices[0].ToolCalls[0].FunctionCall.Arguments != want {
			t.Errorf("%s: %+v, %v; want %s", answer, got, err, want)
		}
	}
}

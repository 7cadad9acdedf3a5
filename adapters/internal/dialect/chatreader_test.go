package dialect

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/middleware"
)

// Whatever a server sends, the pieces of a stream add up to its answer.
func FuzzEvents(f *testing.F) {
	for _, event := range []string{
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"word"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		`{"choices":[{"index":1,"delta":{"content":[{"type":"text","text":"a"}],"reasoning_content":"hm","refusal":"no"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{"}},{"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}`,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":0}]},"logprobs":{"content":[{"token":"a","logprob":-1}]}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":20.0,"completion_tokens":"20","total_tokens":40}}`, `{"choices":{"index":0},"usage":[1],"created":"x"}`, `[{"error":{}}]`, `{"error":{"message":"no"}}`, `nothing`,
	} {
		f.Add([]byte(event), []byte(event))
		f.Add([]byte(event), []byte(strings.ReplaceAll(event, "word", `w\"`)))
		f.Add([]byte(event), []byte(strings.ReplaceAll(event, "word", "\xff\n")))
		f.Add([]byte(event), []byte(strings.ReplaceAll(event, "word", `another","content":"word`)))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		events := [][]byte{a, b, a, b}
		whole, again := readEvents(t, events, true), readEvents(t, events, false)
		if whole != again {
			t.Errorf("%q, with each event parsed %q", again, whole)
		}
	})
}

// readEvents reads events up to the first fault and returns their content. With forgets, no event is matched by the
// form of the previous one.
func readEvents(t *testing.T, events [][]byte, forgets bool) string {
	said := map[int]string{}
	thought := map[int]string{}
	arguments := map[[2]int]string{}
	s := &chatReader{Reply: &Reply{Emit: func(d *middleware.Delta) {
		said[d.Choice] += d.Text
		thought[d.Choice] += d.Reasoning
		if d.Tool != nil {
			arguments[[2]int{d.Choice, d.Tool.Index}] += d.Tool.Arguments
		}
	}}}
	var err error
	for _, event := range events {
		if err = s.Event(event); err != nil {
			break
		}
		if forgets {
			s.last = textPiece{}
		}
	}
	for i, c := range s.choices {
		if c.content.String() != said[i] || strings.ToValidUTF8(said[i], "") != said[i] {
			t.Errorf("choice %d is %q, streamed %q", i, c.content.String(), said[i])
		}
		if c.reasoning.String() != thought[i] {
			t.Errorf("choice %d thought %q, streamed %q", i, c.reasoning.String(), thought[i])
		}
		for k, call := range c.calls {
			if whole := c.places[k].arguments.String(); call.Type != "custom" && whole != arguments[[2]int{i, k}] {
				t.Errorf("call %d of %d has %q, streamed %q", k, i, whole, arguments[[2]int{i, k}])
			}
		}
	}
	return fmt.Sprint(said, thought, arguments, s.Extra, err != nil)
}

// Null in place of a list means an empty list, and a call without arguments gets empty arguments.
func TestWhatServersLeaveOut(t *testing.T) {
	for event, want := range map[string]string{
		`{"choices":[{"message":{"role":"assistant","content":"hi","tool_calls":null,"reasoning_details":null},"finish_reason":"stop"}]}`:                                                                            ``,
		`{"choices":[{"delta":{"content":"hi","tool_calls":null},"finish_reason":"stop"}],"usage":null}`:                                                                                                             ``,
		`{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"look","arguments":"{}"}},{"id":"b","function":{"name":"go"}}]},"finish_reason":"tool_calls"}]}`:                                         `look {}, go {}, `,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"go"}}]},"finish_reason":null}]}` + "\n" + `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n" + `{"choices":null}`: `go {}, `,
		`{"choices":[{"message":{"tool_calls":[{"id":"","function":{"name":"look","arguments":"{}"}},{"id":"","function":{"name":"go","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`:                          `look {}, go {}, `,
		`{"choices":[{"message":{"tool_calls":[{"id":"k","function":{"name":"look","arguments":"{}"}},{"id":"k","function":{"name":"look","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`:                      `look {}, look {}, `,
		`{"choices":[{"delta":{"tool_calls":[{"id":"","function":{"name":"look","arguments":"{}"}},{"id":"","function":{"name":"go"}}]},"finish_reason":"tool_calls"}]}`:                                             `look {}, go {}, `,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"look"}}]}}]}` + "\n" + `{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}},{"index":1,"id":"b","function":{"name":"go"}}]}}]}` + "\n" +
			`{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"[]"}}]},"finish_reason":"tool_calls"}]}`: `look {}, go [], `,
	} {
		said := ""
		s := &chatReader{Reply: &Reply{Emit: func(d *middleware.Delta) {
			if d.Tool != nil {
				said += d.Tool.Arguments
			}
		}}}
		for data := range strings.SplitSeq(event, "\n") {
			if err := s.Event([]byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.End(true); err != nil {
			t.Fatal(err)
		}
		got, ids := "", map[string]bool{"": true}
		for _, call := range s.choices[0].calls {
			if ids[call.ID] {
				t.Errorf("%s: two calls have the id %q", event, call.ID)
			}
			ids[call.ID] = true
			got += call.FunctionCall.Name + " " + call.FunctionCall.Arguments + ", "
		}
		if got != want || strings.Count(said, "{}") != strings.Count(want, "{}") {
			t.Errorf("%s: calls %q, streamed %q", event, got, said)
		}
	}
}

// The cost of a stream grows linearly with its length.
func TestLongStreams(t *testing.T) {
	for d, event := range map[middleware.Dialect][]string{
		middleware.DialectChat: {
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"0123456789","index":0}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"0123456789"}}]}}]}`,
		},
		middleware.DialectOllama: {`{"message":{"thinking":"0123456789"}}`},
	} {
		for _, event := range event {
			var before, after runtime.MemStats
			reader := Clients[d].Reader(&Reply{Origin: "abcdefghijkl", Emit: func(*middleware.Delta) {}})
			runtime.ReadMemStats(&before)
			for range 5000 {
				if err := reader.Event([]byte(event)); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 50 {
				t.Errorf("%s: 5000 times %s: %d MB", d, event, used)
			}
		}
	}
}

// Choices with equal or missing indexes remain separate: their texts are never joined.
func TestIndexesOfChoices(t *testing.T) {
	for indexes, want := range map[string]string{
		`0 1`: "ab", `1 0`: "ba", `0 0`: "ab", `"0" "1"`: "ab", `"1" "0"`: "ba", `null null`: "ab", `"x" "y"`: "ab", `1 1`: "ab", `0 -1`: "", `0 1000`: "", `0 null`: "ab",
	} {
		first, second, _ := strings.Cut(indexes, " ")
		for _, member := range []string{"message", "delta"} {
			r := chat{}.Reader(&Reply{Emit: func(*middleware.Delta) {}}).(*chatReader)
			err := r.Event([]byte(`{"choices":[{"index":` + first + `,"` + member + `":{"content":"a"},"finish_reason":"stop"},{"index":` + second + `,"` + member + `":{"content":"b"},"finish_reason":"stop"}]}`))
			got := ""
			for _, c := range r.choices {
				got += c.content.String()
			}
			if (err != nil) != (want == "") || err == nil && (got != want || len(r.choices) != 2) {
				t.Errorf("%s: %q of %d choices, want %q: %v", indexes, got, len(r.choices), want, err)
			}
		}
	}
}

// Mistral's reasoning arrives as parts of the content, both whole and streamed.
func TestThoughtsInTheContent(t *testing.T) {
	const whole = `{"choices":[{"index":0,"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"}]},{"type":"reference","reference_ids":[1]},{"type":"text","text":"so"}]},"finish_reason":"stop"}]}`
	pieces := []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}],"closed":true},{"type":"text","text":"s"}]}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"o"},"finish_reason":"stop"}]}`,
	}
	for _, events := range [][]string{{whole}, pieces} {
		said, thought := "", ""
		reply := &Reply{Origin: "mistral", Emit: func(d *middleware.Delta) { said, thought = said+d.Text, thought+d.Reasoning }}
		r := chat{}.Reader(reply)
		for _, event := range events {
			if err := r.Event([]byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.End(true); err != nil {
			t.Fatal(err)
		}
		answer, err := reply.Response()
		if err != nil {
			t.Fatal(err)
		}
		choice := answer.Choices[0]
		if said != "so" || thought != "hm" || choice.Content != said || choice.ReasoningContent != thought {
			t.Errorf("said %q, thought %q; whole %q, %q", said, thought, choice.Content, choice.ReasoningContent)
		}
		state, _ := middleware.ExtraOf(choice).Parts[0].(middleware.RawPart)
		if state.Model != "mistral" || string(state.Raw) != `{"reasoning_content":"hm"}` {
			t.Errorf("state %+v", state)
		}
	}
}

// An answer is incomplete if it ends with a call but has none, if its stop reason is unknown, or if its stream does not
// report an end.
func TestEndsThatAreNone(t *testing.T) {
	const (
		called    = `{"choices":[{"index":0,"%":{"content":"a","tool_calls":%},"finish_reason":"tool_calls"}]}`
		custom    = `[{"id":"c","type":"custom","custom":{"name":"n","input":"i"}}]`
		function  = `[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}]`
		use       = `{"type":"message","id":"m","content":[{"type":"text","text":"a"}%],"stop_reason":"tool_use"}`
		start     = `{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":6}}}` + "\n" + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n"
		responded = `{"id":"r","status":"incomplete","incomplete_details":{"reason":"%"},"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`
	)
	for _, tt := range []struct {
		client  Client
		isWhole bool
		answer  string
		want    string // "" fails
	}{
		{chat{}, true, strings.Replace(strings.Replace(called, "%", "message", 1), "%", "null", 1), "error: tool_calls without a call"},
		{chat{}, false, strings.Replace(strings.Replace(called, "%", "delta", 1), "%", "[]", 1), "error: tool_calls without a call"},
		{chat{}, true, strings.Replace(strings.Replace(called, "%", "message", 1), "%", function, 1), "tool_calls"},
		{chat{}, false, strings.Replace(strings.Replace(called, "%", "delta", 1), "%", custom, 1), "tool_calls"},
		{messages{}, true, strings.Replace(use, "%", "", 1), "error: tool_use without a call"},
		{messages{}, true, strings.Replace(use, "%", `,{"type":"tool_use","id":"c","name":"n","input":{}}`, 1), "tool_use"},
		{messages{}, false, start + `{"type":"message_stop"}`, ""},
		{messages{}, false, start + `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, ""},
		{messages{}, false, start + `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n" + `{"type":"message_stop"}`, "end_turn"},
		{responses{}, true, strings.Replace(responded, "%", "novel", 1), "error: incomplete novel"},
		{responses{}, true, strings.Replace(responded, "%", "content_filter", 1), "content_filter"},
		{responses{}, true, strings.Replace(responded, "%", "max_output_tokens", 1), "length"},
	} {
		reply := &Reply{Emit: func(*middleware.Delta) {}}
		r := tt.client.Reader(reply)
		take := r.Event
		if tt.isWhole {
			take = r.Whole
		}
		for event := range strings.SplitSeq(tt.answer, "\n") {
			if err := take([]byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := "", r.End(true)
		if err == nil {
			answer, err := reply.Response()
			if err != nil {
				t.Fatal(err)
			}
			got = "whole " + answer.Choices[0].StopReason
		}
		if got != strings.TrimSuffix("whole "+tt.want, "whole ") {
			t.Errorf("%s: %s ends with %q, want %q: %v", tt.client.Dialect(), tt.answer, got, tt.want, err)
		}
	}
}

// A piece of text of Messages is read by the form of the one before it, at the cost of its text.
func TestPiecesOfMessagesAllocateLittle(t *testing.T) {
	r := &messagesReader{Reply: &Reply{Emit: func(*middleware.Delta) {}}}
	read := func(event string) {
		if err := r.Event([]byte(event)); err != nil {
			t.Fatal(err)
		}
	}
	read(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"m","usage":{"input_tokens":1,"output_tokens":1}}}`)
	read(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	piece := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a word "}}`)
	if n := testing.AllocsPerRun(1000, func() { _ = r.Event(piece) }); n > 1 {
		t.Errorf("%v allocations for a piece", n)
	}
}

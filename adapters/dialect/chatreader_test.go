package dialect

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/middleware"
)

// Whatever a server sends, a reader of the stream has what the answer says, piece by piece.
func FuzzEvents(f *testing.F) {
	for _, event := range []string{
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"word"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		`{"choices":[{"index":1,"delta":{"content":[{"type":"text","text":"a"}],"reasoning_content":"hm","refusal":"no"}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"look","arguments":"{"}},{"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}`,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":0}]},"logprobs":{"content":[{"token":"a","logprob":-1}]}}]}`,
		`{"choices":[],"usage":{"prompt_tokens":20.0,"completion_tokens":"20","total_tokens":40}}`, `{"choices":{"index":0},"usage":[1],"created":"x"}`, `[{"error":{}}]`, `{"error":{"message":"no"}}`, `nothing`,
	} {
		f.Add([]byte(event), []byte(event))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		said := map[int]string{}
		arguments := map[[2]int]string{}
		s := &chatReader{Reply: &Reply{Emit: func(d *middleware.Delta) error {
			said[d.Choice] += d.Text
			if d.Tool != nil {
				arguments[[2]int{d.Choice, d.Tool.Index}] += d.Tool.Arguments
			}
			return nil
		}}}
		for _, event := range [][]byte{a, b, a} {
			if s.Event(event) != nil {
				break
			}
		}
		for i, c := range s.choices {
			if c.content.String() != said[i] || strings.ToValidUTF8(said[i], "") != said[i] {
				t.Errorf("choice %d is %q, streamed %q", i, c.content.String(), said[i])
			}
			for k, call := range c.calls {
				if call.FunctionCall.Arguments != arguments[[2]int{i, k}] {
					t.Errorf("call %d of %d has %q, streamed %q", k, i, call.FunctionCall.Arguments, arguments[[2]int{i, k}])
				}
			}
		}
	})
}

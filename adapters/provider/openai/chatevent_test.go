package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
)

const eventHead = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[`

var events = []string{
	eventHead + `{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"content":"other"},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"content":"a\nb"},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"content":"é 世"},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"content":""},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"content":"x"},"finish_reason":null},{"index":0,"delta":{"content":"y"},"finish_reason":null}]}`,
	eventHead + `{"index":0,"delta":{"role":"assistant","content":"a\u00e9\ud83d\ude00\n\"b"},"logprobs":null}],"usage":null}`,
	eventHead + `{"index":0,"delta":{"content":"lone \ud800 half"}}]}`,
	eventHead + `{"index":0,"delta":{"content":null,"reasoning_content":"hm"}}]}`,
	eventHead + `{"index":0,"delta":{"content":"x","content":"y"}}]}`,
	eventHead + `{"index":0,"delta":{"content":"x","content":null}}]}`,
	eventHead + `{"index":0,"delta":{"content":"x","content":["y"]}}]}`,
	eventHead + `{"index":0,"delta":{"Content":"x"}}]}`,
	eventHead + `{"index":9007199254740993,"delta":{"content":"x"}}]}`,
	eventHead + `{"index":1e0,"delta":{"content":"x"}}]}`,
	eventHead + `{"index":0.5,"delta":{"content":"x"}}]}`,
	eventHead + `{"index":-1,"delta":{"content":"x"}}]}`,
	eventHead + `{"index":1,"delta":{"content":"second"}}]}`,
	eventHead + `{"index":0,"delta":{"content":"x","tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}]}}]}`,
	eventHead + `{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-0.5}]}}]}`,
	eventHead + `{"index":0,"delta":{},"finish_reason":"stop"}]}`,
	eventHead + `{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`,
	eventHead + `{"index":0,"delta":{"content":"x"},"finish_reason":7}]}`,
	eventHead + `{"index":0,"delta":{"content":"x"}}],"error":{"message":"no"}}`,
	eventHead + `{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3}}`,
	eventHead + `],"usage":{"prompt_tokens":20,"completion_tokens":8,"total_tokens":28,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}`,
	eventHead + `],"usage":{"prompt_tokens":"20","completion_tokens":8.5,"total_tokens":1e2,"prompt_tokens_details":null}}`,
	eventHead + `{"index":0,"delta":{"content":"x"}}],"choices":[]}`,
	eventHead + `{"index":0,"delta":{"content":"x"}}],"provider":"p","x_groq":{"id":"r"},"Usage":{"prompt_tokens":3}}`,
	eventHead + `{"index":0,"delta":{"refusal":"no"}}]}`,
	`{"id":"other","model":"served","system_fingerprint":"f","service_tier":"flex","created":"7","choices":[{"delta":{"content":"x"}}]}`,
	`{"id":"c","choices":[{"index":0,"delta":{"content":"x"}}],"obfuscation":"abc"}`,
	`{"id":"c","choices":[{"index":0,"delta":{"content":"long \"},{\"index\":0"}}],"obfuscation":"de"}`,
	`[1]`, `null`, `{"choices":[{"delta":"x"}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}", `{"choices":null}`, `{"choices":{}}`,
}

// came is what came of a stream.
type came struct {
	Head   middleware.Extra
	Deltas []middleware.Delta
	Fault  string
	Choice []string
}

func tell(list [][]byte, event func(s *chatState, data []byte) error) (out came) {
	s := &chatState{answer: &answer{x: &wire.Exchange{}, emit: func(d *middleware.Delta) error {
		out.Deltas = append(out.Deltas, *d)
		return nil
	}}}
	for _, data := range list {
		if err := event(s, data); err != nil {
			out.Fault = err.Error()
			break
		}
	}
	out.Head = s.head
	for _, c := range s.choices {
		calls, err := json.Marshal(c.calls)
		out.Choice = append(out.Choice, fmt.Sprintf("%q %q %q %q %s %v %v %q", c.content.String(), c.reasoning.String(), c.refusal.String(), c.finish, calls, err, c.logProbs, c.details))
	}
	return out
}

// However an event is read, what comes of a stream is the same.
func FuzzEvents(f *testing.F) {
	for i := range events {
		f.Add([]byte(events[i]), []byte(events[(i+1)%len(events)]), []byte(events[0]))
		f.Add([]byte(events[0]), []byte(events[i]), []byte(events[i]))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		list := [][]byte{a, b, c, b, a}
		got, want := tell(list, (*chatState).event), tell(list, (*chatState).decode)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", list, diff)
		}
	})
}

// Ordinary events go by the quick ways: the fuzzing above would not notice if none did.
func TestQuick(t *testing.T) {
	s := &chatState{answer: &answer{x: &wire.Exchange{}, emit: func(*middleware.Delta) error { return nil }}}
	for _, e := range []string{
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word"},"logprobs":null,"finish_reason":null}],"provider":"somebody"}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":20,"total_tokens":40,"completion_tokens_details":{"audio_tokens":0}}}`,
	} {
		if _, ok := s.quick([]byte(e)); !ok {
			t.Errorf("%s went by the decoder", e)
		}
	}
	first := []byte(`{"id":"c","choices":[{"index":0,"delta":{"content":"word"}}]}`)
	for range 2 { // the choice begins with the first
		if err := s.event(first); err != nil {
			t.Fatal(err)
		}
	}
	if text, ok := s.again.read(bytes.Replace(first, []byte("word"), []byte("another"), 1)); !ok || string(text) != "another" {
		t.Errorf("%q, %v", text, ok)
	}
}

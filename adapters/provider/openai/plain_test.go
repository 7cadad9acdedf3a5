package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/middleware"
)

// Whatever the quick reader of events takes, it reads as the decoder of the others would.
func FuzzPlain(f *testing.F) {
	const head = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":null,"choices":[`
	for _, seed := range []string{
		head + `{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`,
		head + `{"index":0,"delta":{"role":"assistant","content":"a\u00e9\ud83d\ude00\n\"b"},"logprobs":null}],"usage":null}`,
		head + `{"index":0,"delta":{"content":"lone \ud800 half"}}]}`,
		head + `{"index":0,"delta":{"content":null,"reasoning_content":"hm"}}]}`,
		head + `{"index":0,"delta":{"content":"x","content":"y"}}]}`,
		head + `{"index":0,"delta":{"Content":"x"}}]}`,
		head + `{"index":9007199254740993,"delta":{"content":"x"}}]}`,
		head + `{"index":0.5,"delta":{"content":"x"}}]}`,
		head + `{"index":-1,"delta":{"content":"x"}}]}`,
		head + `{"index":0,"delta":{"content":"x","tool_calls":[{"index":0}]}}]}`,
		head + `{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`,
		head + `{"index":0,"delta":{"content":"x"}},{"index":0,"delta":{"content":"y"}}]}`,
		head + `{"index":0,"delta":{"content":"x"}}],"error":{"message":"no"}}`,
		head + `{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3}}`,
		head + `{"index":0,"delta":{"content":"x"}}],"choices":[]}`,
		head + `{"index":0,"delta":{"refusal":"no"}}]}`,
		`{"id":"other","choices":[{"delta":{"content":"x"}}]}`,
		`[1]`, `null`, `{"choices":[{"delta":"x"}]}`, "{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &chatState{seen: true, head: middleware.Extra{ID: "c", Served: "m"}, choices: []*spoken{{}}}
		got, ok := s.plain(data)
		if !ok {
			return
		}
		var want completion
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("%s was read, and is not one: %v", data, err)
		}
		if len(want.Choices) != 1 || want.Usage != nil || len(want.Error) > 0 && string(want.Error) != "null" ||
			want.ID != "" && want.ID != "c" || want.Model != "" && want.Model != "m" || want.Fingerprint != "" {
			t.Fatalf("%s is not plain", data)
		}
		c := want.Choices[0]
		for _, raw := range []*json.RawMessage{&c.Delta.ReasoningDetails, &c.Delta.Annotations, &c.Delta.Audio, &c.Message.ReasoningDetails, &c.Message.Annotations, &c.Message.Audio} {
			if string(*raw) == "null" {
				*raw = nil
			}
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
	})
}

// An ordinary event goes by the quick way: the fuzzing above would not notice if none did.
func TestPlain(t *testing.T) {
	s := &chatState{seen: true, head: middleware.Extra{ID: "c", Served: "m"}, choices: []*spoken{{}}}
	c, ok := s.plain([]byte(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}],"obfuscation":"abc"}`))
	if !ok || c.Delta.Content != "word " {
		t.Errorf("got %+v, %v", c, ok)
	}
}

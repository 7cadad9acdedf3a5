package feature_test

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
)

func TestAnswerKey(t *testing.T) {
	for text, want := range map[string]string{
		"The sum is 12. Answer: 12":               "12",
		"ANSWER: Paris.\nThat is all.":            "paris",
		"answer: 1\nAnswer: 2":                    "2",
		"İİİİ Answer: 42":                         "42", // lower-case İ is longer
		"ȺȺȺȺȺȺȺȺ answer: x\nmore":                "x",  // lower-case Ⱥ is longer too
		"KKKK ANSWER: kelvin":                     "kelvin",
		`so \boxed{\frac{1}{2}} it is`:            `\frac{1}{2}`,
		"```json\n{\"answer\": \"A  b\"}\n```":    "a b",
		`{"reasoning": "long", "answer": [1, 2]}`: "[1, 2]",
		"":           "",
		"plain text": "plain text",
	} {
		if got := feature.AnswerKey(&sdk.Answer{Text: text}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	a := sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: "f", Arguments: `{"b": 1, "a": 2}`}}}
	b := sdk.Answer{Text: "calling", ToolCalls: []sdk.ToolCall{{Name: "f", Arguments: `{"a":2,"b":1}`}}}
	if feature.AnswerKey(&a) != feature.AnswerKey(&b) {
		t.Error("the order of arguments matters")
	}
}

func FuzzAnswerKey(f *testing.F) {
	for _, s := range []string{"Answer: 1", "İ answer:", `\boxed{`, "{\"answer\":", "\xff answer:\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := feature.AnswerKey(&sdk.Answer{Text: text + "\naNsWeR: 7\n"})
		if key != "7" && !strings.Contains(text, `\boxed{`) {
			t.Fatalf("%q", key)
		}
	})
}

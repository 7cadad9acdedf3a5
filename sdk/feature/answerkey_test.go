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
		`{"thought": "x", "b": 1.0, "a": " Y "}`:  `{"a":"y","b":1}`,
		"$1,204.50":                               "1204.5",
		"I have looked it up for you, and the total of order A-17 is $1,204.50 today.":                          "1204.5 a-17",
		"Order A-17 came to 1204.5 dollars in total; is there anything else you want?":                          "1204.5 a-17",
		"I have looked it up for you, but order A-17 can't be refunded $1,204.50 now.":                          "not 1204.5 a-17",
		"Thought: I should.\nAction: transfer\nAction Input: 100 to Alice":                                      "action: transfer action input: 100 to alice",
		"Thought: Let me do it.\nAction: transfer\nAction Input: 100 to Bob\nObservation: done":                 "action: transfer action input: 100 to bob",
		"Thought: the sum of all that was read so far is needed now.\nAction: Calculator\nAction Input: 12 + 7": "action: calculator action input: 12 + 7",
		"Action: find\nAction Input: {\"city\": \"Rome \", \"days\": 1.0}":                                      `action: find action input: {"city":"Rome","days":1}`,
		"Action: find\nAction Input: x\nObservation: 7\nFinal Answer: 7":                                        "7",
		"":           "",
		"plain text": "plain text",
	} {
		if got := feature.AnswerKey(&sdk.Answer{Text: text}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestKeysOfToolCalls(t *testing.T) {
	calls := func(list ...string) *sdk.Answer {
		a := &sdk.Answer{Text: strings.Join(list, " and ")}
		for i := 0; i < len(list); i += 2 {
			a.ToolCalls = append(a.ToolCalls, sdk.ToolCall{Name: list[i], Arguments: list[i+1]})
		}
		return a
	}
	for _, test := range []struct {
		name string
		a, b *sdk.Answer
		same bool
	}{
		{"order of arguments", calls("f", `{"b": 1, "a": 2}`), calls("f", `{"a":2,"b":1}`), true},
		{"form of numbers", calls("f", `{"x": 1.0, "y": 1e3}`), calls("f", `{"x": 1, "y": 1000}`), true},
		{"space around texts", calls("f", `{"x": " Ann "}`), calls("f", `{"x": "Ann"}`), true},
		{"order of parallel calls", calls("f", `{}`, "g", `{}`), calls("g", `{}`, "f", `{}`), true},
		{"no arguments", calls("f", ``), calls("f", `{}`), true},
		{"null is absent", calls("f", `{"x": 1, "y": null}`), calls("f", `{"x": 1}`), true},
		{"deep", calls("f", `{"x": [{"b": 2.50, "a": null}]}`), calls("f", `{"x": [{"b": 2.5}]}`), true},
		{"letter case of a text", calls("f", `{"x": "ann"}`), calls("f", `{"x": "Ann"}`), false},
		{"order of a list", calls("f", `{"x": [1, 2]}`), calls("f", `{"x": [2, 1]}`), false},
		{"text and number", calls("f", `{"x": "1"}`), calls("f", `{"x": 1}`), false},
		{"numbers beyond float64", calls("f", `{"x": 9007199254740993}`), calls("f", `{"x": 9007199254740992}`), false},
		{"names", calls("f", `{}`), calls("g", `{}`), false},
		{"twice", calls("f", `{}`, "f", `{}`), calls("f", `{}`), false},
		{"a text that reads like a call", calls("f", `{}`), &sdk.Answer{Text: "f({})"}, false},
	} {
		if a, b := feature.AnswerKey(test.a), feature.AnswerKey(test.b); (a == b) != test.same {
			t.Errorf("%s: %q and %q", test.name, a, b)
		}
	}
	key := feature.HashKey(feature.AnswerKey(calls("f", `{"x": 1}`)))
	if len(key) != 16 || feature.AnswerKey(&sdk.Answer{Text: key}) != key || feature.HashKey("") != "" {
		t.Errorf("a hashed key %q is not its own key", key)
	}
}

func FuzzAnswerKey(f *testing.F) {
	for _, s := range []string{"Answer: 1", "İ answer:", `\boxed{`, "{\"answer\":", "\xff answer:\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := feature.AnswerKey(&sdk.Answer{Text: text + "\naNsWeR: 7\n"})
		if again := feature.AnswerKey(&sdk.Answer{Text: key}); again != key {
			t.Fatalf("the key of the key %q is %q", key, again)
		}
		if key != "7" && !strings.Contains(text, `\boxed{`) {
			t.Fatalf("%q", key)
		}
	})
}

package dialect

import (
	"testing"

	"github.com/tidwall/gjson"
)

// FuzzKnowsAll compares knowsAll with findUnknown.
func FuzzKnowsAll(f *testing.F) {
	k := newKnown("id usage.tokens choices.index choices.message.* choices.calls.function.name")
	for _, seed := range []string{
		`{}`, `[]`, `{"id":"a"}`, ` { "id" : 1 , "usage" : { "tokens" : [ 1 , {"x":"]}\\\""} ] } } `, `{"id":null,"more":null}`, `{"more":[]}`, `{"more":1}`,
		`{"usage":5}`, `{"usage":{"tokens":1,"more":{}}}`, `{"choices":[{"index":0,"message":{"content":"}\\","x":[1]}},{"calls":[{"function":{"name":"f","more":1}}]}]}`,
		`{"choices":[null,[{"index":1}]]}`, `{"i\u0064":1}`, `[[{"id":1}],{"id":{"a":[{}]}}]`, `{"":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := gjson.Parse(text)
		if !gjson.Valid(text) || !v.IsObject() && !v.IsArray() {
			t.Skip()
		}
		if end, ok := k.knowsAll(v.Raw, 0); ok {
			if rest := k.findUnknown(v); rest != nil {
				t.Errorf("%s: %v is unknown", text, rest)
			}
			if !gjson.Valid(v.Raw[:end]) {
				t.Errorf("%s: a value ends at %d", text, end)
			}
		}
	})
}

func TestKnowsAll(t *testing.T) {
	k := newKnown("id usage.tokens choices.message.*")
	for text, want := range map[string]bool{
		`{"id":"a\\\"]","usage":{"tokens":1},"choices":[{"message":{"x":{"y":[1]}}}]}`: true,
		`{"id":1,"more":null}`: true, `{"id":1,"more":2}`: false, `{"usage":{"tokens":1,"more":2}}`: false, `{"choices":[{"message":{}},{"more":1}]}`: false, `{}`: true,
	} {
		if _, ok := k.knowsAll(text, 0); ok != want {
			t.Errorf("%s: %t", text, ok)
		}
	}
}

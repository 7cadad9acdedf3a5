package dialect

import (
	"testing"

	"github.com/tidwall/gjson"
)

func TestUnknownMembers(t *testing.T) {
	k := newKnown("id usage.tokens choices.message.* choices.calls.function.name")
	for text, want := range map[string]string{
		`{"id":"a\\\"]","usage":{"tokens":1},"choices":[{"message":{"x":{"y":[1]}}}]}`: "null",
		`{"id":1,"more":null}`: "null", `{"id":1,"more":2}`: `{"more":2}`, `{"usage":{"tokens":1,"more":2}}`: `{"usage":{"more":2}}`, `{}`: "null", `[]`: "null",
		`{"choices":[{"message":{}},{"more":1}]}`: `{"choices":[null,{"more":1}]}`, `{"usage":5}`: "null", `{"more":[]}`: "null",
		`{"choices":[{"calls":[{"index":2,"more":"}]"}]}]}`: `{"choices":[{"calls":[null,null,{"index":2,"more":"}]"}]}]}`,
	} {
		if got := string(rawJSON(k.unknownMembers(gjson.Parse(text)))); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

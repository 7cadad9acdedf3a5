package main

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

const person = `{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}, "required": ["name", "age"]}`

func TestVerify(t *testing.T) {
	tools := []sdk.Tool{{Name: "add", Parameters: []byte(`{"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"], "additionalProperties": false}`)}, {Name: "now"}}
	call := func(name, arguments string) *sdk.Answer {
		return &sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: name, Arguments: arguments}}}
	}
	format := sdk.ResponseFormat{JSON: true, Schema: []byte(person)}
	for _, test := range []struct {
		name   string
		config Config
		query  sdk.Query
		answer *sdk.Answer
		want   sdk.Outcome
		says   string
	}{
		{"keeps the schema", Config{MayPass: true}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": "Ada", "age": 36}`}, sdk.Passed, ""},
		{"keeps the schema, which is not yet right", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": "Ada", "age": 36}`}, sdk.Inconclusive, "form is right"},
		{"breaks the schema", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": "Ada", "age": -1}`}, sdk.Failed, "/age"},
		{"names every fault", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": 7, "age": -1}`}, sdk.Failed, "/name"},
		{"no JSON", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `Ada is 36`}, sdk.Failed, "no JSON"},
		{"two values", Config{}, sdk.Query{Format: sdk.ResponseFormat{JSON: true}}, &sdk.Answer{Text: `{} {}`}, sdk.Failed, "no JSON"},
		{"fenced", Config{MayPass: true, Extract: true}, sdk.Query{Format: format}, &sdk.Answer{Text: "```json\n{\"name\": \"Ada\", \"age\": 36}\n```"}, sdk.Passed, ""},
		{"fenced, taken literally", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: "```json\n{}\n```"}, sdk.Failed, "no JSON"},
		{"own schema", Config{Schema: map[string]any{"type": "array"}}, sdk.Query{}, &sdk.Answer{Text: `{}`}, sdk.Failed, "array"},
		{"own schema as text", Config{Schema: `{"type": "array"}`, MayPass: true}, sdk.Query{}, &sdk.Answer{Text: `[]`}, sdk.Passed, ""},
		{"JSON mode alone", Config{MayPass: true}, sdk.Query{Format: sdk.ResponseFormat{JSON: true}}, &sdk.Answer{Text: `[1]`}, sdk.Passed, ""},
		{"nothing to check", Config{MayPass: true}, sdk.Query{}, &sdk.Answer{Text: "hello"}, sdk.Inconclusive, "nothing"},
		{"good call", Config{MayPass: true}, sdk.Query{Tools: tools, Format: format}, call("add", `{"a": 1}`), sdk.Passed, ""},
		{"bad arguments", Config{}, sdk.Query{Tools: tools}, call("add", `{"b": 1}`), sdk.Failed, "add"},
		{"arguments that are no JSON", Config{}, sdk.Query{Tools: tools}, call("add", `{"a": `), sdk.Failed, "no JSON"},
		{"no arguments where none are known", Config{MayPass: true}, sdk.Query{Tools: tools}, call("now", ""), sdk.Passed, ""},
		{"unknown tool", Config{}, sdk.Query{Tools: tools}, call("sub", `{}`), sdk.Failed, "not on offer"},
		{"unknown tool, allowed", Config{MayPass: true, UnknownTools: true}, sdk.Query{Tools: tools}, call("sub", `{}`), sdk.Passed, ""},
		{"no call where one is wanted", Config{RequireCall: true}, sdk.Query{Tools: tools}, &sdk.Answer{Text: "no"}, sdk.Failed, "calls no tool"},
		{"a tool's schema is broken", Config{}, sdk.Query{Tools: []sdk.Tool{{Name: "add", Parameters: []byte(`{"type": 7}`)}}}, call("add", `{}`), sdk.Inconclusive, "schema"},
		{"a schema refers to a file", Config{}, sdk.Query{Format: sdk.ResponseFormat{Schema: []byte(`{"$ref": "file:///etc/passwd"}`)}}, &sdk.Answer{Text: "1"}, sdk.Inconclusive, "not followed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := open(t.Context(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: &test.query, Answer: test.answer})
			if err != nil {
				t.Fatal(err)
			}
			if verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
				t.Errorf("%s: %s", verdict.Outcome, verdict.Evidence)
			}
		})
	}
}

func TestScoreIsTheShareOfChecks(t *testing.T) {
	v, err := open(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	query := &sdk.Query{Tools: []sdk.Tool{{Name: "now"}}}
	answer := &sdk.Answer{ToolCalls: []sdk.ToolCall{{Name: "now"}, {Name: "later"}}}
	verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Query: query, Answer: answer})
	if err != nil || verdict.Score != 0.5 {
		t.Errorf("%+v %v", verdict, err)
	}
}

func TestBadSchema(t *testing.T) {
	for _, config := range []Config{{Schema: "nonsense"}, {Schema: map[string]any{"type": 7.0}}, {SchemaFile: "/nowhere"}, {Schema: "{}", SchemaFile: "x"}} {
		if _, err := open(t.Context(), config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}

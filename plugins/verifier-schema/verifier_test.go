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
		{"keeps the schema, which is not yet right", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": "Ada", "age": 36}`}, sdk.Inconclusive, "form is valid"},
		{"breaks the schema", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": "Ada", "age": -1}`}, sdk.Failed, "/age"},
		{"names every fault", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `{"name": 7, "age": -1}`}, sdk.Failed, "/name"},
		{"not JSON", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: `Ada is 36`}, sdk.Failed, "not JSON"},
		{"two values", Config{}, sdk.Query{Format: sdk.ResponseFormat{JSON: true}}, &sdk.Answer{Text: `{} {}`}, sdk.Failed, "not JSON"},
		{"fenced", Config{MayPass: true, Extract: true}, sdk.Query{Format: format}, &sdk.Answer{Text: "```json\n{\"name\": \"Ada\", \"age\": 36}\n```"}, sdk.Passed, ""},
		{"fenced, taken literally", Config{}, sdk.Query{Format: format}, &sdk.Answer{Text: "```json\n{}\n```"}, sdk.Failed, "not JSON"},
		{"own schema", Config{Schema: map[string]any{"type": "array"}}, sdk.Query{}, &sdk.Answer{Text: `{}`}, sdk.Failed, "array"},
		{"own schema as text", Config{Schema: `{"type": "array"}`, MayPass: true}, sdk.Query{}, &sdk.Answer{Text: `[]`}, sdk.Passed, ""},
		{"JSON mode alone", Config{MayPass: true}, sdk.Query{Format: sdk.ResponseFormat{JSON: true}}, &sdk.Answer{Text: `[1]`}, sdk.Passed, ""},
		{"nothing to check", Config{MayPass: true}, sdk.Query{}, &sdk.Answer{Text: "hello"}, sdk.Inconclusive, "nothing"},
		{"good call", Config{MayPass: true}, sdk.Query{Tools: tools, Format: format}, call("add", `{"a": 1}`), sdk.Passed, ""},
		{"bad arguments", Config{}, sdk.Query{Tools: tools}, call("add", `{"b": 1}`), sdk.Failed, "add"},
		{"arguments that are no JSON", Config{}, sdk.Query{Tools: tools}, call("add", `{"a": `), sdk.Failed, "not JSON"},
		{"no arguments where none are known", Config{MayPass: true}, sdk.Query{Tools: tools}, call("now", ""), sdk.Passed, ""},
		{"unknown tool", Config{}, sdk.Query{Tools: tools}, call("sub", `{}`), sdk.Failed, "not offered"},
		{"unknown tool among unknown names", Config{MayPass: true}, sdk.Query{Tools: append([]sdk.Tool{{Name: sdk.AnyTool}}, tools...)}, call("sub", `{}`), sdk.Passed, ""},
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

// TestDrafts: $schema selects the draft; the default is 2020-12.
func TestDrafts(t *testing.T) {
	const draft = "http://json-schema.org/draft-"
	for _, test := range []struct {
		name, schema, right, wrong string
	}{
		{"04", `{"$schema": "` + draft + `04/schema#", "minimum": 3, "exclusiveMinimum": true}`, "4", "3"},
		{"06", `{"$schema": "` + draft + `06/schema#", "exclusiveMinimum": 3}`, "4", "3"},
		{"07", `{"$schema": "` + draft + `07/schema#", "if": {"type": "string"}, "then": {"maxLength": 2}, "items": [{"type": "number"}], "additionalItems": false}`, `"ab"`, `[1, 2]`},
		{"2019-09", `{"$schema": "https://json-schema.org/draft/2019-09/schema", "$defs": {"n": {"type": "number"}}, "$ref": "#/$defs/n", "maximum": 5}`, "4", "6"},
		{"2020-12", `{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "number"}], "items": false}`, "[1]", "[1, 2]"},
		{"none named", `{"prefixItems": [{"type": "number"}], "items": false}`, "[1]", "[1, 2]"},
		{"recursive", `{"$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}`, `{"a": {"b": {}}}`, `{"a": {"b": 1}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := open(t.Context(), Config{Schema: test.schema, MayPass: true})
			if err != nil {
				t.Fatal(err)
			}
			for text, want := range map[string]sdk.Outcome{test.right: sdk.Passed, test.wrong: sdk.Failed} {
				verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Answer: &sdk.Answer{Text: text}})
				if err != nil || verdict.Outcome != want {
					t.Errorf("%s: %+v, %v", text, verdict, err)
				}
			}
		})
	}
}

// TestOverwhelming covers answers that are meant to cost time or memory.
func TestOverwhelming(t *testing.T) {
	for name, text := range map[string]string{
		"deep":        strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000),
		"deep object": strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000),
		"many faults": "[" + strings.Repeat(`"x",`, 50_000) + `"x"]`,
		"huge number": "1e999999999",
	} {
		t.Run(name, func(t *testing.T) {
			v, err := open(t.Context(), Config{Schema: map[string]any{"type": "array", "items": map[string]any{"type": "number"}}})
			if err != nil {
				t.Fatal(err)
			}
			verdict, err := v.Verify(t.Context(), &sdk.VerifyRequest{Answer: &sdk.Answer{Text: text}})
			if err != nil || verdict.Outcome != sdk.Failed || len(verdict.Evidence) > 4096 {
				t.Errorf("%s, %d bytes of evidence, %v", verdict.Outcome, len(verdict.Evidence), err)
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

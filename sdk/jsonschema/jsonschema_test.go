package jsonschema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk/jsonschema"
)

func TestViolations(t *testing.T) {
	const person = `{"type": "object", "properties": {"name": {"type": "string"}, "age": {"minimum": 0}}, "required": ["name"]}`
	var s jsonschema.Schemas
	for text, want := range map[string][]string{
		`{"name": "Ada", "age": 36}`: nil,
		`{"name": 7, "age": -1}`:     {"at '/age': minimum: got -1, want 0", "at '/name': got number, want string"},
		`Ada`:                        {"not JSON: invalid character 'A' looking for beginning of value"},
	} {
		got, err := s.Violations([]byte(person), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// What clients send neither loads a file nor takes the compiler for long.
func TestAttackSchemas(t *testing.T) {
	var s jsonschema.Schemas
	for schema, want := range map[string]string{
		`{"$ref": "file:///etc/passwd"}`:                      "not followed",
		`{"anyOf": [` + strings.Repeat("{}, ", 5000) + `{}]}`: "more than 2000 objects",
		`{"type": 7}`:       "schema",
		`{"type": "object"`: "no JSON",
	} {
		if err := s.Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", schema, err, want)
		}
	}
}

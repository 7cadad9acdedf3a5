package jsonschema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// A client's schema cannot load a file or keep the compiler busy for long.
func TestAttackSchemas(t *testing.T) {
	var s jsonschema.Schemas
	for schema, want := range map[string]string{
		`{"$ref": "file:///etc/passwd"}`:                      "not followed",
		`{"anyOf": [` + strings.Repeat("{}, ", 5000) + `{}]}`: "more than 2000 objects",
		`{"type": 7}`:       "schema",
		`{"type": "object"`: "not JSON",
	} {
		if err := s.Compile([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", schema, err, want)
		}
	}
}

// The cost of validation is limited: each definition here doubles it.
func TestAttackVisits(t *testing.T) {
	const doubles = `{"allOf": [{"$ref": "#/$defs/next"}, {"$ref": "#/$defs/next"}]}`
	var s jsonschema.Schemas
	for _, form := range []string{
		doubles,
		strings.Replace(doubles, "allOf", "anyOf", 1),
		`{"if": {"$ref": "#/$defs/next"}, "else": {"$ref": "#/$defs/next"}}`,
		`{"not": {"dependentSchemas": {"a": {"$ref": "#/$defs/next"}, "b": {"$ref": "#/$defs/next"}}}}`,
		`{"properties": {"a": {"$ref": "#/$defs/next"}}, "patternProperties": {"a": {"$ref": "#/$defs/next"}}}`,
	} {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"d%d": %s,`, i, strings.ReplaceAll(form, "next", fmt.Sprintf("d%d", i+1)))
		}
		schema := `{"$defs": {` + b.String() + `"d40": {"type": "string"}}, "$ref": "#/$defs/d0"}`
		done := make(chan error, 1)
		go func() {
			_, err := s.Violations([]byte(schema), []byte(`{"b": 1, "a": `+strings.Repeat(`{"a": `, 40)+`1`+strings.Repeat(`}`, 41)))
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "steps") {
				t.Errorf("%s: %v", form, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: no end after 30 seconds", form)
		}
	}
	// Formats are looked at as before, in drafts that assert them, and the next check counts anew.
	format := []byte(`{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": {"format": "ipv4"}}`)
	for range 3 {
		if got, err := s.Violations(format, []byte(`["127.0.0.1", "x"`+strings.Repeat(`, "1.1.1.1"`, 100_000)+`]`)); err != nil || len(got) != 1 || !strings.Contains(got[0], "ipv4") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// A schema that is too large to be kept leaves the room to others: theirs are compiled once.
func TestALargeSchemaLeavesTheCacheToOthers(t *testing.T) {
	var s jsonschema.Schemas
	compile := func(schema string) {
		if err := s.Compile([]byte(schema)); err != nil {
			t.Fatal(err)
		}
	}
	compile(`{"title": "` + strings.Repeat("x", 17<<20) + `"}`)
	const small = `{"type": "object", "properties": {"a": {"type": "string"}, "b": {"minimum": 0}}}`
	compile(small)
	if n := testing.AllocsPerRun(10, func() { compile(small) }); n > 5 {
		t.Errorf("%v allocations: it is compiled again", n)
	}
}

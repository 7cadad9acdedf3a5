// Package jsonschema checks JSON texts against the JSON schemas that queries and their tools
// have. Schemas come from clients: compiling one is bounded, and loads no other document.
package jsonschema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxKept bounds the bytes of the schemas that are kept compiled.
	maxKept = 16 << 20
	// maxObjects bounds the objects of one: the compiler takes a time that grows with
	// their square.
	maxObjects = 2000
)

// Schemas compiles schemas and keeps them. It is safe for concurrent use; the zero value is
// ready.
type Schemas struct {
	known sync.Map // text -> compiledSchema
	size  atomic.Int64
}

type compiledSchema struct {
	schema *jsonschema.Schema
	err    error
}

// Compile reports what is wrong with the text of a schema.
func (s *Schemas) Compile(text []byte) error { return s.compile(text).err }

// Violations returns every way in which a JSON text breaks the schema, each with its place.
// The error says that the schema itself is unusable.
func (s *Schemas) Violations(schema, text []byte) ([]string, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []string{"not JSON: " + err.Error()}, nil
	}
	c := s.compile(schema)
	if c.err != nil {
		return nil, c.err
	}
	err = c.schema.Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return leaves(invalid, nil), nil
	}
	if err != nil {
		return []string{err.Error()}, nil
	}
	return nil, nil
}

func (s *Schemas) compile(text []byte) compiledSchema {
	if c, ok := s.known.Load(string(text)); ok {
		return c.(compiledSchema)
	}
	schema, err := compile(text)
	if err != nil {
		err = fmt.Errorf("the schema: %w", err)
	}
	c := compiledSchema{schema, err}
	if s.size.Add(int64(len(text))) <= maxKept {
		s.known.Store(string(text), c)
	}
	return c
}

type offline struct{}

func (offline) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func compile(text []byte) (*jsonschema.Schema, error) {
	if bytes.Count(text, []byte("{")) > maxObjects {
		return nil, fmt.Errorf("it has more than %d objects", maxObjects)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	const name = "mem:schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(offline{})
	if err := compiler.AddResource(name, document); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

func leaves(e *jsonschema.ValidationError, found []string) []string {
	if len(e.Causes) == 0 {
		text := strings.TrimSpace(strings.ReplaceAll(e.Error(), "\n", " "))
		if _, what, ok := strings.Cut(text, "at '"); ok {
			text = "at '" + what
		}
		return append(found, text)
	}
	for _, cause := range e.Causes {
		found = leaves(cause, found)
	}
	return found
}

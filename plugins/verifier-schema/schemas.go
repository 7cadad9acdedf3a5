package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas compiles JSON schemas, each once.
type schemas struct {
	mu    sync.Mutex
	known map[string]*jsonschema.Schema
}

func newSchemas() *schemas { return &schemas{known: map[string]*jsonschema.Schema{}} }

// maxSchemas bounds the compiled schemas that are kept.
const maxSchemas = 1024

// offline refuses to follow references to other documents: a query's schema must
// not make this program read files or the network.
type offline struct{}

func (offline) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func (s *schemas) compile(text []byte) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[string(text)]; ok {
		return known, nil
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(offline{})
	const name = "mem:schema"
	if err := compiler.AddResource(name, document); err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	if len(s.known) >= maxSchemas {
		clear(s.known)
	}
	s.known[string(text)] = compiled
	return compiled, nil
}

// violations returns every way in which a JSON text breaks the schema. The error
// says that the schema itself is unusable.
func (s *schemas) violations(schema, text []byte) ([]string, error) {
	compiled, err := s.compile(schema)
	if err != nil {
		return nil, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []string{"no JSON: " + err.Error()}, nil
	}
	err = compiled.Validate(value)
	if err == nil {
		return nil, nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{err.Error()}, nil
	}
	return leaves(invalid, nil), nil
}

// leaves lists the innermost violations, each with its place.
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

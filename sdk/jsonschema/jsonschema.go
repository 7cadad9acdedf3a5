// Package jsonschema validates JSON against the JSON schemas of queries and their tools. Schemas come from
// clients, so the cost of compiling one is limited, and references to other documents are not loaded.
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
	// maxKept limits the total length in bytes of the schemas whose compiled form is kept.
	maxKept = 16 << 20
	// maxObjects limits the objects in one schema: the compiler's time grows with their square.
	maxObjects = 2000
	// maxVisits limits the visits of schemas and their members while one text is validated. References
	// can make their number exponential in the size of the schema.
	maxVisits = 500_000
)

// Schemas compiles schemas and caches them. It is safe for concurrent use; the zero value is ready to use.
type Schemas struct {
	known sync.Map // text -> compiledSchema
	size  atomic.Int64
}

type compiledSchema struct {
	schema *jsonschema.Schema
	visits *visitCount
	err    error
}

// visitCount counts the visits of one validation at a time.
type visitCount struct {
	sync.Mutex
	n int
}

var errVisits = fmt.Errorf("validation takes more than %d steps", maxVisits)

// Compile returns an error if text is not a valid schema.
func (s *Schemas) Compile(text []byte) error { return s.compile(text).err }

// Violations returns every violation of the schema by a JSON text, with its location. The error means that
// the schema itself is unusable.
func (s *Schemas) Violations(schema, text []byte) ([]string, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []string{"not JSON: " + err.Error()}, nil
	}
	c := s.compile(schema)
	if c.err != nil {
		return nil, c.err
	}
	c.visits.Lock()
	defer c.visits.Unlock()
	c.visits.n = 0
	err = c.schema.Validate(value)
	if c.visits.n > maxVisits {
		return nil, errVisits
	}
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
	c := compiledSchema{visits: &visitCount{}}
	if c.schema, c.err = compile(text, c.visits); c.err != nil {
		c.err = fmt.Errorf("the schema: %w", c.err)
	}
	size := int64(len(text))
	kept := s.size.Add(size) <= maxKept
	if kept {
		_, known := s.known.LoadOrStore(string(text), c)
		kept = !known
	}
	if !kept {
		s.size.Add(-size) // the limit is for what is kept only
	}
	return c
}

type offline struct{}

func (offline) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

func compile(text []byte, visits *visitCount) (*jsonschema.Schema, error) {
	if bytes.Count(text, []byte("{")) > maxObjects {
		return nil, fmt.Errorf("it has more than %d objects", maxObjects)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	const name = "mem:schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(offline{})
	compiler.AssertVocabs()
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{URL: "mem:visits", Compile: visits.compile})
	if err := compiler.AddResource(name, document); err != nil {
		return nil, err
	}
	return compiler.Compile(name)
}

// compile makes a schema count its visits through its format, which is validated before its references and
// subschemas. Above the limit, every visit fails.
func (n *visitCount) compile(c *jsonschema.CompilerContext, object map[string]any) (jsonschema.SchemaExt, error) {
	cost := 1
	for _, member := range object {
		switch member := member.(type) {
		case []any:
			cost += len(member)
		case map[string]any:
			cost += len(member)
		}
	}
	schema := c.Enqueue(nil) // the schema itself
	format := jsonschema.Format{Validate: func(any) error { return nil }}
	if schema.Format != nil {
		format = *schema.Format
	}
	schema.Format = &jsonschema.Format{Name: format.Name, Validate: func(v any) error {
		if n.n += cost; n.n > maxVisits {
			return errVisits
		}
		return format.Validate(v)
	}}
	return nil, nil //nolint:nilnil // no keyword of its own
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

package plugintest

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

func TestValuesOutOfBounds(t *testing.T) {
	low, high := 0.5, 600.0
	for _, c := range []struct {
		field schema.Field
		want  any
	}{
		{schema.Field{Type: "duration", Min: &low, Max: &high}, "601s"},
		{schema.Field{Type: "duration", Min: &low}, "-0.5s"},
		{schema.Field{Type: "integer", Max: &high}, 601.0},
		{schema.Field{Type: "number", Min: &low}, -0.5},
	} {
		if got, ok := valueOutOfBounds(&c.field); !ok || got != c.want {
			t.Errorf("%+v: %v, %v", c.field, got, ok)
		}
	}
	for _, field := range []schema.Field{{Type: "duration"}, {Type: "list(string)", Min: &low}, {Type: "string", Max: &high}} {
		if got, ok := valueOutOfBounds(&field); ok {
			t.Errorf("%+v: %v", field, got)
		}
	}
}

// Values that a plugin must refuse are outside the bounds of its argument, however large those are.
func TestValuesOutOfLargeBounds(t *testing.T) {
	one, huge, least, long := 1.0, math.Pow(2, 53), -math.Pow(2, 60), 1e10
	for _, f := range []schema.Field{
		{Type: "integer", Min: &one, Max: &huge}, {Type: "integer", Min: &least}, {Type: "duration", Max: &long}, {Type: "duration", Max: &one},
	} {
		v, _ := valueOutOfBounds(&f)
		f.Name = "x"
		s := schema.Schema{Fields: []schema.Field{f}}
		if _, ds := s.Check(map[string]any{"x": v}); !ds.HasErrors() {
			t.Errorf("%s: %v is within the bounds", f.Type, v)
		}
	}
}

package plugintest

import (
	"testing"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

func TestValuesOutOfBounds(t *testing.T) {
	low, high := 0.5, 600.0
	for _, c := range []struct {
		field schema.Field
		want  any
	}{
		{schema.Field{Type: "duration", Min: &low, Max: &high}, "10m1s"},
		{schema.Field{Type: "duration", Min: &low}, "-500ms"},
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

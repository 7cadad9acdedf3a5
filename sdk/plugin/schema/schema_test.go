package schema_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

type limits struct {
	Memory int `stepfall:"memory,default=100"`
}

type config struct {
	Command []string           `stepfall:"command,required" doc:"What to run."`
	Timeout time.Duration      `stepfall:"timeout,min=1s,max=600,default=20s"`
	Mode    string             `stepfall:"mode,enum=fast|thorough,default=fast"`
	Weights map[string]float64 `stepfall:"weights"`
	Limits  *limits            `stepfall:"limits"`
	Old     bool               `stepfall:"old,deprecated=use mode"`
	Token   string             `stepfall:"token,sensitive,min=8"`
	Checks  []string           `stepfall:"checks,enum=vet|race"`
	Inner   string
}

func TestDecode(t *testing.T) {
	raw, err := schema.Normalize(map[string]any{
		"command": []string{"go", "test"}, "timeout": 90 * time.Second, "weights": map[string]any{"a": 1}, "limits": map[string]any{},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got config
	if ds := schema.Decode(raw, &got); len(ds) > 0 {
		t.Fatal(ds)
	}
	want := config{Command: []string{"go", "test"}, Timeout: 90 * time.Second, Mode: "fast", Weights: map[string]float64{"a": 1}, Limits: &limits{Memory: 100}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDiagnostics(t *testing.T) {
	for name, test := range map[string]struct {
		config map[string]any
		want   string
	}{
		"missing":        {map[string]any{}, "command: required argument is missing"},
		"typo":           {map[string]any{"command": []any{"x"}, "tiemout": "1s"}, `did you mean "timeout"?`},
		"wrong type":     {map[string]any{"command": "go test"}, `command: "go test" is not a list(string)`},
		"wrong element":  {map[string]any{"command": []any{"go", 1.0}}, "command.1: 1 is not a string"},
		"too small":      {map[string]any{"command": []any{"x"}, "timeout": "10ms"}, "the minimum is 1 s"},
		"too large":      {map[string]any{"command": []any{"x"}, "timeout": 601.0}, "the maximum is 600 s"},
		"enum":           {map[string]any{"command": []any{"x"}, "mode": "slow"}, "allowed are: fast, thorough"},
		"enum in a list": {map[string]any{"command": []any{"x"}, "checks": []any{"vet", "lint"}}, `checks.1: "lint" is not one`},
		"deprecated":     {map[string]any{"command": []any{"x"}, "old": true}, "old: argument is deprecated (use mode)"},
		"nested":         {map[string]any{"command": []any{"x"}, "limits": map[string]any{"memry": 1.0}}, "limits.memry: unknown argument"},
		"secret is kept": {map[string]any{"command": []any{"x"}, "token": "hunter2"}, "token: the value is too small"},
	} {
		t.Run(name, func(t *testing.T) {
			var c config
			text := schema.Decode(test.config, &c).Error()
			if !strings.Contains(text, test.want) {
				t.Errorf("got %q, want %q in it", text, test.want)
			}
			if strings.Contains(text, "hunter2") {
				t.Error("a secret is shown")
			}
		})
	}
}

func TestMeaninglessTags(t *testing.T) {
	for _, err := range []error{
		second(schema.For[struct {
			A int8 `stepfall:"a"`
		}]()),
		second(schema.For[struct {
			A int `stepfall:"a,requird"`
		}]()),
		second(schema.For[struct {
			A int `stepfall:"a,max=1,default=2"`
		}]()),
		second(schema.For[struct {
			A int `stepfall:"a"`
			B int `stepfall:"a"`
		}]()),
		second(schema.For[int]()),
	} {
		if err == nil {
			t.Error("no error")
		}
	}
}

func second(_ *schema.Schema, err error) error { return err }

func ExampleSchema_Markdown() {
	s, err := schema.For[struct {
		Words int `stepfall:"words,min=1,default=5" doc:"Fewest words."`
	}]()
	if err != nil {
		panic(err)
	}
	fmt.Print(s.Markdown())
	// Output:
	// | argument | type | default | meaning |
	// | --- | --- | --- | --- |
	// | `words` | integer | `5` | Fewest words. At least 1. |
}

package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
	"github.com/stepfall/stepfall/sdk/step"
)

// A report that a program prints contains no key: neither a configured one nor one that is recognized by its shape.
func TestReportsHoldNoSecrets(t *testing.T) {
	const named, shaped = "hunter2hunter2", "sk-abcdefghijklmnop"
	for _, known := range []*redact.Redactor{nil, redact.New(named)} {
		m := wrap(t, middleware.Config{
			Models: []middleware.Candidate{small(fails(errors.New("401: no such key: " + shaped + " " + named))), large(says("it is " + shaped))},
			Step:   step.Config{TracePrompts: true, TraceAnswers: true}, Redact: known,
		})
		ctx, rep := middleware.WithReport(t.Context())
		answer, err := m.Call(ctx, "my key is "+shaped)
		if err != nil || answer != "it is "+shaped {
			t.Fatalf("%q, %v", answer, err)
		}
		all, err := json.Marshal(rep.Steps())
		if err != nil {
			t.Fatal(err)
		}
		if text := string(all); strings.Contains(text, shaped) || known != nil && strings.Contains(text, named) || strings.Count(text, redact.Mark) < 3 {
			t.Errorf("the report is %s", text)
		}
	}
}

// Names that are not UTF-8 are corrected before anything is recorded or counted under them.
func TestNamesOfAStepAreUTF8(t *testing.T) {
	var trace *sdk.Trace
	m := wrap(t, middleware.Config{
		Models: []middleware.Candidate{small(says("hi"))},
		Step:   step.Config{Traces: func(_ context.Context, t *sdk.Trace) { trace = t }},
	})
	ctx := middleware.WithInfo(t.Context(), middleware.Info{QueryID: "q\xff", Group: "g\xff", Run: "r\xff", Session: "s\xff", Tenant: "t\xff"})
	if _, err := m.Call(ctx, "hi"); err != nil {
		t.Fatal(err)
	}
	if got := trace.QueryID + trace.Group + trace.Run + trace.Session + trace.Tenant; got != "q\ufffdg\ufffdr\ufffds\ufffdt\ufffd" {
		t.Errorf("the step is recorded as %q", got)
	}
}

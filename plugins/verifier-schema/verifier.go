package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jsonschema"
)

type verifier struct {
	config  Config
	schema  []byte
	schemas jsonschema.Schemas
}

type finding struct {
	checks, passed int
	faults         []string
}

func (f *finding) check(faults ...string) {
	f.checks++
	if len(faults) == 0 {
		f.passed++
	}
	f.faults = append(f.faults, faults...)
}

// Verify validates the tool calls or, if there are none, the text.
func (v *verifier) Verify(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	if req.Answer == nil {
		return &sdk.Verdict{Evidence: "there is no answer"}, nil
	}
	query := cmp.Or(req.Query, &sdk.Query{})
	f := &finding{}
	for i := range req.Answer.ToolCalls {
		if err := v.call(f, query, &req.Answer.ToolCalls[i]); err != nil {
			return &sdk.Verdict{Evidence: err.Error()}, nil
		}
	}
	if len(req.Answer.ToolCalls) > 0 {
		return v.verdict(f), nil
	}
	if v.config.RequireCall && len(query.Tools) > 0 {
		f.check("the answer calls no tool")
	}
	if err := v.text(f, query, req.Answer.Text); err != nil {
		return &sdk.Verdict{Evidence: err.Error()}, nil
	}
	return v.verdict(f), nil
}

func (v *verifier) verdict(f *finding) *sdk.Verdict {
	if f.checks == 0 {
		return &sdk.Verdict{Evidence: "nothing to check: no schema, no tool call"}
	}
	verdict := &sdk.Verdict{Score: float64(f.passed) / float64(f.checks)}
	switch {
	case len(f.faults) > 0:
		verdict.Outcome, verdict.Evidence = sdk.Failed, joinFaults(f.faults)
	case v.config.MayPass:
		verdict.Outcome, verdict.Evidence = sdk.Passed, "the form is valid"
	default:
		verdict.Evidence = "the form is valid, which proves nothing about the content"
	}
	return verdict
}

// maxFaults limits the number of listed faults: a long array can have as many as elements.
const maxFaults = 20

func joinFaults(faults []string) string {
	if len(faults) > maxFaults {
		faults = append(slices.Clone(faults[:maxFaults]), fmt.Sprintf("... and %d more", len(faults)-maxFaults))
	}
	return strings.Join(faults, "\n")
}

// call validates one tool call. The error means that the tool's schema is unusable.
func (v *verifier) call(f *finding, query *sdk.Query, call *sdk.ToolCall) error {
	tool := query.Tool(call.Name)
	if tool == nil && !v.config.UnknownTools {
		f.check(fmt.Sprintf("tool %q is not offered", call.Name))
		return nil
	}
	arguments := []byte(call.Arguments)
	if strings.TrimSpace(call.Arguments) == "" {
		arguments = []byte("{}") // models call tools without parameters like this
	}
	schema := []byte(`{"type":"object"}`)
	if tool != nil && len(tool.Parameters) > 0 {
		schema = tool.Parameters
	}
	faults, err := v.schemas.Violations(schema, arguments)
	if err != nil {
		return fmt.Errorf("tool %q: %w", call.Name, err)
	}
	for i := range faults {
		faults[i] = fmt.Sprintf("tool %q: %s", call.Name, faults[i])
	}
	f.check(faults...)
	return nil
}

func (v *verifier) text(f *finding, query *sdk.Query, text string) error {
	schema := v.schema
	if schema == nil {
		schema = query.Format.Schema
	}
	if len(schema) == 0 && !query.Format.JSON {
		return nil
	}
	if v.config.Extract {
		text = stripFence(text)
	}
	if len(schema) == 0 {
		schema = []byte("true")
	}
	faults, err := v.schemas.Violations(schema, []byte(text))
	if err != nil {
		return err
	}
	f.check(faults...)
	return nil
}

func stripFence(text string) string {
	trimmed := strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(trimmed, "```")
	if !ok {
		return text
	}
	_, inner, ok = strings.Cut(inner, "\n")
	inner, closed := strings.CutSuffix(strings.TrimSpace(inner), "```")
	if !ok || !closed || strings.Contains(inner, "\n```") {
		return text
	}
	return inner
}

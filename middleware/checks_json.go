package middleware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jsonschema"
)

// violation returns how a JSON text violates the schema, or "". A schema that does not compile rejects
// nothing.
func violation(schemas *jsonschema.Schemas, schema, text []byte) string {
	list, err := schemas.Violations(schema, text)
	if err != nil || len(list) == 0 {
		return ""
	}
	return firstLine(list[0])
}

type jsonChecker struct{ schemas jsonschema.Schemas }

func (k *jsonChecker) fault(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if !q.Format.JSON && len(q.Format.Schema) == 0 || len(a.ToolCalls) > 0 || isCutAsAsked(q, a) {
		return ""
	}
	text := []byte(a.Text)
	if len(q.Format.Schema) > 0 {
		if v := violation(&k.schemas, q.Format.Schema, text); v != "" {
			return "violates the JSON schema: " + v
		}
		return ""
	}
	if !json.Valid(text) {
		return "is not JSON"
	}
	return ""
}

// toolChecker rejects answers without the call that the caller required, calls of unknown tools, and arguments that violate the tool's schema.
type toolChecker struct{ schemas jsonschema.Schemas }

func (k *toolChecker) fault(q *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
	if why := choiceFault(q, a); why != "" {
		return why
	}
	for _, call := range a.ToolCalls {
		if slices.ContainsFunc(rawCalls(partsOf(a)), func(raw llms.ToolCall) bool { return raw.ID == call.ID }) {
			continue // a call in a form of its API, which may offer it in ways unknown here
		}
		tool := q.Tool(call.Name)
		if tool == nil {
			return fmt.Sprintf("calls the tool %q, which is not offered", call.Name)
		}
		arguments := call.Arguments
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		if !json.Valid([]byte(arguments)) {
			return "arguments of " + call.Name + " are not JSON"
		}
		if v := violation(&k.schemas, tool.Parameters, []byte(arguments)); v != "" {
			return "arguments of " + call.Name + ": " + v
		}
	}
	return ""
}

// choiceFault returns how an answer ignores the tool that the caller required, or "". Models whose API has no tool choice,
// and some servers of APIs that do, answer in prose. Use of an API's own tools counts as a call.
func choiceFault(q *sdk.Query, a *sdk.Answer) string {
	switch {
	case q.ToolChoice == "" || isCutAsAsked(q, a) || len(a.ToolCalls) == 0 && hasRawPart(a):
		return ""
	case len(a.ToolCalls) == 0:
		return "calls no tool, but must"
	case q.ToolChoice == sdk.AnyTool, !slices.ContainsFunc(q.Tools, func(t sdk.Tool) bool { return t.Name == q.ToolChoice }): // or a raw one
		return ""
	}
	for _, call := range a.ToolCalls {
		if call.Name != q.ToolChoice {
			return fmt.Sprintf("calls %s instead of %s", call.Name, q.ToolChoice)
		}
	}
	return ""
}

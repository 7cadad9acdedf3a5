package step

import (
	"fmt"

	"github.com/stepfall/stepfall/sdk"
)

type needs struct {
	Tools, Images, JSONMode, JSONSchema bool
}

// needsOf returns the capabilities that q requires. Tools are required if some are offered or were used
// earlier in the conversation.
func needsOf(q *sdk.Query) needs {
	n := needs{Tools: len(q.Tools) > 0, JSONMode: q.Format.JSON, JSONSchema: len(q.Format.Schema) > 0}
	for i := range q.Messages {
		for j := range q.Messages[i].Parts {
			switch q.Messages[i].Parts[j].Kind {
			case sdk.PartImageURL, sdk.PartBinary:
				n.Images = true
			case sdk.PartToolCall, sdk.PartToolResult:
				n.Tools = true
			}
		}
	}
	return n
}

// ReasonLongPrompt begins the reason for excluding a model whose context is too short for the prompt.
const ReasonLongPrompt = "prompt of about "

// Infeasible returns why m cannot be asked q, or "".
func Infeasible(m *sdk.Model, q *sdk.Query) string { return needsOf(q).infeasible(m, q) }

func (n needs) infeasible(m *sdk.Model, q *sdk.Query) string {
	c := m.Capabilities
	switch {
	case n.Tools && !c.Tools:
		return "has no tools"
	case n.Images && !c.Images:
		return "reads no images"
	case n.JSONMode && !c.JSONMode && !c.JSONSchema:
		return "has no JSON mode"
	case n.JSONSchema && !c.JSONSchema && !c.JSONMode:
		return "has no JSON schemas"
	case m.ContextTokens > 0 && fewestTokens(m, q) >= m.ContextTokens:
		return fmt.Sprintf(ReasonLongPrompt+"%d tokens, context of %d", q.InputTokens, m.ContextTokens)
	}
	return ""
}

// fewestTokens returns a lower bound on the length of q's prompt for m: InputTokens assumes four bytes
// per token, but English prose has up to six. Whether a prompt between the two fits is left to the server
// to decide, except with Ollama, which silently truncates prompts that are too long.
func fewestTokens(m *sdk.Model, q *sdk.Query) int {
	if m.Provider == "ollama" {
		return q.InputTokens
	}
	return q.InputTokens * 4 / 6
}

package middleware

import (
	"slices"

	"github.com/tmc/langchaingo/llms"
)

// takesOneCall reports whether the caller takes one tool call in an answer.
func (c *call) takesOneCall() bool {
	return c.params.ParallelToolCalls != nil && !*c.params.ParallelToolCalls
}

// keepFirstCalls ends the answers to a caller that takes one call after the first, as not every API does. The model
// makes the others again after its result; another model's whole answer would cost more.
func (c *call) keepFirstCalls(resp *llms.ContentResponse) *llms.ContentResponse {
	if !c.takesOneCall() {
		return resp
	}
	resp = &llms.ContentResponse{Choices: slices.Clone(resp.Choices)}
	for i, choice := range resp.Choices {
		if len(choice.ToolCalls) < 2 {
			continue
		}
		own := editExtra(choice, func(x *Extra) {
			calls := 0
			if at := slices.IndexFunc(x.Parts, func(p llms.ContentPart) bool {
				if _, isCall := p.(llms.ToolCall); isCall {
					calls++
				}
				return calls == 2
			}); at >= 0 {
				x.Parts = x.Parts[:at:at]
			}
		})
		own.ToolCalls = choice.ToolCalls[:1:1]
		resp.Choices[i] = own
	}
	return resp
}

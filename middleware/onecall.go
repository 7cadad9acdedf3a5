package middleware

import (
	"slices"

	"github.com/tmc/langchaingo/llms"
)

// takesOneCall reports whether the caller takes one tool call in an answer.
func (c *call) takesOneCall() bool {
	return c.params.ParallelToolCalls != nil && !*c.params.ParallelToolCalls
}

// keepFirstCalls truncates the answer to its first tool call if the caller takes only one, because not every API
// obeys that. The model repeats the other calls after the first result; escalating to another model would cost more.
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

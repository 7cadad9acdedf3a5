package middleware

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Ask calls one candidate directly, without a decision, check or trace, for judges and other verifiers
// that need a model themselves. The answer carries its cost, which the caller adds to its verdict. An
// error carries the cost of a call that the provider can bill although it failed: see [sdk.SpentUSD].
// In a step under caps the worst case is reserved: see [step.ReserveCall].
func (m *Model) Ask(ctx context.Context, model string, q *sdk.Query) (*sdk.Answer, error) {
	i := m.engine.Index(model)
	if i < 0 {
		return nil, fmt.Errorf("asking %s: %w", model, sdk.ErrNoFeasibleModel)
	}
	price := &m.engine.Models()[i]
	var options []llms.CallOption
	if q.MaxOutputTokens > 0 {
		options = append(options, llms.WithMaxTokens(q.MaxOutputTokens))
	}
	if q.Format.JSON {
		options = append(options, llms.WithJSONMode())
	}
	c := newCall(ctx, m, messagesOf(q), options)
	limit, book, err := step.ReserveCall(ctx, price, &step.Request{Query: &c.query, PromptBytes: c.size.bytes + c.size.data, Images: c.size.images, ContextReads: c.size.unknownFiles})
	if err != nil {
		return nil, err
	}
	answer, err := c.Call(ctx, &step.Call{Query: &c.query, Model: price, Index: i, Attempt: 1, MaxOutputTokens: limit})
	book(answer, err)
	if err != nil {
		return nil, &sdk.SpentError{Err: fmt.Errorf("asking %s: %w", model, err), CostUSD: m.engine.FailedCallUSD(i, &c.query, err)}
	}
	answer.Model = price.Name
	return answer, nil
}

func messagesOf(q *sdk.Query) []llms.MessageContent {
	roles := map[sdk.Role]llms.ChatMessageType{
		sdk.RoleSystem: llms.ChatMessageTypeSystem, sdk.RoleAssistant: llms.ChatMessageTypeAI, sdk.RoleTool: llms.ChatMessageTypeTool,
	}
	list := make([]llms.MessageContent, 0, len(q.Messages))
	for i := range q.Messages {
		message := llms.MessageContent{Role: cmp.Or(roles[q.Messages[i].Role], llms.ChatMessageTypeHuman)}
		for _, p := range q.Messages[i].Parts {
			switch p.Kind {
			case sdk.PartText:
				message.Parts = append(message.Parts, llms.TextContent{Text: p.Text})
			case sdk.PartImageURL:
				message.Parts = append(message.Parts, llms.ImageURLContent{URL: p.URL})
			case sdk.PartBinary:
				message.Parts = append(message.Parts, llms.BinaryContent{MIMEType: p.MIMEType, Data: p.Data})
			case sdk.PartToolCall:
				message.Parts = append(message.Parts, llms.ToolCall{ID: p.ToolCall.ID, Type: "function",
					FunctionCall: &llms.FunctionCall{Name: p.ToolCall.Name, Arguments: p.ToolCall.Arguments}})
			case sdk.PartToolResult:
				message.Parts = append(message.Parts, llms.ToolCallResponse{ToolCallID: p.ToolResult.CallID, Name: p.ToolResult.Name, Content: p.ToolResult.Content})
			}
		}
		list = append(list, message)
	}
	return list
}

package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/provider/internal/wire"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// reply is an answer of the Responses API.
type reply struct {
	ID          string            `json:"id"`
	Model       string            `json:"model"`
	CreatedAt   json.Number       `json:"created_at"`
	Status      string            `json:"status"`
	ServiceTier string            `json:"service_tier"`
	Output      []json.RawMessage `json:"output"`
	Incomplete  *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage `json:"error"`
	Usage *struct {
		Input        wire.Count `json:"input_tokens"`
		Output       wire.Count `json:"output_tokens"`
		InputDetails struct {
			Cached     wire.Count `json:"cached_tokens"`
			CacheWrite wire.Count `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning wire.Count `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

type item struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type     string       `json:"type"`
		Text     string       `json:"text"`
		Refusal  string       `json:"refusal"`
		LogProbs []wire.Token `json:"logprobs"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// event is one of a stream's.
type event struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Delta    json.RawMessage `json:"delta"`
	Item     json.RawMessage `json:"item"`
	LogProbs []wire.Token    `json:"logprobs"`
	Response json.RawMessage `json:"response"`
}

func (a *answer) readResponses(resp *http.Response, streams bool) (*llms.ContentResponse, error) {
	if !streams || !streamed(resp) {
		data, err := a.whole(resp)
		if err != nil {
			return nil, err
		}
		return a.reply(data)
	}
	var last json.RawMessage
	calls := map[int]int{} // index of a tool call by that of its item
	_, err := a.events(resp, func(data []byte) error {
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return a.x.Garbled(provider, err)
		}
		d := middleware.Delta{}
		switch e.Type {
		case "response.output_text.delta":
			d.Text, d.LogProbs = said1(e.Delta), wire.Tokens(e.LogProbs)
		case "response.refusal.delta":
			d.Refusal = said1(e.Delta)
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			d.Reasoning = said1(e.Delta)
		case "response.output_item.added":
			it, err := a.item(e.Item)
			if err != nil || it.Type != "function_call" {
				return err
			}
			calls[e.Index] = len(calls)
			d.Tool = &middleware.ToolDelta{Index: calls[e.Index], ID: it.CallID, Name: it.Name, Arguments: it.Arguments}
		case "response.output_item.done":
			it, err := a.item(e.Item)
			if err != nil || it.Type == "" || it.Type == "function_call" || it.Type == "message" {
				return err // text and calls have been given as they came
			}
			d.Raw = &middleware.RawPart{Dialect: middleware.DialectResponses, Model: a.owner(it.Type), Raw: e.Item}
		case "response.function_call_arguments.delta":
			d.Tool = &middleware.ToolDelta{Index: calls[e.Index], Arguments: said1(e.Delta)}
		case "response.completed", "response.incomplete", "response.failed":
			last = append(json.RawMessage(nil), e.Response...)
			return nil
		case "error":
			return a.x.Told(provider, data)
		default:
			return nil
		}
		return a.emit(&d)
	})
	switch {
	case err != nil:
		return nil, err
	case last == nil:
		return nil, a.x.Garbled(provider, errors.New("the stream ended before the answer did"))
	}
	return a.reply(last)
}

// owner is whose state an item of the type is: ids of messages are known to the server
// that gave them.
func (a *answer) owner(kind string) string {
	if kind == "reasoning" || kind == "message" {
		return a.origin
	}
	return ""
}

// item reads an item of the output, or none.
func (a *answer) item(raw json.RawMessage) (it item, err error) {
	if len(raw) == 0 {
		return it, nil
	}
	if err := json.Unmarshal(raw, &it); err != nil {
		return it, a.x.Garbled(provider, err)
	}
	return it, nil
}

func said1(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // a delta that is no text is not shown
	return text
}

// reply reads a whole answer.
func (a *answer) reply(data []byte) (*llms.ContentResponse, error) {
	var in reply
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, a.x.Garbled(provider, err)
	}
	x := &middleware.Extra{ID: in.ID, Served: in.Model, ServiceTier: in.ServiceTier, StopReason: in.Status, RequestID: a.x.RequestID(), NotSent: a.notSent, Raw: data}
	if n, err := in.CreatedAt.Float64(); err == nil {
		x.Created = int64(n)
	}
	if u := in.Usage; u != nil && wire.AnyBroken(u.Input, u.Output, u.InputDetails.Cached, u.InputDetails.CacheWrite, u.OutputDetails.Reasoning) {
		x.Usage = wire.BrokenUsage
	} else if u != nil {
		x.Usage = sdk.Usage{
			InputTokens: int(max(0, u.Input-u.InputDetails.Cached-u.InputDetails.CacheWrite)), CachedInputTokens: int(u.InputDetails.Cached), CacheWriteTokens: int(u.InputDetails.CacheWrite),
			OutputTokens: int(max(0, u.Output-u.OutputDetails.Reasoning)), ReasoningTokens: int(u.OutputDetails.Reasoning),
		}
	}
	if len(in.Error) > 0 && string(in.Error) != "null" {
		err := a.x.Told(provider, data)
		if e, ok := errors.AsType[*middleware.ProviderError](err); ok {
			e.Usage = x.Usage
		}
		return nil, err
	}
	if len(in.Output) == 0 && in.Incomplete == nil {
		return nil, a.x.Garbled(provider, middleware.ErrEmptyResponse)
	}
	own := &llms.ContentChoice{StopReason: "stop"}
	var content, reasoning strings.Builder
	for _, raw := range in.Output {
		it, err := a.item(raw)
		if err != nil {
			return nil, err
		}
		part := middleware.RawPart{Dialect: middleware.DialectResponses, Model: a.owner(it.Type), Raw: raw}
		switch it.Type {
		case "function_call":
			call := llms.ToolCall{ID: it.CallID, Type: "function", FunctionCall: &llms.FunctionCall{Name: it.Name, Arguments: it.Arguments}}
			own.ToolCalls = append(own.ToolCalls, call)
			x.Parts = append(x.Parts, call)
			continue
		case "reasoning":
			for _, s := range it.Summary {
				reasoning.WriteString(s.Text)
			}
			for _, s := range it.Content {
				reasoning.WriteString(s.Text)
			}
		default:
			for _, c := range it.Content {
				part.Text += c.Text + c.Refusal
				content.WriteString(c.Text)
				x.Refusal += c.Refusal
				x.LogProbs = append(x.LogProbs, wire.Tokens(c.LogProbs)...)
			}
		}
		x.Parts = append(x.Parts, part)
	}
	own.Content, own.ReasoningContent = content.String(), reasoning.String()
	switch {
	case in.Incomplete != nil:
		x.StopReason = in.Incomplete.Reason
		own.StopReason = map[string]string{"max_output_tokens": "length"}[in.Incomplete.Reason]
		if own.StopReason == "" {
			own.StopReason, x.Blocked = "content_filter", in.Incomplete.Reason
		}
	case len(own.ToolCalls) > 0:
		own.StopReason, own.FuncCall = "tool_calls", own.ToolCalls[0].FunctionCall
	}
	own.GenerationInfo = wire.Info(x, own.ReasoningContent)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{own}}, nil
}

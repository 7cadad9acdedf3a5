package middleware

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// streams reports whether the caller wants chunks.
func (c *call) streams() bool { return c.streamed }

// streamState watches the stream of one call.
type streamState struct {
	call *call
	// speaker: the model streams by Params.OnDelta.
	speaker bool
	// live: chunks go to the caller. shown: some have gone.
	live, shown bool
	bytes       int
}

// install sets the streaming functions of one call: the caller's when it is live,
// none otherwise, so that nothing of a draft is seen.
func (s *streamState) install(o *llms.CallOptions, p *Params) {
	content, reasoning, delta := s.call.given.StreamingFunc, s.call.given.StreamingReasoningFunc, s.call.params.OnDelta
	o.StreamingFunc, o.StreamingReasoningFunc, p.OnDelta = nil, nil, nil
	if !s.live {
		return
	}
	if s.speaker {
		p.OnDelta = func(ctx context.Context, d *Delta) error {
			s.note(len(d.Text) + len(d.Reasoning) + len(d.Refusal))
			if d.Tool != nil {
				s.note(len(d.Tool.Name) + len(d.Tool.Arguments))
				s.call.toolsShown = true
			}
			return s.call.emit(ctx, d)
		}
		return
	}
	// Some clients stream only with StreamingFunc set, or fail without it.
	o.StreamingFunc = func(ctx context.Context, chunk []byte) error {
		s.note(len(chunk))
		switch {
		case delta != nil && !toolChunk(chunk):
			return delta(ctx, &Delta{Text: string(chunk)})
		case delta == nil && content != nil:
			return content(ctx, bytes.Clone(chunk))
		}
		return nil
	}
	switch {
	case delta != nil:
		o.StreamingReasoningFunc = func(ctx context.Context, thought, chunk []byte) error {
			s.note(len(thought))
			if len(thought) == 0 {
				return nil
			}
			return delta(ctx, &Delta{Reasoning: string(thought)})
		}
	case reasoning != nil:
		o.StreamingReasoningFunc = func(ctx context.Context, thought, chunk []byte) error {
			s.note(len(thought))
			return reasoning(ctx, bytes.Clone(thought), bytes.Clone(chunk))
		}
	}
}

// toolChunk reports whether a chunk is the list of tool calls that langchaingo's openai
// client passes off as text.
func toolChunk(chunk []byte) bool {
	var calls []llms.ToolCall
	return bytes.HasPrefix(chunk, []byte("[{")) && json.Unmarshal(chunk, &calls) == nil && calls[0].FunctionCall != nil
}

func (s *streamState) note(n int) {
	s.bytes += n
	s.shown = s.shown || n > 0
}

// emit gives a piece of the answer to a caller that streams.
func (c *call) emit(ctx context.Context, d *Delta) error {
	if f := c.params.OnDelta; f != nil {
		return f(ctx, d)
	}
	if f := c.given.StreamingReasoningFunc; f != nil && (d.Reasoning != "" || d.Text != "") {
		if err := f(ctx, []byte(d.Reasoning), []byte(d.Text)); err != nil {
			return err
		}
	}
	if f := c.given.StreamingFunc; f != nil && d.Text != "" {
		return f(ctx, []byte(d.Text))
	}
	return nil
}

// replay gives the chosen answer to a caller that streams, in one piece, unless
// it was streamed as it came. An answer of tool calls only has nothing to show to
// langchaingo's streaming functions.
func (c *call) replay(ctx context.Context, resp *llms.ContentResponse) error {
	if !c.streamed || c.live && (c.params.OnDelta == nil || c.toolsShown) {
		return nil
	}
	for i, choice := range resp.Choices {
		if i > 0 && c.params.OnDelta == nil {
			break
		}
		for _, d := range c.pieces(i, choice) {
			if err := c.emit(ctx, &d); err != nil {
				return streamError(err)
			}
		}
	}
	return nil
}

// pieces are a choice as a stream would have given it, without what it has.
func (c *call) pieces(i int, choice *llms.ContentChoice) (list []Delta) {
	whole := Delta{Choice: i, Text: choice.Content, Reasoning: choice.ReasoningContent}
	if x := ExtraOf(choice); x != nil && x.Refusal != choice.Content {
		whole.Refusal = x.Refusal
	}
	if !c.live && whole.Text+whole.Reasoning+whole.Refusal != "" {
		if x := ExtraOf(choice); x != nil && c.params.LogProbs != nil {
			whole.LogProbs = x.LogProbs
		}
		list = append(list, whole)
	}
	if c.params.OnDelta == nil {
		return list
	}
	for k, t := range choice.ToolCalls {
		if t.FunctionCall != nil {
			list = append(list, Delta{Choice: i, Tool: &ToolDelta{Index: k, ID: t.ID, Name: t.FunctionCall.Name, Arguments: t.FunctionCall.Arguments}})
		}
	}
	return list
}

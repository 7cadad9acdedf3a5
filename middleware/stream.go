package middleware

import (
	"bytes"
	"context"

	"github.com/tmc/langchaingo/llms"
)

// streams reports whether the caller wants chunks.
func (c *call) streams() bool { return c.streamed }

// streamState watches the stream of one call.
type streamState struct {
	call *call
	// live: chunks go to the caller. shown: some have gone.
	live, shown bool
	bytes       int
}

// install sets the streaming functions of one call: the caller's when it is live,
// none otherwise, so that nothing of a draft is seen.
func (s *streamState) install(o *llms.CallOptions) {
	content, reasoning := s.call.given.StreamingFunc, s.call.given.StreamingReasoningFunc
	o.StreamingFunc, o.StreamingReasoningFunc = nil, nil
	if !s.live {
		return
	}
	// Some clients stream only with StreamingFunc set, or fail without it.
	o.StreamingFunc = func(ctx context.Context, chunk []byte) error {
		s.note(len(chunk))
		if content == nil {
			return nil
		}
		return content(ctx, bytes.Clone(chunk))
	}
	if reasoning != nil {
		o.StreamingReasoningFunc = func(ctx context.Context, thought, chunk []byte) error {
			s.note(len(thought))
			return reasoning(ctx, bytes.Clone(thought), bytes.Clone(chunk))
		}
	}
}

func (s *streamState) note(n int) {
	s.bytes += n
	s.shown = s.shown || n > 0
}

// replay gives the chosen answer to a caller that streams, in one piece, unless
// it was streamed as it came. An answer of tool calls only has nothing to show.
func (c *call) replay(ctx context.Context, resp *llms.ContentResponse) error {
	if c.live || !c.streamed {
		return nil
	}
	choice := resp.Choices[0]
	if f := c.given.StreamingReasoningFunc; f != nil && (choice.ReasoningContent != "" || choice.Content != "") {
		if err := f(ctx, []byte(choice.ReasoningContent), []byte(choice.Content)); err != nil {
			return streamError(err)
		}
	}
	if f := c.given.StreamingFunc; f != nil && choice.Content != "" {
		if err := f(ctx, []byte(choice.Content)); err != nil {
			return streamError(err)
		}
	}
	return nil
}

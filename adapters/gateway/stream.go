package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tmc/langchaingo/llms"
)

// stream answers with server-sent events: what the model lets out as it comes, then
// whatever has not been sent of its answer, the usage and [DONE].
func (g *gateway) stream(ctx context.Context, w http.ResponseWriter, req *request) {
	e := &events{w: w, flush: http.NewResponseController(w).Flush, head: newCompletion("chat.completion.chunk", req.model)}
	quiet := e.keepAlive(g.o.KeepAlive)
	options := req.options
	// The chunks of several choices cannot be told apart: those are sent at the end.
	if req.choices == 1 {
		options = append(options,
			llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
				if len(chunk) == 0 || (req.tools && isToolCallChunk(chunk)) {
					return nil
				}
				return e.text(string(chunk))
			}),
			llms.WithStreamingReasoningFunc(func(_ context.Context, reasoning, _ []byte) error { return e.reasoning(string(reasoning)) }))
	}
	resp, err := g.o.Model.GenerateContent(ctx, req.messages, options...)
	quiet()
	if err != nil {
		g.o.Logger.Warn("a step failed", "error", err, "streamed", e.begun)
		e.fail(failure(err))
		return
	}
	e.finish(req, resp)
}

// isToolCallChunk reports whether a chunk is the tool calls that langchaingo's openai
// client gives to the function for text: a list of calls as JSON. The response has them too.
func isToolCallChunk(chunk []byte) bool {
	if !bytes.HasPrefix(chunk, []byte(`[{`)) {
		return false
	}
	var calls []struct {
		Function *struct{} `json:"function"`
	}
	if json.Unmarshal(chunk, &calls) != nil {
		return false
	}
	for _, c := range calls {
		if c.Function == nil {
			return false
		}
	}
	return true
}

// events writes a stream. Its methods are safe for concurrent use.
type events struct {
	w     http.ResponseWriter
	flush func() error
	head  completion

	mu       sync.Mutex
	begun    bool // the header has been sent
	spoken   bool // the role has been sent
	texts    int  // pieces of text that have been sent
	thoughts int
}

// keepAlive sends a comment at each interval until the returned function is called.
func (e *events) keepAlive(every time.Duration) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				e.mu.Lock()
				// A failed write means that the client has gone; its context says so to the step.
				_ = e.write(": at work\n\n")
				e.mu.Unlock()
			}
		}
	})
	return func() { close(done); running.Wait() }
}

func (e *events) write(text string) error {
	if !e.begun {
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-cache")
		e.begun = true
	}
	hurry(e.w)
	if _, err := fmt.Fprint(e.w, text); err != nil {
		return fmt.Errorf("sending to the client: %w", err)
	}
	return e.flush()
}

func (e *events) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.write("data: " + string(data) + "\n\n")
}

// delta sends a piece of choice i; the first one of the stream says who speaks.
func (e *events) delta(i int, piece wireSpoken, reason *string) error {
	if !e.spoken {
		piece.Role, e.spoken = "assistant", true
	}
	chunk := e.head
	chunk.Choices = []wireChoice{{Index: i, Delta: &piece, FinishReason: reason}}
	return e.send(chunk)
}

func (e *events) text(s string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.texts++
	return e.delta(0, wireSpoken{Content: &s}, nil)
}

func (e *events) reasoning(s string) error {
	if s == "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.thoughts++
	return e.delta(0, wireSpoken{Reasoning: s}, nil)
}

// finish sends what has not been sent of the answer. Failed writes mean that the
// client has gone, and there is nobody to tell.
func (e *events) finish(req *request, resp *llms.ContentResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, choice := range resp.Choices {
		if choice.ReasoningContent != "" && (i > 0 || e.thoughts == 0) {
			_ = e.delta(i, wireSpoken{Reasoning: choice.ReasoningContent}, nil)
		}
		if choice.Content != "" && (i > 0 || e.texts == 0) {
			_ = e.delta(i, wireSpoken{Content: &choice.Content}, nil)
		}
		if calls := toolCalls(choice.ToolCalls); len(calls) > 0 {
			for k := range calls {
				calls[k].Index = &k
			}
			_ = e.delta(i, wireSpoken{ToolCalls: calls}, nil)
		}
		reason := finishReason(choice)
		_ = e.delta(i, wireSpoken{}, &reason)
	}
	last := e.head
	last.account(resp)
	if !req.usage {
		last.Usage = nil
	}
	if last.Usage != nil || last.Step != nil {
		_ = e.send(last)
	}
	_ = e.write("data: [DONE]\n\n")
}

// fail sends an error: as the response, or within the stream when that has begun.
func (e *events) fail(why *apiError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.begun {
		writeError(e.w, why)
		return
	}
	_ = e.send(why.body())
}

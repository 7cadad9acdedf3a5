package middleware

import (
	"context"

	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"
)

// notifier fires the LLM events of one step, each at most once. A handler that
// panics does not harm the step.
type notifier struct{ h callbacks.Handler }

func (n notifier) start(ctx context.Context, messages []llms.MessageContent) {
	n.fire(func() { n.h.HandleLLMGenerateContentStart(ctx, messages) })
}

func (n notifier) end(ctx context.Context, resp *llms.ContentResponse, err error) {
	if err != nil {
		n.fire(func() { n.h.HandleLLMError(ctx, err) })
		return
	}
	n.fire(func() { n.h.HandleLLMGenerateContentEnd(ctx, resp) })
}

func (n notifier) fire(event func()) {
	if n.h == nil {
		return
	}
	defer func() { _ = recover() }()
	event()
}

package middleware

import "github.com/tmc/langchaingo/callbacks"

// notify fires an LLM event of a step. A handler that panics does not harm the step.
func (m *Model) notify(event func(h callbacks.Handler)) {
	if m.c.Callbacks == nil {
		return
	}
	defer func() { _ = recover() }()
	event(m.c.Callbacks)
}

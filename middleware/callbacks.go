package middleware

import "github.com/tmc/langchaingo/callbacks"

// notify fires an LLM event of a step. A panic of the handler does not affect the step.
func (m *Model) notify(event func(h callbacks.Handler)) {
	if m.c.Callbacks == nil {
		return
	}
	defer func() { _ = recover() }()
	event(m.c.Callbacks)
}

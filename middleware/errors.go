package middleware

import (
	"fmt"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/sdk"
)

// ProviderError is why a model gave no answer, in the words of the server that was
// asked: the error of a [Speaker]'s call, and in the chain of a step's.
type ProviderError struct {
	Provider string
	// Status is the HTTP status, 0 when none came.
	Status int
	Code   llms.ErrorCode
	// Type, Name and Param are the server's own words for the error.
	Type, Name, Param string
	Message           string
	RequestID         string
	// Retry says that the same request may succeed later, RetryAfter how long the
	// server wants to be left alone; 0 is unknown.
	Retry      bool
	RetryAfter time.Duration
	// Billed says that the server took the request and may charge for it. Usage is
	// what it said it used until then.
	Billed bool
	Usage  sdk.Usage
	Err    error
}

// Error says who refused what. It holds no key.
func (e *ProviderError) Error() string {
	var b strings.Builder
	b.WriteString(e.Provider)
	if e.Status > 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	for _, word := range []string{e.Type, e.Name} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	} else if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	return b.String()
}

// Unwrap returns the client's own error.
func (e *ProviderError) Unwrap() error { return e.Err }

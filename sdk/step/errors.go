package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// CallError is an error of a call with what the engine needs to know about it. A
// caller wraps its errors in one; any other error is not retried.
type CallError struct {
	Err error
	// Retry says that the same model may be asked again; After is how long to
	// wait at least, 0 when the caller does not know.
	Retry bool
	After time.Duration
	// Elsewhere says that another deployment of the model is there to be asked:
	// the engine tries again at once, and the try does not count against
	// Retry.MaxAttempts. The caller sees to it that deployments run out.
	Elsewhere bool
	// Refused says that the server refused the request itself. Another model may take it,
	// but where none does, a rejected answer does not take the error's place.
	Refused bool
	// Fatal ends the step: no other model can be asked either, for instance
	// because part of this answer was already shown to the user.
	Fatal bool
	// Usage and CostUSD are what the failed call cost, as far as known.
	Usage   sdk.Usage
	CostUSD float64
	// Billed says that the provider may charge for the call although nobody saw
	// what for: it timed out, was cancelled or was cut off. Where Usage and CostUSD
	// are empty, the trace counts the prompt and an answer of the expected length;
	// under the caps the worst case stands until the bill is known, so that they hold
	// against calls that never come back.
	Billed bool
	// Deployment is who was asked.
	Deployment string
}

// Error returns the message of the wrapped error.
func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *CallError) Unwrap() error { return e.Err }

// PanicError is a panic of a caller, estimator or verifier, recovered.
type PanicError struct {
	Value any
	Stack []byte
}

// Error says what was panicked with. The stack is in Stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value when that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrVerifierUnavailable is wrapped by the error of a step that ended because a
// verifier could not be had and its policy is to fail.
var ErrVerifierUnavailable = errors.New("verifier unavailable")

// ErrEstimatorUnavailable ends the step when a quality estimator's error wraps it.
// Any other error of an estimator is noted, and the priors are used.
var ErrEstimatorUnavailable = errors.New("estimator unavailable")

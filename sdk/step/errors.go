package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// CallError is an error of a call with what the engine needs to know about it. A caller wraps its
// errors in one; any other error is not retried.
type CallError struct {
	Err error
	// Retry says that the same model may be asked again; After is the minimum wait, 0 if unknown.
	Retry bool
	After time.Duration
	// Elsewhere says that another deployment of the model can be asked: the engine tries again at once,
	// and the attempt does not count against Retry.MaxAttempts. The caller makes sure that it does not
	// offer deployments for ever.
	Elsewhere bool
	// Refused says that the server refused the request itself. Another model may accept it, but if none
	// does, the step fails even if there is a rejected answer.
	Refused bool
	// Fatal ends the step: no other model can be asked, for instance because part of this answer was
	// already shown to the user.
	Fatal bool
	// Cancelled says that whoever asked for the answer ended the call. It is no failure of the model's.
	Cancelled bool
	// Usage and CostUSD are the usage and cost of the failed call, as far as known. The usage is Estimated
	// if the answer had not ended, and has no OutputTokens if nothing of it came.
	Usage   sdk.Usage
	CostUSD float64
	// Billed says that the provider may charge for the call although its usage is unknown: it timed out,
	// was cancelled or was cut off. If Usage and CostUSD are empty, the trace counts the prompt and an
	// answer of the expected length, and if Usage is Estimated and has no OutputTokens such an answer. Under the caps the worst case stays booked until the bill is known,
	// so that caps hold even for calls that never return.
	Billed bool
	// Deployment names the server that was asked.
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

// ErrVerifierUnavailable is wrapped by the error of a step that ended because a verifier with
// UnavailableFail was unavailable.
var ErrVerifierUnavailable = errors.New("verifier unavailable")

// ErrEstimatorUnavailable ends the step when an estimator's error wraps it.
// Any other error of an estimator is noted, and the priors are used.
var ErrEstimatorUnavailable = errors.New("estimator unavailable")

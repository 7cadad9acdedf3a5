package step

import (
	"errors"
	"fmt"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// CallError is the error of a call, with what the engine needs to handle it. Callers wrap their errors
// in one; any other error is not retried.
type CallError struct {
	Err error
	// Retry says that the same model may be asked again; After is the minimum wait, 0 if unknown.
	Retry bool
	After time.Duration
	// Elsewhere says that another deployment of the model can be called: the engine tries again at once,
	// and the attempt does not count against Retry.MaxAttempts. The caller must not set it forever.
	Elsewhere bool
	// Refused says that the server refused the request itself. Another model may accept it, but if none
	// does, the step fails even if there is a rejected answer.
	Refused bool
	// Fatal ends the step: no other model can be called, for instance because part of this answer was
	// already shown to the user.
	Fatal bool
	// Cancelled says that the client cancelled the call, which is no failure of the model.
	Cancelled bool
	// Usage and CostUSD are the usage and cost of the failed call, as far as known. The usage is Estimated
	// if the answer was incomplete, and has no OutputTokens if none of it arrived.
	Usage   sdk.Usage
	CostUSD float64
	// Billed says that the provider may charge for the call although its usage is unknown: it timed out,
	// was cancelled or was cut off. If Usage and CostUSD are empty, the trace counts the prompt and an
	// answer of the expected length; if Usage is Estimated and has no OutputTokens, it adds an answer of
	// that length. Under the caps the worst case stays booked until the bill is known, so that caps hold
	// even for calls that never return.
	Billed bool
	// Deployment names the server that was called.
	Deployment string
}

// Error returns the message of the wrapped error.
func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *CallError) Unwrap() error { return e.Err }

// PanicError is a recovered panic of a caller, check, estimator or verifier.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the panic's value as text, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// ErrVerifierUnavailable is wrapped by the error of a step that ended because a verifier with
// UnavailableFail was unavailable.
var ErrVerifierUnavailable = errors.New("verifier unavailable")

// ErrEstimatorUnavailable ends the step if an estimator's error wraps it. On any other error the
// estimator abstains, and the error is noted in the trace.
var ErrEstimatorUnavailable = errors.New("estimator unavailable")

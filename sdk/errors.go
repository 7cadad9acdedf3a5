package sdk

import "errors"

// Errors to branch on with errors.Is.
var (
	// ErrNoFeasibleModel: no candidate can serve this query.
	ErrNoFeasibleModel = errors.New("no feasible model")
	// ErrBudgetExhausted: a hard cap leaves no room for the first call.
	ErrBudgetExhausted = errors.New("budget exhausted")
	// ErrRequestRefused: a model's answer was rejected, and the next model refused the request.
	ErrRequestRefused = errors.New("the answer was rejected, and the request for another one refused")
	// ErrPluginUnavailable: an estimator or verifier could not be reached.
	ErrPluginUnavailable = errors.New("plugin unavailable")
	// ErrStoreUnavailable: the store of accounts and traces cannot be reached, so no step under a cap can
	// begin.
	ErrStoreUnavailable = errors.New("the store cannot be reached")
)

// SpentError is the error of a failed call that cost money: of a model, or of an estimator or verifier
// that called one.
type SpentError struct {
	Err error
	// CostUSD is the cost in US dollars, an estimate if the bill is unknown.
	CostUSD float64
}

// Error returns the message of Err.
func (e *SpentError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SpentError) Unwrap() error { return e.Err }

// SpentUSD returns CostUSD.
func (e *SpentError) SpentUSD() float64 { return e.CostUSD }

// SpentUSD returns the cost in US dollars of a verifier's or estimator's failed call: the result of the
// SpentUSD method of the first error in the chain that has one, else 0.
func SpentUSD(err error) float64 {
	var spender interface{ SpentUSD() float64 }
	if errors.As(err, &spender) {
		return max(0, spender.SpentUSD())
	}
	return 0
}

package sdk

import "errors"

// Errors to branch on with errors.Is.
var (
	// ErrNoFeasibleModel: no candidate can be asked this query.
	ErrNoFeasibleModel = errors.New("no feasible model")
	// ErrBudgetExhausted: a hard cap leaves no room for the first call.
	ErrBudgetExhausted = errors.New("budget exhausted")
	// ErrRequestRefused: a model answered and its answer was rejected, and a model that was
	// to give another one refused the request.
	ErrRequestRefused = errors.New("the answer was rejected, and the request for another one refused")
	// ErrPluginUnavailable: an estimator or verifier could not be reached.
	ErrPluginUnavailable = errors.New("plugin unavailable")
	// ErrStoreUnavailable: the store of accounts and traces cannot be reached now, so
	// that a step under a cap cannot begin.
	ErrStoreUnavailable = errors.New("the store cannot be reached")
)

// SpentUSD returns what a call of a verifier or an estimator has cost although it
// failed: an error in the chain has a method SpentUSD.
func SpentUSD(err error) float64 {
	var spender interface{ SpentUSD() float64 }
	if errors.As(err, &spender) {
		return max(0, spender.SpentUSD())
	}
	return 0
}

package sdk

import "errors"

// Errors to branch on with errors.Is.
var (
	// ErrNoFeasibleModel: no candidate can be asked this query.
	ErrNoFeasibleModel = errors.New("no feasible model")
	// ErrBudgetExhausted: a hard cap leaves no room for the first call.
	ErrBudgetExhausted = errors.New("budget exhausted")
	// ErrPluginUnavailable: an estimator or verifier could not be reached.
	ErrPluginUnavailable = errors.New("plugin unavailable")
)

package sdk

import "context"

type modelBudgetKey struct{}

// WithModelBudget returns a context for one verification or estimate. Once its model calls have cost
// usd US dollars, no further one begins.
func WithModelBudget(ctx context.Context, usd float64) context.Context {
	return context.WithValue(ctx, modelBudgetKey{}, usd)
}

// ModelBudget returns the budget that [WithModelBudget] set, in US dollars, and whether
// there is one.
func ModelBudget(ctx context.Context) (usd float64, ok bool) {
	usd, ok = ctx.Value(modelBudgetKey{}).(float64)
	return usd, ok
}

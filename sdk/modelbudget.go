package sdk

import (
	"context"
	"sync/atomic"
)

type modelBudgetKey struct{}

type modelBudget struct {
	usd   float64
	spent atomic.Bool
}

// WithModelBudget returns a context for one verification or estimate. Once its model calls have cost usd
// US dollars, no further call begins.
func WithModelBudget(ctx context.Context, usd float64) context.Context {
	return context.WithValue(ctx, modelBudgetKey{}, &modelBudget{usd: usd})
}

// ModelBudget returns the budget set by [WithModelBudget] in US dollars, and whether there is one.
func ModelBudget(ctx context.Context) (usd float64, ok bool) {
	b, ok := ctx.Value(modelBudgetKey{}).(*modelBudget)
	if !ok {
		return 0, false
	}
	return b.usd, true
}

// MarkModelBudgetSpent records that a model call was refused because the budget was spent.
func MarkModelBudgetSpent(ctx context.Context) {
	if b, ok := ctx.Value(modelBudgetKey{}).(*modelBudget); ok {
		b.spent.Store(true)
	}
}

// ModelBudgetSpent reports whether [MarkModelBudgetSpent] was called.
func ModelBudgetSpent(ctx context.Context) bool {
	b, ok := ctx.Value(modelBudgetKey{}).(*modelBudget)
	return ok && b.spent.Load()
}

package sdk

import (
	"context"
	"sync/atomic"
)

// ModelBudget limits the model calls of one verification or estimate: once they have cost USD US dollars, no
// further call begins. Spent is set when a call was refused because of that.
type ModelBudget struct {
	USD   float64
	Spent atomic.Bool
}

type modelBudgetKey struct{}

// WithModelBudget returns a context for one verification or estimate with a budget for its model calls.
func WithModelBudget(ctx context.Context, usd float64) context.Context {
	return context.WithValue(ctx, modelBudgetKey{}, &ModelBudget{USD: usd})
}

// ModelBudgetOf returns the budget set by [WithModelBudget], or nil.
func ModelBudgetOf(ctx context.Context) *ModelBudget {
	b, _ := ctx.Value(modelBudgetKey{}).(*ModelBudget)
	return b
}

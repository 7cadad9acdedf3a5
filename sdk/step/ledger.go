package step

import (
	"context"

	"github.com/stepfall/stepfall/sdk"
)

// Ledger holds hard caps on spending. It finds the accounts that a query belongs
// to (run, tenant) in the query. It must be safe for concurrent use.
type Ledger interface {
	// Reserve sets usd aside on every account of the query that has a cap, on all
	// or on none. When a cap leaves no room the error wraps sdk.ErrBudgetExhausted. A
	// reservation of 0 is granted also then: what it settles has been spent already.
	Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error)
}

// Reservation is money set aside.
type Reservation interface {
	// Settle books what was really spent in place of what was reserved, or the worst
	// case where nobody knows the bill: of a call that was cancelled, for instance. It
	// is called exactly once, also when ctx has ended, and must not wait on ctx.
	Settle(ctx context.Context, usd float64) error
}

// UncertainReservation is a Reservation that tells what was spent from what may have been
// besides. Others book both as spent.
type UncertainReservation interface {
	// SettleUncertain takes the place of Settle where the bill is not known: usd were spent
	// as far as anybody saw, and at most most.
	SettleUncertain(ctx context.Context, usd, most float64) error
}

// settle settles a reservation, also where the bill is not known.
func settle(ctx context.Context, held Reservation, usd, most float64) error {
	if uncertain, ok := held.(UncertainReservation); ok && most > usd {
		return uncertain.SettleUncertain(ctx, usd, most)
	}
	return held.Settle(ctx, max(usd, most))
}

package step

import (
	"context"
	"errors"

	"github.com/stepfall/stepfall/sdk"
)

// Ledger holds hard caps on spending. It finds the accounts that a query belongs
// to (run, tenant) in the query. It must be safe for concurrent use.
type Ledger interface {
	// Reserve sets usd aside on every account of the query that has a cap, on all
	// or on none. When a cap leaves no room the error wraps sdk.ErrBudgetExhausted.
	Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error)
}

// Reservation is money set aside.
type Reservation interface {
	// Settle books what was really spent in place of what was reserved, or the worst
	// case where nobody knows the bill: of a call that was cancelled, for instance. It
	// is called exactly once, also when ctx has ended, and must not wait on ctx.
	Settle(ctx context.Context, usd float64) error
}

// Nested returns a ledger that reserves in each of the ledgers, in order, and in
// all or in none. Nil ledgers are left out.
func Nested(ledgers ...Ledger) Ledger {
	var list nested
	for _, l := range ledgers {
		if l != nil {
			list = append(list, l)
		}
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return list
}

type nested []Ledger

type reservations []Reservation

func (n nested) Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error) {
	held := make(reservations, 0, len(n))
	for _, l := range n {
		r, err := l.Reserve(ctx, q, usd)
		if err != nil {
			return nil, errors.Join(err, held.Settle(context.WithoutCancel(ctx), 0))
		}
		held = append(held, r)
	}
	return held, nil
}

func (r reservations) Settle(ctx context.Context, usd float64) error {
	var faults []error
	for _, one := range r {
		faults = append(faults, one.Settle(ctx, usd))
	}
	return errors.Join(faults...)
}

package step

import (
	"context"

	"github.com/stepfall/stepfall/sdk"
)

// Ledger enforces hard caps on spending. It finds the accounts of a query (run, tenant) in the query.
// It must be safe for concurrent use.
type Ledger interface {
	// Reserve reserves usd on every account of the query that has a cap, on all or on none. If a cap
	// leaves no room the error wraps sdk.ErrBudgetExhausted. A reservation of 0 is granted even then, to
	// settle what has already been spent.
	Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error)
}

// Shortage is an optional ability of a [Ledger]'s refusals: how much is missing, and whether of what the
// query's run may spend or of its tenant's. Who waits for reservations under way waits in vain where
// they hold less than that.
type Shortage interface {
	MissingUSD() (usd float64, ofRun bool)
}

// Reservation is an amount that a [Ledger] reserved.
type Reservation interface {
	// Settle replaces the reserved amount by what was really spent, or by the worst case if the bill is
	// unknown, for instance of a cancelled call. It is called exactly once, even if ctx has ended, and
	// must not wait on ctx.
	Settle(ctx context.Context, usd float64) error
}

// UncertainReservation is a Reservation that books known and possible spending separately. Other
// reservations book both as spent.
type UncertainReservation interface {
	// SettleUncertain is called instead of Settle if the bill is not known: usd is what is known to be
	// spent, most the upper limit, both in US dollars.
	SettleUncertain(ctx context.Context, usd, most float64) error
}

// settle settles a reservation, also where the bill is not known.
func settle(ctx context.Context, held Reservation, usd, most float64) error {
	if uncertain, ok := held.(UncertainReservation); ok && most > usd {
		return uncertain.SettleUncertain(ctx, usd, most)
	}
	return held.Settle(ctx, max(usd, most))
}

package step

import (
	"context"

	"github.com/stepfall/stepfall/sdk"
)

// Ledger enforces hard caps on spending. The query names its accounts (run, tenant). It must be safe for
// concurrent use.
type Ledger interface {
	// Reserve reserves usd on every account of the query that has a cap, on all or on none. If a cap
	// leaves no room, the error wraps sdk.ErrBudgetExhausted. A reservation of 0 is granted even then, so
	// that money already spent can be settled.
	Reserve(ctx context.Context, q *sdk.Query, usd float64) (Reservation, error)
}

// CapReader is an optional interface of a [Ledger] that has no cap on some queries. Their calls are made as without
// a ledger; with other ledgers every call is made as under a cap.
type CapReader interface {
	// HasCaps reports whether caps are known before any query: then each model with a price needs MaxOutputTokens.
	HasCaps() bool
	// HasCapOn reports whether any account of the query has a cap.
	HasCapOn(ctx context.Context, q *sdk.Query) bool
}

// Shortage is an optional interface of the errors of [Ledger.Reserve]: how much is missing, and whether
// under the cap of the query's run or of its tenant. A step does not wait for pending reservations that
// hold less than that.
type Shortage interface {
	MissingUSD() (usd float64, ofRun bool)
}

// Reservation is an amount that a [Ledger] reserved.
type Reservation interface {
	// Settle replaces the reserved amount by the actual cost, or by the worst case if the bill is unknown,
	// for instance that of a cancelled call. It is called exactly once, even if ctx has ended, and must
	// not wait on ctx.
	Settle(ctx context.Context, usd float64) error
}

// UncertainReservation is a Reservation that books known and possible spending separately. Other
// reservations book both as spent.
type UncertainReservation interface {
	// SettleUncertain is called instead of Settle if the bill is unknown: usd is known to be spent, and
	// most is the upper bound, both in US dollars.
	SettleUncertain(ctx context.Context, usd, most float64) error
}

// settle settles a reservation. The bill is unknown if most exceeds usd.
func settle(ctx context.Context, held Reservation, usd, most float64) error {
	if uncertain, ok := held.(UncertainReservation); ok && most > usd {
		return uncertain.SettleUncertain(ctx, usd, most)
	}
	return held.Settle(ctx, max(usd, most))
}

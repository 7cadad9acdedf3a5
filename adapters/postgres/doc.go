// Package postgres keeps what a [store.Store] keeps in PostgreSQL (15 or newer), for
// any number of machines.
//
//	s, err := postgres.Open(ctx, "postgres://stepfall@db/stepfall")
//	defer s.Close()
//
// Its tables and functions are in the schema stepfall, which Open makes and keeps at
// its version: it may be done by many processes at once, and a program of the version
// before, or of the next, works with the same tables.
//
// # Poolers
//
// Each reservation is one call of one function in a transaction of its own. There are
// no prepared statements by name, no locks of a session, no LISTEN, no settings that
// outlive a transaction: PgBouncer may pool transactions.
//
// # When the database is away
//
// Errors wrap [sdk.ErrStoreUnavailable] within seconds. A reservation that was sent and not
// answered is sent again under the same id, once.
//
// # Durability
//
// Reservations and traces are on the database's disk when the call returns. A settling
// may be lost when the database itself crashes: then the reservation stands and counts
// as spent in the end.
package postgres

// Package postgres implements [store.Store] in PostgreSQL (15 or newer), for any number of machines.
//
//	s, err := postgres.Open(ctx, "postgres://stepfall@db/stepfall")
//	defer s.Close()
//
// Its tables and functions are in the schema stepfall, which Open creates and migrates. Many processes can do so at
// once, and a program of the previous or the next version works with the same tables.
//
// # Poolers
//
// Each reservation is one call of one function in a transaction of its own. There are no named prepared statements,
// no session locks, no LISTEN, no settings that outlive a transaction: PgBouncer can pool transactions.
//
// # When the database is unavailable
//
// Errors wrap [sdk.ErrStoreUnavailable] within seconds. A reservation whose connection is lost is retried under the
// same id.
//
// # Durability
//
// Reservations and traces are on the database's disk when the call returns. A settlement can be lost when the
// database itself crashes: then the reservation stands and counts as spent in the end.
package postgres

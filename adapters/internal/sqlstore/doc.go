// Package sqlstore is what the SQL of SQLite and PostgreSQL have in common: traces
// and their sums, keys, notes. Both know $1, ON CONFLICT and RETURNING. What
// accounts hold is set aside and booked by each engine's own means.
package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Tx is a transaction.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB is a database with the tables of the traces, keys and notes.
type DB struct {
	// Read runs queries, Write a transaction, of which those that record traces must
	// end in the order of their numbers when Ordered says so.
	Read  Tx
	Write func(ctx context.Context, do func(Tx) error) error
	// Ordered begins a transaction that records traces; nil where writers wait for one
	// another anyhow.
	Ordered string
	// Prefix comes before the names of tables: a schema and a point. Accounts is the name of
	// the table of accounts with it.
	Prefix, Accounts string
	// Rows is the number of rows that one statement writes at most, 1 or more; the
	// driver of SQLite takes time with the square of the number of values.
	Rows int
	// Arrays, when there are any, says that the engine takes a column of all rows as one
	// argument. They come before those of such a query, and tell the driver how to send
	// them.
	Arrays []any
	// Blind says that the engine has no statistics to choose an index by, and knows a
	// plus before a column for "not by this one".
	Blind bool
	// Refused says of an error that it is about the values that were to be written: it
	// will come again each time.
	Refused func(error) bool
	// Fault says of an error what it means to the caller.
	Fault func(error) error
}

// namedStatement puts the prefix before the names of tables, which queries mark with @.
type namedStatement struct {
	Tx
	prefix string
}

func (n namedStatement) name(query string) string { return strings.ReplaceAll(query, "@", n.prefix) }

func (n namedStatement) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return n.Tx.ExecContext(ctx, n.name(query), args...)
}

func (n namedStatement) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return n.Tx.QueryContext(ctx, n.name(query), args...)
}

func (n namedStatement) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return n.Tx.QueryRowContext(ctx, n.name(query), args...)
}

// query calls scan for each row of a query, and names what it was about in errors.
func (d *DB) query(ctx context.Context, what, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := d.read().QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, d.fault(err))
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return d.fault(rows.Err())
}

func (d *DB) read() Tx { return namedStatement{d.Read, d.Prefix} }

func (d *DB) write(ctx context.Context, do func(Tx) error) error {
	return d.Write(ctx, func(tx Tx) error { return do(namedStatement{tx, d.Prefix}) })
}

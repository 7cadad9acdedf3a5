// Package sqlstore holds the SQL that SQLite and PostgreSQL share: traces and their sums, keys and notes. It relies
// on $1, ON CONFLICT and RETURNING. Each engine reserves and settles on accounts with SQL of its own.
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

// DB is a database with the tables for traces, keys and notes.
type DB struct {
	// Read runs queries. Write runs a transaction, and can run do again if the transaction is repeated.
	Read  Tx
	Write func(ctx context.Context, do func(Tx) error) error
	// Ordered, when not empty, is the first statement of a transaction that records traces. It makes transactions
	// commit in the order of their sequence numbers, as [store.TraceReader.Follow] needs. Engines with a single
	// writer need none.
	Ordered string
	// Prefix is prepended to table names: a schema and a dot. Accounts is the name of the accounts table, prefix
	// included.
	Prefix, Accounts string
	// Each is the expression that makes rows of the members of $1, a JSON object: json_each($1), or a faster one.
	Each string
	// Now is the expression of the engine's time, in nanoseconds since the Unix epoch.
	Now string
	// Blind means that the engine has no statistics to choose an index by, and that a unary plus before a column
	// keeps it from using that column's index, as in SQLite.
	Blind bool
	// Refused reports whether an error is about the values to be written, so that a retry is useless.
	Refused func(error) bool
	// Fault translates an engine's error for the caller.
	Fault func(error) error
}

// namedStatement replaces the @ before table names by the prefix.
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

// collect returns what scan makes of each row of a query.
func collect[T any](ctx context.Context, tx Tx, query string, args []any, scan func(*sql.Rows) (T, error)) (list []T, err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// read is collect outside of a transaction. what names the operation in errors.
func read[T any](ctx context.Context, d *DB, what, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	list, err := collect(ctx, d.read(), query, args, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, d.fault(err))
	}
	return list, nil
}

func (d *DB) read() Tx { return namedStatement{d.Read, d.Prefix} }

func (d *DB) write(ctx context.Context, do func(Tx) error) error {
	return d.Write(ctx, func(tx Tx) error { return do(namedStatement{tx, d.Prefix}) })
}

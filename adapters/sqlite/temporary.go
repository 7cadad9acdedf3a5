package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// Temporary is a temporary store of traces, for reading traces from other sources. It is in memory and, where that
// does not suffice, in a private file that is removed on close.
type Temporary struct {
	sqlstore.DB
	db *sql.DB
	mu sync.Mutex // of w
	w  *preparedConn
}

var _ store.Traces = (*Temporary)(nil)

// NewTemporary returns an empty store of traces.
func NewTemporary(ctx context.Context) (*Temporary, error) {
	db, err := sql.Open("sqlite", "") // the name of a temporary database
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("making tables: %w", err), db.Close())
	}
	t := &Temporary{db: db}
	if t.w, err = prepare(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	t.DB = sqlstore.DB{Read: t.w.conn, Write: t.write, Each: "json_each($1)", Blind: true, Refused: isRefused, Fault: fault}
	return t, nil
}

func (t *Temporary) write(_ context.Context, do func(sqlstore.Tx) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.w.exec("BEGIN"); err != nil {
		return err
	}
	if err := do(t.w); err != nil {
		return errors.Join(err, t.w.exec("ROLLBACK"))
	}
	return t.w.exec("COMMIT")
}

// Close discards the traces.
func (t *Temporary) Close() error { return errors.Join(t.w.Close(), t.db.Close()) }

// preparedConn is a connection that prepares each statement once. It implements [sqlstore.Tx] and is not safe for concurrent
// use.
type preparedConn struct {
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

var _ sqlstore.Tx = (*preparedConn)(nil)

func prepare(ctx context.Context, db *sql.DB) (*preparedConn, error) {
	conn, err := db.Conn(context.WithoutCancel(ctx))
	return &preparedConn{conn, map[string]*sql.Stmt{}}, err
}

func (p *preparedConn) statement(query string) (*sql.Stmt, error) {
	if st := p.statements[query]; st != nil {
		return st, nil
	}
	st, err := p.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("preparing a statement: %w", err)
	}
	p.statements[query] = st
	return st, nil
}

func (p *preparedConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := p.statement(query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}

func (p *preparedConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := p.statement(query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

func (p *preparedConn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := p.statement(query)
	if err != nil {
		return p.conn.QueryRowContext(ctx, query, args...) // which fails likewise
	}
	return st.QueryRowContext(ctx, args...)
}

// exec runs a statement that no context ends, and queryRow a query.
func (p *preparedConn) exec(query string, args ...any) error {
	_, err := p.ExecContext(context.Background(), query, args...)
	return err
}

func (p *preparedConn) queryRow(query string, args ...any) *sql.Row {
	return p.QueryRowContext(context.Background(), query, args...)
}

// execChanges runs a statement and reports whether it changed a row.
func (p *preparedConn) execChanges(query string, args ...any) (bool, error) {
	result, err := p.ExecContext(context.Background(), query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (p *preparedConn) Close() error {
	var faults []error
	for _, st := range p.statements {
		faults = append(faults, st.Close())
	}
	return errors.Join(append(faults, p.conn.Close())...)
}

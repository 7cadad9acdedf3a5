package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
)

// Temporary is a temporary store of traces, for reading traces from other sources. It is in memory and, where that
// does not suffice, in a private file that is removed on close.
type Temporary struct {
	sqlstore.DB
	db   *sql.DB
	conn *sql.Conn
	// statements are prepared once. Only the holder of writing uses them.
	statements map[string]*sql.Stmt
	writing    chan struct{}
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
	t := &Temporary{db: db, statements: map[string]*sql.Stmt{}, writing: make(chan struct{}, 1)}
	if t.conn, err = db.Conn(context.WithoutCancel(ctx)); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	t.DB = sqlstore.DB{Read: t.conn, Write: t.write, Rows: 1, Blind: true, Refused: isRefused, Fault: fault}
	return t, nil
}

func (t *Temporary) write(ctx context.Context, do func(sqlstore.Tx) error) error {
	t.writing <- struct{}{}
	defer func() { <-t.writing }()
	if _, err := t.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	if err := do(temporaryStatement{t}); err != nil {
		_, undo := t.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, undo)
	}
	_, err := t.conn.ExecContext(context.WithoutCancel(ctx), "COMMIT") // leave no transaction open
	return err
}

// Close discards the traces.
func (t *Temporary) Close() error {
	var faults []error
	for _, s := range t.statements {
		faults = append(faults, s.Close())
	}
	return errors.Join(append(faults, t.conn.Close(), t.db.Close())...)
}

// temporaryStatement runs statements that are prepared once.
type temporaryStatement struct{ t *Temporary }

func (p temporaryStatement) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := p.t.statements[query]; s != nil {
		return s, nil
	}
	s, err := p.t.conn.PrepareContext(context.WithoutCancel(ctx), query)
	if err == nil {
		p.t.statements[query] = s
	}
	return s, err
}

func (p temporaryStatement) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p temporaryStatement) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

func (p temporaryStatement) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.t.conn.QueryRowContext(ctx, query, args...)
}

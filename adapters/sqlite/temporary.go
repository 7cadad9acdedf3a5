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
	w  *prepared
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
	t.DB = sqlstore.DB{Read: t.w.conn, Write: t.write, Rows: 1, Blind: true, Refused: isRefused, Fault: fault}
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

package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stepfall/stepfall/adapters/internal/sqlstore"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/sdk"
)

// Store is a PostgreSQL database. It implements [store.Store].
type Store struct {
	sqlstore.DB
	pool *pgxpool.Pool
	db   *sql.DB
	// id identifies the accounts, see [store.ErrReplaced].
	id     int64
	closed chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
}

var _ store.Store = (*Store)(nil)

// patience bounds one operation.
const patience = 5 * time.Second

// Open opens the database at a postgres:// URL or a connection string, as parsed by pgx. Without pool_max_conns there
// are at most 16 connections.
func Open(ctx context.Context, url string) (*Store, error) { return open(ctx, url, len(migrations)) }

// open is Open for a program that knows the first known migrations.
func open(ctx context.Context, url string, known int) (*Store, error) {
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &Store{pool: pool, db: stdlib.OpenDBFromPool(pool), closed: make(chan struct{})}
	s.db.SetMaxIdleConns(0) // pool keeps them
	s.DB = sqlstore.DB{
		Read: s.db, Write: s.write, Prefix: "stepfall.", Accounts: "stepfall.accounts", Each: "jsonb_each($1::jsonb)", Now: "stepfall.now_ns()", Refused: isRefused, Fault: fault,
		Ordered: "SELECT set_config('lock_timeout', '4s', true), pg_advisory_xact_lock(7316054)",
	}
	err = migrate(ctx, pool, known)
	if err == nil {
		err = fault(pool.QueryRow(ctx, "SELECT id FROM stepfall.store").Scan(&s.id))
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("opening the store: %w", err), s.db.Close())
		pool.Close()
		return nil, err
	}
	s.ended.Go(s.sweep)
	return s, nil
}

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = 16
	}
	if !strings.Contains(url, "default_query_exec_mode") {
		// One round trip, and no state that a pooler would have to track.
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, patience)
	return pgxpool.NewWithConfig(ctx, c)
}

// fault wraps errors of missing tables in store.ErrReplaced, and those of an unreachable server, or of one that lets
// this role not do its work, in sdk.ErrStoreUnavailable.
func fault(err error) error {
	if err == nil || errors.Is(err, sdk.ErrStoreUnavailable) {
		return err
	}
	pg, isAnswer := errors.AsType[*pgconn.PgError](err)
	switch {
	case isAnswer && slices.Contains([]string{"SF001", "42P01", "42883", "3F000"}, pg.Code):
		return fmt.Errorf("%w: %w", store.ErrReplaced, err)
	case isUnavailable(err), isAnswer && !isRefused(err):
		return fmt.Errorf("%w: %w", sdk.ErrStoreUnavailable, err)
	}
	return err
}

// isRefused reports whether values were invalid, violated a constraint, or exceeded a limit.
func isRefused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains([]string{"22", "23", "54"}, class(pg))
}

func class(err *pgconn.PgError) string { return err.Code[:min(2, len(err.Code))] }

// isUnavailable reports whether an error is about the server or the connection, not the statement.
func isUnavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// Connection, resources, operator intervention; lock timeout; PgBouncer's own errors, which have no class;
		// read-only server.
		return slices.Contains([]string{"08", "53", "57"}, class(pg)) || slices.Contains([]string{"55P03", "XX000", "25006"}, pg.Code)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	lost := []string{"conn closed", "unexpected EOF", "closed pool"}
	return errors.Is(err, context.DeadlineExceeded) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		slices.ContainsFunc(lost, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// tries bounds the attempts at an idempotent operation.
const tries = 3

// retry runs an idempotent operation, and repeats it after a lost connection or a deadlock.
func (s *Store) retry(ctx context.Context, do func(ctx context.Context) error) error {
	var err error
	for try := range tries {
		bounded, cancel := context.WithTimeout(ctx, patience)
		err = do(bounded)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
		switch pg, ok := errors.AsType[*pgconn.PgError](err); {
		case ok && (pg.Code == "40P01" || pg.Code == "40001"):
		case isUnavailable(err) && !errors.Is(err, context.DeadlineExceeded):
			// After a restart of the database all connections are dead.
			s.pool.Reset()
		default:
			return fault(err)
		}
		if try < tries-1 {
			pause := time.NewTimer(time.Duration(20*(try+1)) * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		}
	}
	return fault(err)
}

func (s *Store) write(ctx context.Context, do func(sqlstore.Tx) error) error {
	return s.retry(ctx, func(ctx context.Context) error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := do(tx); err != nil {
			// The transaction may have lost its connection already.
			_ = tx.Rollback()
			return err
		}
		return tx.Commit()
	})
}

// Pool returns the connection pool, for a queue in the same database.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	return s.retry(ctx, func(ctx context.Context) error {
		var id int64
		if err := s.pool.QueryRow(ctx, "SELECT id FROM stepfall.store").Scan(&id); err != nil {
			return err
		}
		if id != s.id {
			return fmt.Errorf("%w: another database is in their place", store.ErrReplaced)
		}
		return nil
	})
}

// Close closes the connections.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		s.ended.Wait()
		err = s.db.Close()
		s.pool.Close()
	})
	return err
}

// OpenShared opens the database at a postgres:// URL for a router (router.Options.OpenStore), which can share it with
// other processes. Write errors go to logger, which can be nil.
func OpenShared(ctx context.Context, url string, logger hclog.Logger) (*store.Shared, error) {
	s, err := Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return store.Share(s, url, logger), nil
}

package queue

import (
	"context"
	_ "embed" // of the tables
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// schema is where River's tables and those of this package are.
const schema = "stepfall_queue"

//go:embed queue.sql
var tables string

// Queue is the jobs of one database. It is safe for concurrent use.
type Queue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // to submit
	t      timing
}

// timing is how long things may take; all but the polls by the database's clock.
type timing struct {
	beat   time.Duration // between a worker's signs of life, and a submitter's
	fence  time.Duration // without the database, after which a worker ends its jobs
	lost   time.Duration // without a sign of life, after which a worker's jobs are others'
	orphan time.Duration // the same of a submitter
	keep   time.Duration // how long what no run needs is kept
	poll   time.Duration // between looks at what came
	// firstRetry is the pause before a job that failed is tried again; it doubles.
	firstRetry time.Duration
}

func usual() timing {
	return timing{
		beat: 2 * time.Second, fence: 12 * time.Second, lost: 20 * time.Second, orphan: time.Minute, keep: 7 * 24 * time.Hour,
		poll: 200 * time.Millisecond, firstRetry: time.Second,
	}
}

// Open makes the queue's tables where there are none, which many processes may do at
// once, or brings them to this program's version. The pool stays the caller's.
func Open(ctx context.Context, pool *pgxpool.Pool) (*Queue, error) {
	if err := migrate(ctx, pool); err != nil {
		return nil, fmt.Errorf("opening the queue: %w", err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema, Logger: silent()})
	if err != nil {
		return nil, fmt.Errorf("opening the queue: %w", err)
	}
	return &Queue{pool: pool, client: client, t: usual()}, nil
}

// silent is the log of a client that works on nothing: its errors are returned.
func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	// The lock's transaction does nothing else: River's migrations want their own.
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7316055)"); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
			return err
		}
		m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: silent()})
		if err != nil {
			return err
		}
		if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("making River's tables: %w", err)
		}
		_, err = pool.Exec(ctx, tables, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Counts returns how many jobs there are that are not at their end, by state:
// available (they wait), running, and retryable or scheduled (they are tried again
// later). States without jobs are there, too.
func (q *Queue) Counts(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{"available": 0, "running": 0, "retryable": 0, "scheduled": 0}
	rows, err := q.pool.Query(ctx, `SELECT state::text, count(*) FROM stepfall_queue.river_job
		WHERE state IN ('available', 'running', 'retryable', 'scheduled') GROUP BY 1`)
	if err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, fmt.Errorf("counting jobs: %w", err)
		}
		counts[state] = n
	}
	return counts, rows.Err()
}

// Workers returns the names of the workers that are alive.
func (q *Queue) Workers(ctx context.Context) ([]string, error) {
	rows, err := q.pool.Query(ctx, "SELECT id FROM stepfall_queue.workers WHERE seen_at > now() - $1::interval ORDER BY id", q.t.lost)
	if err != nil {
		return nil, fmt.Errorf("looking for workers: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Prune deletes the runs that nobody has waited for in that time, with the results of
// their jobs, and what was sent for them.
func (q *Queue) Prune(ctx context.Context, keep time.Duration) (runs int64, err error) {
	tag, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.runs WHERE seen_at < now() - $1::interval", keep)
	if err == nil {
		err = q.sweep(ctx)
	}
	return tag.RowsAffected(), err
}

// sweep removes what no run has needed for long.
func (q *Queue) sweep(ctx context.Context) error {
	_, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.runs WHERE keep > '0' AND seen_at < now() - keep")
	faults := []error{err}
	for _, statement := range []string{
		"DELETE FROM stepfall_queue.parcels WHERE used_at < now() - $1::interval",
		// The parts of a parcel come before its name.
		"DELETE FROM stepfall_queue.parts p WHERE NOT EXISTS (SELECT 1 FROM stepfall_queue.parcels o WHERE o.name = p.name) AND p.at < now() - $1::interval",
	} {
		_, err := q.pool.Exec(ctx, statement, q.t.keep)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// ticket is the job as River keeps it. Its arguments are bytes, which a jsonb column
// takes whatever they hold.
type ticket struct {
	Run  string `json:"run" river:"unique"`
	Name string `json:"name" river:"unique"`
	Args []byte `json:"args"`
}

// Kind implements [river.JobArgs].
func (ticket) Kind() string { return "stepfall" }

// maxTries bounds how often a job is begun.
const maxTries = 8

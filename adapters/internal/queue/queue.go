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

// schema holds River's tables and those of this package.
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
	fence  time.Duration // without the database, after which a worker cancels its jobs
	lost   time.Duration // without a sign of life, after which a job is another worker's
	orphan time.Duration // the same of a submitter
	keep   time.Duration // how long what no run needs is kept
	poll   time.Duration // between a submitter's looks at its jobs
	// firstRetry is the pause before a failed job is tried again; it doubles.
	firstRetry time.Duration
}

func defaultTiming() timing {
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
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("opening the queue: %w", err)
	}
	return &Queue{pool: pool, client: client, t: defaultTiming()}, nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	// The lock's transaction does nothing else: River's migrations want their own.
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7316055)"); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
			return err
		}
		m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
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

// Counts returns the number of unfinished jobs by state: available (they wait),
// running, and retryable or scheduled (they are tried again later). States without jobs
// are there, too.
func (q *Queue) Counts(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{"available": 0, "running": 0, "retryable": 0, "scheduled": 0}
	rows, err := q.pool.Query(ctx, "SELECT state::text, count(*) FROM stepfall_queue.river_job WHERE finalized_at IS NULL GROUP BY 1")
	if err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	var state string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error { counts[state] = n; return nil })
	return counts, err
}

func (q *Queue) hasWorkers(ctx context.Context) (some bool, err error) {
	err = q.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM stepfall_queue.workers WHERE seen_at > now() - $1::interval)", q.t.lost).Scan(&some)
	return some, err
}

// Prune deletes the runs that nobody has waited for in that time, with the results of
// their jobs and the parcels that nobody uses.
func (q *Queue) Prune(ctx context.Context, keep time.Duration) (runs int64, err error) {
	tag, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.runs WHERE seen_at < now() - $1::interval", keep)
	if err == nil {
		err = q.sweep(ctx)
	}
	return tag.RowsAffected(), err
}

// sweep removes what no run needs any more.
func (q *Queue) sweep(ctx context.Context) error {
	var faults []error
	for _, statement := range []string{
		"DELETE FROM stepfall_queue.runs WHERE keep > '0' AND seen_at < now() - keep",
		"DELETE FROM stepfall_queue.river_job WHERE state <> 'running' AND NOT EXISTS (SELECT FROM stepfall_queue.runs r WHERE r.id = args ->> 'run')",
		"DELETE FROM stepfall_queue.workers WHERE seen_at < now() - interval '1 hour'",
		fmt.Sprintf("DELETE FROM stepfall_queue.parcels WHERE used_at < now() - interval '%d seconds'", int(q.t.keep.Seconds())),
		"DELETE FROM stepfall_queue.parts p WHERE NOT EXISTS (SELECT FROM stepfall_queue.parcels o WHERE o.name = p.name)",
	} {
		_, err := q.pool.Exec(ctx, statement)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

package queue

import (
	"context"
	_ "embed" // for tables
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

// Queue is the job queue in one database. It is safe for concurrent use.
type Queue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // for submitting
	t      timing
}

// timing holds intervals and timeouts. Except for the polls they are measured by the database's clock.
type timing struct {
	beat             time.Duration // interval of heartbeats of workers and submitters
	fence            time.Duration // time without the database after which a worker cancels its jobs
	workerTimeout    time.Duration // time without heartbeats after which a worker's jobs are rescued
	submitterTimeout time.Duration // time without heartbeats after which a submitter's jobs are cancelled
	keep             time.Duration // retention of unused rows and parcels
	poll             time.Duration // interval at which a submitter polls its jobs
	// firstRetry is the delay before the first retry of a failed job; it doubles.
	firstRetry time.Duration
}

func defaultTiming() timing {
	return timing{
		beat: 2 * time.Second, fence: 12 * time.Second, workerTimeout: 20 * time.Second, submitterTimeout: time.Minute, keep: 7 * 24 * time.Hour,
		poll: 200 * time.Millisecond, firstRetry: time.Second,
	}
}

// Open creates or migrates the queue's tables, which is safe with concurrent processes. The caller keeps ownership of
// pool.
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
	// The transaction holds only the lock: River's migrations need their own.
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
			return fmt.Errorf("creating River's tables: %w", err)
		}
		_, err = pool.Exec(ctx, tables, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Counts returns the number of unfinished jobs by state: available (waiting), running, and retryable or scheduled
// (retried later). States without jobs are included.
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

// Prune deletes the runs without a submitter for longer than keep, with the results of their jobs and unused parcels.
func (q *Queue) Prune(ctx context.Context, keep time.Duration) (runs int64, err error) {
	tag, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.runs WHERE seen_at < now() - $1::interval", keep)
	if err == nil {
		err = q.sweep(ctx)
	}
	return tag.RowsAffected(), err
}

// sweep removes rows that no run needs any more.
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

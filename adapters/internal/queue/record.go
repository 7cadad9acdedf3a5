package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What a record is.
const (
	kindNote    = 0 // for whoever goes on with the job, and for the submitter
	kindResult  = 1 // what came of the job, for good
	kindFailure = 2 // what came of it, until it is submitted again
)

// Record is what a job has written down.
type Record struct {
	// N is its number in the database; later records need not have higher ones.
	N int64
	// Job is the ticket's name.
	Job, Worker string
	Data        []byte
	kind        int
}

// writing bounds how long a record is tried to be written, also after its context has
// ended: what was paid for is not forgotten for a restart of the database.
const writing = 15 * time.Second

func (q *Queue) write(ctx context.Context, run, job, worker string, kind int, data []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	for {
		_, err := q.pool.Exec(ctx, "INSERT INTO stepfall_queue.records (run, job, kind, worker, data) VALUES ($1, $2, $3, $4, $5)", run, job, kind, worker, data)
		if err == nil {
			return nil
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code[:2] == "23" || !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("recording: %w", err)
		}
	}
}

func (q *Queue) records(ctx context.Context, where string, args ...any) ([]Record, error) {
	rows, err := q.pool.Query(ctx, "SELECT n, job, worker, data, kind FROM stepfall_queue.records WHERE "+where+" ORDER BY n", args...)
	if err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Record, err error) {
		err = row.Scan(&r.N, &r.Job, &r.Worker, &r.Data, &r.kind)
		return r, err
	})
}

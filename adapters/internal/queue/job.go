package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Kind is one kind of job that a worker handles.
type Kind struct {
	// Parallel bounds the running jobs of the kind; 0 leaves the kind to other workers.
	Parallel int
	// Poll is the interval at which an idle worker polls for jobs; 0 means 500 ms.
	Poll time.Duration
	// Do handles a job. An error means that this attempt failed, and the job is retried, perhaps by another worker.
	// ctx ends when the worker stops, when the job's run has ended, and when other workers may have taken the job.
	Do func(ctx context.Context, j *Job) (Outcome, error)
}

// Outcome is the result of a job.
type Outcome struct {
	// Output is returned to the submitter, as JSON.
	Output any
	// Again makes a later run with the same id repeat the job.
	Again bool
}

// Job is one attempt at a ticket.
type Job struct {
	Run, Name string
	// Worker is the name of the worker; Try is the number of the attempt, from 1.
	Worker string
	Try    int

	q    *Queue
	args []byte
}

// Decode unmarshals the ticket's arguments.
func (j *Job) Decode(into any) error {
	if err := json.Unmarshal(j.args, into); err != nil {
		return fmt.Errorf("the arguments of job %s: %w", j.Name, err)
	}
	return nil
}

// Record is data that a job has saved.
type Record struct {
	// N identifies the record in the database. Numbers are not in the order of time.
	N int64
	// Job is the name of the ticket.
	Job, Worker string
	Data        []byte
	at          time.Time
}

// Record saves data for later attempts and for the submitter, even when ctx has ended, so that paid work is not lost.
func (j *Job) Record(ctx context.Context, data []byte) error {
	return persist(ctx, func(ctx context.Context) error {
		_, err := j.q.pool.Exec(ctx, "INSERT INTO stepfall_queue.records (run, job, worker, data) VALUES ($1, $2, $3, $4)", j.Run, j.Name, j.Worker, data)
		return err
	})
}

// Records returns what all attempts at the job have saved.
func (j *Job) Records(ctx context.Context) ([]Record, error) {
	return j.q.records(ctx, "run = $1 AND job = $2", j.Run, j.Name)
}

func (q *Queue) records(ctx context.Context, where string, args ...any) ([]Record, error) {
	rows, err := q.pool.Query(ctx, "SELECT n, job, worker, data, at FROM stepfall_queue.records WHERE "+where+" ORDER BY n", args...)
	if err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Record, err error) {
		err = row.Scan(&r.N, &r.Job, &r.Worker, &r.Data, &r.at)
		return r, err
	})
}

// persist retries a write for up to 15 seconds, even after ctx has ended, so that a restart of the database loses
// nothing. It does not retry constraint violations.
func persist(ctx context.Context, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	for {
		err := write(ctx)
		if err == nil {
			return nil
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code[:2] == "23" || !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("recording: %w", err)
		}
	}
}

// pause waits for d, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

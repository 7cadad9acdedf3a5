package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stepfall/stepfall/sdk/redact"
)

// WorkerOptions configures a worker.
type WorkerOptions struct {
	// Name is the worker's name in results; the host name when empty. A suffix makes it unique.
	Name string
	// Kinds are the jobs that it handles, by name.
	Kinds map[string]Kind
	// Grace is how long jobs may continue after the context has ended.
	Grace time.Duration
	// Logger logs jobs; nil logs nothing.
	Logger hclog.Logger
	// Redact removes secrets from a job's error before it is logged, stored in the queue and returned to the
	// submitter. Nil removes what looks like a secret.
	Redact func(string) string
	// Ready, when not nil, is called with the worker's name when it is ready for jobs.
	Ready func(name string)
}

var (
	// errLost is the cancel cause of a job that another worker may have taken.
	errLost = errors.New("the queue could not be reached, and others may have taken the job")
	// ErrNotWaitedFor is the cancel cause of a job whose run has ended.
	ErrNotWaitedFor = errors.New("the submitter no longer waits for the job")
)

// worker runs River's jobs.
type worker struct {
	river.WorkerDefaults[jobArgs]
	q    *Queue
	o    *WorkerOptions
	name string
	// ahead is the lead of the database's clock over this machine's, in nanoseconds.
	ahead atomic.Int64

	mu   sync.Mutex
	jobs map[int64]*runningJob // by River's id
}

type runningJob struct{ cancel context.CancelCauseFunc }

// Work runs jobs until ctx ends, and then returns nil.
func (q *Queue) Work(ctx context.Context, o WorkerOptions) error {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	if o.Redact == nil {
		o.Redact = redact.New().Text
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname() // a default follows
		o.Name = cmp.Or(o.Name, "worker")
	}
	w := &worker{q: q, o: &o, name: fmt.Sprintf("%s-%d-%s", o.Name, os.Getpid(), rand.Text()[:6]), jobs: map[int64]*runningJob{}}
	queues := map[string]river.QueueConfig{}
	for name, k := range o.Kinds {
		if k.Parallel > 0 {
			queues[name] = river.QueueConfig{MaxWorkers: k.Parallel, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: cmp.Or(k.Poll, 500*time.Millisecond)}
		}
	}
	if len(queues) == 0 {
		return errors.New("a worker needs at least one kind of job")
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		ID: w.name, Schema: schema, Logger: slog.New(slog.DiscardHandler), Workers: workers, Queues: queues, PollOnly: true,
		JobTimeout: -1, MaxAttempts: maxAttempts, SoftStopTimeout: max(o.Grace, time.Millisecond),
		// Finished jobs are the results of runs, which [Queue.sweep] deletes.
		CompletedJobRetentionPeriod: -1, CancelledJobRetentionPeriod: -1, DiscardedJobRetentionPeriod: -1,
	})
	if err == nil {
		err = w.beat(ctx)
	}
	if err == nil {
		err = client.Start(context.WithoutCancel(ctx))
	}
	if err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	o.Logger.Info("working", "worker", w.name)
	if o.Ready != nil {
		o.Ready(w.name)
	}
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	var loop sync.WaitGroup
	loop.Go(func() { w.keepAlive(alive) })
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace+20*time.Second)
	defer cancel()
	err = client.Stop(ctx) // returns when the last job has
	end()
	loop.Wait()
	_, _ = q.pool.Exec(ctx, "DELETE FROM stepfall_queue.workers WHERE id = $1", w.name) // else the row expires
	return err
}

// keepAlive sends heartbeats until ctx ends. It cancels the jobs when the database has been unreachable for so long
// that other workers may take them.
func (w *worker) keepAlive(ctx context.Context) {
	last, swept := time.Now(), time.Time{}
	for pause(ctx, w.q.t.beat) {
		now := time.Now()
		err := w.beat(ctx)
		switch {
		case err != nil:
			w.o.Logger.Debug("the queue cannot be reached", "error", err)
			if time.Since(last) > w.q.t.fence {
				w.mu.Lock()
				for _, j := range w.jobs {
					j.cancel(errLost)
				}
				w.mu.Unlock()
			}
			continue
		case now.Sub(swept) > time.Hour:
			swept = now
			err = w.q.sweep(ctx)
		}
		last = now
		if err = errors.Join(err, w.q.rescue(ctx)); err != nil {
			w.o.Logger.Debug("maintaining the queue", "error", err)
		}
	}
}

// hasSubmitter is an SQL condition on a job: its run has not ended, and its submitter's last heartbeat is less than
// $1 ago.
const hasSubmitter = "EXISTS (SELECT FROM stepfall_queue.runs r WHERE r.id = args ->> 'run' AND NOT r.ended AND r.seen_at > now() - $1::interval)"

// beat sends a heartbeat for the worker and each of its jobs, and cancels those that it has lost or whose run has
// ended.
func (w *worker) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.q.t.fence/2)
	defer cancel()
	w.mu.Lock()
	jobs := maps.Clone(w.jobs)
	w.mu.Unlock()
	sent := time.Now()
	var clock time.Time
	err := w.q.pool.QueryRow(ctx, "INSERT INTO stepfall_queue.workers (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET seen_at = now() RETURNING now()", w.name).Scan(&clock)
	if err != nil {
		return err
	}
	w.ahead.Store(int64(clock.Sub(sent)))
	if len(jobs) == 0 {
		return nil
	}
	rows, err := w.q.pool.Query(ctx, `UPDATE stepfall_queue.river_job SET attempted_at = now()
		WHERE id = ANY ($2) AND state = 'running' AND attempted_by[array_upper(attempted_by, 1)] = $3 RETURNING id, `+hasSubmitter,
		w.q.t.submitterTimeout, slices.Collect(maps.Keys(jobs)), w.name)
	if err != nil {
		return err
	}
	var id int64
	var isWaitedFor bool
	_, err = pgx.ForEachRow(rows, []any{&id, &isWaitedFor}, func() error {
		if !isWaitedFor {
			jobs[id].cancel(ErrNotWaitedFor)
		}
		delete(jobs, id)
		return nil
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		j.cancel(errLost)
	}
	return nil
}

// rescue makes the jobs of lost workers available again, and those that are due for a retry by the database's clock,
// where River uses that of a worker.
func (q *Queue) rescue(ctx context.Context) error {
	_, err := q.pool.Exec(ctx, `UPDATE stepfall_queue.river_job SET
		state = (CASE WHEN attempt >= max_attempts THEN 'discarded' ELSE 'available' END)::stepfall_queue.river_job_state,
		finalized_at = CASE WHEN attempt >= max_attempts THEN now() END,
		scheduled_at = now(),
		errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', attempt, 'error', 'worker ' || attempted_by[array_upper(attempted_by, 1)] || ' was lost', 'trace', ''))
		WHERE state = 'running' AND attempted_at < now() - $1::interval`, q.t.workerTimeout)
	if err == nil {
		_, err = q.pool.Exec(ctx, "UPDATE stepfall_queue.river_job SET state = 'available' WHERE state IN ('retryable', 'scheduled') AND scheduled_at <= now()")
	}
	return err
}

// NextRetry returns a time by the database's clock.
func (w *worker) NextRetry(job *river.Job[jobArgs]) time.Time {
	return time.Now().Add(time.Duration(w.ahead.Load()) + w.q.t.firstRetry<<min(max(job.Attempt-1, 0), 4))
}

func (w *worker) Work(ctx context.Context, job *river.Job[jobArgs]) error {
	if job.Output() != nil {
		return nil // an earlier attempt finished the job and was lost afterwards
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own := &runningJob{cancel}
	w.mu.Lock()
	w.jobs[job.ID] = own
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.jobs[job.ID] == own {
			delete(w.jobs, job.ID)
		}
	}()
	log := w.o.Logger.With("job", job.Args.Name, "run", job.Args.Run, "try", job.Attempt)
	began := time.Now()
	err := w.do(ctx, job, log)
	if err == nil {
		log.Info("done", "took", time.Since(began).Round(time.Millisecond))
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if errors.Is(err, ErrNotWaitedFor) {
		log.Info("cancelled: the submitter no longer waits for it")
		return river.JobCancel(ErrNotWaitedFor)
	}
	err = errors.New(w.o.Redact(err.Error()))
	log.Warn("job failed, to be retried", "error", err)
	return err
}

func (w *worker) do(ctx context.Context, job *river.Job[jobArgs], log hclog.Logger) error {
	var isWaitedFor bool
	err := w.q.pool.QueryRow(ctx, "SELECT "+hasSubmitter+" FROM stepfall_queue.river_job WHERE id = $2", w.q.t.submitterTimeout, job.ID).Scan(&isWaitedFor)
	if err != nil {
		return err
	}
	if !isWaitedFor {
		return ErrNotWaitedFor
	}
	j := &Job{Run: job.Args.Run, Name: job.Args.Name, Worker: w.name, Try: job.Attempt, q: w.q, args: job.Args.Args}
	out, err := func() (out Outcome, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p) // River would store it unredacted
				log.Error("a job panicked", "stack", w.o.Redact(string(debug.Stack())))
			}
		}()
		return w.o.Kinds[job.Queue].Do(ctx, j)
	}()
	if err != nil {
		return err
	}
	data, err := json.Marshal(out.Output)
	if err != nil {
		return fmt.Errorf("the result of job %s: %w", j.Name, err)
	}
	if err := river.RecordOutput(ctx, jobOutput{Worker: w.name, Data: data, Again: out.Again}); err != nil {
		return err
	}
	return persist(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, w.q.pool, func(tx pgx.Tx) error {
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	})
}

package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

// Kind is one kind of work.
type Kind struct {
	// Parallel is how many jobs of the kind are done at once; 0 leaves the kind to
	// other workers.
	Parallel int
	// Ahead is how many more are fetched, and wait here for one to end: for work that
	// takes no longer than a look at the database or two.
	Ahead int
	// Poll is how often jobs are asked for where there are none; 0 means 500 ms.
	Poll time.Duration
	// Do does a job. An error means that it could not be done here and now: it is
	// tried again, perhaps elsewhere. Its context ends when the worker stops, when
	// nobody waits for the job any more, and when the worker may have been given up.
	Do func(ctx context.Context, j *Job) (Outcome, error)
}

// Outcome is what came of a job that was done.
type Outcome struct {
	// Output is returned to the submitter, as JSON.
	Output any
	// Again says that a run of the same id has it done once more.
	Again bool
}

// Job is a job at work.
type Job struct {
	Run, Name string
	// Worker is who does it, Try how often it was begun, from 1.
	Worker string
	Try    int

	q    *Queue
	args []byte
}

// Decode reads the ticket's arguments.
func (j *Job) Decode(into any) error {
	if err := json.Unmarshal(j.args, into); err != nil {
		return fmt.Errorf("the arguments of job %s: %w", j.Name, err)
	}
	return nil
}

// Record writes something down for whoever takes the job over, and for the submitter.
// It does so also when ctx has ended: what was paid for is not forgotten.
func (j *Job) Record(ctx context.Context, data []byte) error {
	return j.q.write(ctx, j.Run, j.Name, j.Worker, kindNote, data)
}

// Records returns what was written down about the job.
func (j *Job) Records(ctx context.Context) ([]Record, error) {
	return j.q.records(ctx, "run = $1 AND job = $2 AND kind = $3", j.Run, j.Name, kindNote)
}

// WorkerOptions configure a worker.
type WorkerOptions struct {
	// Name is what results call the worker; the machine's name when empty. Something
	// that tells it from others of the name is added.
	Name string
	// Kinds are what it does, by name.
	Kinds map[string]Kind
	// Grace is how long jobs may go on after the context has ended.
	Grace time.Duration
	// Logger hears about jobs; nil is silence.
	Logger hclog.Logger
	// Ready, when not nil, is called with the worker's name when it begins to work.
	Ready func(name string)
}

// Work does jobs until ctx ends, and then returns nil. A worker that could not reach
// the database for so long that others may have taken its jobs begins anew, under
// another name.
func (q *Queue) Work(ctx context.Context, o WorkerOptions) error {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Name == "" {
		o.Name, _ = os.Hostname() // its absence is a name, too
		o.Name = cmp.Or(o.Name, "worker")
	}
	for {
		err := q.work(ctx, &o)
		if !errors.Is(err, errLost) {
			return err
		}
		o.Logger.Warn("the queue could not be reached; beginning anew")
	}
}

// errLost is the cause of the end of the jobs of a worker that others may hold for lost.
var errLost = errors.New("the queue could not be reached, and others may have taken the job")

// shift is a worker from its beginning until it ends or is lost.
type shift struct {
	q    *Queue
	o    *WorkerOptions
	name string

	mu sync.Mutex
	// lost is why no job is done any more.
	lost error
	// jobs are those at work, and those that ended a moment ago, by River's number.
	jobs map[int64]*held
	// ahead is how far the database's clock is ahead of this machine's.
	ahead time.Duration
	// slots are as many as jobs of a kind may be at work.
	slots map[string]chan struct{}
	// waited is when a run was last known to have a submitter.
	waited map[string]time.Time
}

// held is a job of this worker.
type held struct {
	run    string
	cancel context.CancelCauseFunc
	ended  time.Time
}

func (q *Queue) work(ctx context.Context, o *WorkerOptions) error {
	tag := make([]byte, 4)
	_, _ = rand.Read(tag) // it does not fail
	s := &shift{q: q, o: o, name: fmt.Sprintf("%s-%d-%s", o.Name, os.Getpid(), hex.EncodeToString(tag)), jobs: map[int64]*held{}, waited: map[string]time.Time{}, slots: map[string]chan struct{}{}}
	if err := s.enrol(ctx); err != nil {
		return err
	}
	inside, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	workers := river.NewWorkers()
	river.AddWorker(workers, &handler{s: s})
	queues := map[string]river.QueueConfig{}
	for name, k := range o.Kinds {
		if k.Parallel > 0 {
			s.slots[name] = make(chan struct{}, k.Parallel)
			queues[name] = river.QueueConfig{MaxWorkers: k.Parallel + k.Ahead, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: cmp.Or(k.Poll, 500*time.Millisecond)}
		}
	}
	if len(queues) == 0 {
		return errors.New("a worker that does nothing")
	}
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		ID: s.name, Schema: schema, Logger: silent(), Workers: workers, Queues: queues, PollOnly: true,
		// Lost workers are found by their signs of life, not by the age of their jobs.
		JobTimeout: -1, RescueStuckJobsAfter: 10 * 365 * 24 * time.Hour,
		MaxAttempts: maxTries, RetryPolicy: (*retries)(s), SoftStopTimeout: max(o.Grace, time.Millisecond),
	})
	if err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	if err := client.Start(inside); err != nil {
		return fmt.Errorf("starting a worker: %w", err)
	}
	o.Logger.Info("working", "worker", s.name)
	if o.Ready != nil {
		o.Ready(s.name)
	}
	lost := s.live(ctx)
	if lost != nil {
		s.drop(lost) // at once, whatever the grace
	}
	// It returns when the last job has.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace+20*time.Second)
	defer cancel()
	fault := client.Stop(ctx)
	s.leave(ctx)
	return cmp.Or(lost, fault)
}

// drop ends all jobs.
func (s *shift) drop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = why
	for _, h := range s.jobs {
		h.cancel(why)
	}
}

// enrol makes the worker known.
func (s *shift) enrol(ctx context.Context) error {
	for {
		_, err := s.q.pool.Exec(ctx, "INSERT INTO stepfall_queue.workers (id) VALUES ($1)", s.name)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.o.Logger.Warn("the queue cannot be reached", "error", err)
		if !pause(ctx, s.q.t.beat) {
			return ctx.Err()
		}
	}
}

// leave takes the worker's name off, so that what it may have left is taken up at once.
func (s *shift) leave(ctx context.Context) {
	_, _ = s.q.pool.Exec(ctx, "DELETE FROM stepfall_queue.workers WHERE id = $1", s.name) // else it is found lost
}

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

// live gives signs of life until ctx ends, or until others may hold the worker for
// lost, which is an error.
func (s *shift) live(ctx context.Context) error {
	alive, since, swept := time.Now(), time.Now(), time.Time{}
	for pause(ctx, s.q.t.beat) {
		began := time.Now()
		known, err := s.beat(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !known:
			return errLost
		case err == nil:
			alive = began
		default:
			s.o.Logger.Debug("giving a sign of life", "error", err)
			since = now
			if now.Sub(alive) > s.q.t.fence {
				return errLost
			}
			continue
		}
		if err := s.q.due(ctx); err != nil {
			s.o.Logger.Debug("looking for jobs that are due", "error", err)
		}
		// Who was cut off cannot tell who else was.
		if now.Sub(since) > s.q.t.lost {
			if err := s.q.reap(ctx); err != nil {
				s.o.Logger.Debug("looking for lost workers", "error", err)
			}
		}
		if now.Sub(swept) > time.Hour {
			swept = now
			if err := s.q.sweep(ctx); err != nil {
				s.o.Logger.Debug("sweeping", "error", err)
			}
		}
	}
	return nil
}

// beat gives a sign of life, ends the jobs that nobody waits for, and gives back those
// that are booked on this worker and that it does not have.
func (s *shift) beat(ctx context.Context) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.q.t.fence/2)
	defer cancel()
	sent := time.Now()
	var clock time.Time
	err = s.q.pool.QueryRow(ctx, "UPDATE stepfall_queue.workers SET seen_at = now() WHERE id = $1 RETURNING now()", s.name).Scan(&clock)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	s.ahead = clock.Sub(sent)
	var mine []int64
	var runs []string
	for id, h := range s.jobs {
		if !h.ended.IsZero() && time.Since(h.ended) > s.q.t.lost {
			delete(s.jobs, id)
			continue
		}
		mine = append(mine, id)
		if h.ended.IsZero() {
			runs = append(runs, h.run)
		}
	}
	s.mu.Unlock()
	if len(runs) > 0 {
		gone, err := s.q.orphaned(ctx, runs)
		if err != nil {
			return true, err
		}
		s.mu.Lock()
		for _, h := range s.jobs {
			if gone[h.run] && h.ended.IsZero() {
				h.cancel(ErrNotWaitedFor)
			}
		}
		s.mu.Unlock()
	}
	return true, s.q.giveBack(ctx, "attempted_by[array_upper(attempted_by, 1)] = $1 AND id <> ALL (coalesce($2::bigint[], '{}')) AND attempted_at < now() - $3::interval",
		s.name, mine, s.q.t.lost)
}

// reap forgets the workers that are lost, and gives their jobs to others.
func (q *Queue) reap(ctx context.Context) error {
	if _, err := q.pool.Exec(ctx, "DELETE FROM stepfall_queue.workers WHERE seen_at < now() - $1::interval", q.t.lost); err != nil {
		return err
	}
	return q.giveBack(ctx, "NOT EXISTS (SELECT 1 FROM stepfall_queue.workers w WHERE w.id = attempted_by[array_upper(attempted_by, 1)]) AND attempted_at < now() - $1::interval",
		q.t.beat)
}

// due has the jobs tried again whose pause is over. River does so by the clock of one of
// the workers, which may be wrong.
func (q *Queue) due(ctx context.Context) error {
	_, err := q.pool.Exec(ctx, "UPDATE stepfall_queue.river_job SET state = 'available' WHERE state IN ('retryable', 'scheduled') AND scheduled_at <= now()")
	return err
}

// giveBack has running jobs tried again, as River does with those that it holds for
// stuck.
func (q *Queue) giveBack(ctx context.Context, where string, args ...any) error {
	_, err := q.pool.Exec(ctx, fmt.Sprintf(`UPDATE stepfall_queue.river_job SET
		state = (CASE WHEN attempt >= max_attempts THEN 'discarded' ELSE 'available' END)::stepfall_queue.river_job_state,
		finalized_at = CASE WHEN attempt >= max_attempts THEN now() END,
		scheduled_at = now(),
		errors = array_append(errors, jsonb_build_object('at', now(), 'attempt', attempt, 'error', 'worker ' || attempted_by[array_upper(attempted_by, 1)] || ' was lost', 'trace', ''))
		WHERE state = 'running' AND %s`, where), args...)
	return err
}

// retries says when a job that failed is tried again. It implements
// [river.ClientRetryPolicy].
type retries shift

// NextRetry returns a time of the database's clock.
func (s *retries) NextRetry(job *rivertype.JobRow) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.q.t.firstRetry << min(max(job.Attempt-1, 0), 4)
	return time.Now().Add(s.ahead + wait)
}

// handler does River's jobs.
type handler struct {
	river.WorkerDefaults[ticket]
	s *shift
}

// Work does one job.
func (h *handler) Work(ctx context.Context, job *river.Job[ticket]) error {
	s := h.s
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own := &held{run: job.Args.Run, cancel: cancel}
	s.mu.Lock()
	s.jobs[job.ID] = own
	if s.lost != nil {
		cancel(s.lost)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		own.ended = time.Now()
		s.mu.Unlock()
	}()
	log := s.o.Logger.With("job", job.Args.Name, "run", job.Args.Run, "try", job.Attempt)
	err := s.do(ctx, job, log)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = errors.Join(cause, err)
	}
	if errors.Is(err, ErrNotWaitedFor) {
		log.Info("ended: nobody waits for it")
		return river.JobCancel(err)
	}
	log.Warn("not done, to be tried again", "error", err)
	return err
}

// wanted returns ErrNotWaitedFor for a run that nobody waits for. What is known from
// less than a sign of life ago is taken for true.
func (s *shift) wanted(ctx context.Context, run string) error {
	now := time.Now()
	s.mu.Lock()
	known := now.Sub(s.waited[run]) < s.q.t.beat
	if len(s.waited) > 1000 {
		clear(s.waited)
	}
	s.mu.Unlock()
	if known {
		return nil
	}
	gone, err := s.q.orphaned(ctx, []string{run})
	if err != nil {
		return err
	}
	if gone[run] {
		return ErrNotWaitedFor
	}
	s.mu.Lock()
	s.waited[run] = now
	s.mu.Unlock()
	return nil
}

func (s *shift) do(ctx context.Context, job *river.Job[ticket], log hclog.Logger) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.wanted(ctx, job.Args.Run); err != nil {
		return err
	}
	j := &Job{Run: job.Args.Run, Name: job.Args.Name, Worker: s.name, Try: job.Attempt, q: s.q, args: job.Args.Args}
	if j.Try > 1 {
		// Who had it before may have been lost after its last word.
		done, err := s.q.records(ctx, "run = $1 AND job = $2 AND kind = $3", j.Run, j.Name, kindResult)
		if err != nil || len(done) > 0 {
			return err
		}
	}
	slot := s.slots[job.Queue]
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	out, err := func() (Outcome, error) {
		defer func() { <-slot }() // also when it panics
		return s.o.Kinds[job.Queue].Do(ctx, j)
	}()
	if err != nil {
		return err
	}
	data, err := json.Marshal(out.Output)
	if err != nil {
		return fmt.Errorf("the result of job %s: %w", j.Name, err)
	}
	kind := kindResult
	if out.Again {
		kind = kindFailure
	}
	if err := s.q.write(ctx, j.Run, j.Name, j.Worker, kind, data); err != nil {
		return err
	}
	log.Info("done", "took", time.Since(began).Round(time.Millisecond))
	return nil
}

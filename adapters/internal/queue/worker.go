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
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/stepfall/stepfall/sdk/redact"
)

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
	// Redact takes secrets out of what a job's error says, before it is logged, kept in
	// the queue and told to the submitter. Nil takes out what looks like one.
	Redact func(string) string
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
	if o.Redact == nil {
		o.Redact = redact.New().Text
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

// workerSession is a worker from its beginning until it ends or is lost.
type workerSession struct {
	q    *Queue
	o    *WorkerOptions
	name string

	mu sync.Mutex
	// lost is why no job is done any more.
	lost error
	// jobs are those at work, and those that ended a moment ago, by River's number.
	jobs map[int64]*runningJob
	// ahead is how far the database's clock is ahead of this machine's.
	ahead time.Duration
	// slots are as many as jobs of a kind may be at work.
	slots map[string]chan struct{}
	// waited is when a run was last known to have a submitter.
	waited map[string]time.Time
}

// runningJob is a job of this worker.
type runningJob struct {
	run    string
	cancel context.CancelCauseFunc
	ended  time.Time
}

func (q *Queue) work(ctx context.Context, o *WorkerOptions) error {
	tag := make([]byte, 4)
	_, _ = rand.Read(tag) // it does not fail
	s := &workerSession{q: q, o: o, name: fmt.Sprintf("%s-%d-%s", o.Name, os.Getpid(), hex.EncodeToString(tag)), jobs: map[int64]*runningJob{}, waited: map[string]time.Time{}, slots: map[string]chan struct{}{}}
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
func (s *workerSession) drop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = why
	for _, h := range s.jobs {
		h.cancel(why)
	}
}

// retries says when a job that failed is tried again. It implements
// [river.ClientRetryPolicy].
type retries workerSession

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
	s *workerSession
}

// Work does one job.
func (h *handler) Work(ctx context.Context, job *river.Job[ticket]) error {
	s := h.s
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own := &runningJob{run: job.Args.Run, cancel: cancel}
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
	err = &rewordedError{err, s.o.Redact(err.Error())}
	log.Warn("not done, to be tried again", "error", err)
	return err
}

// rewordedError is an error in other words.
type rewordedError struct {
	error
	words string
}

func (e *rewordedError) Error() string { return e.words }

func (e *rewordedError) Unwrap() error { return e.error }

// wanted returns ErrNotWaitedFor for a run that nobody waits for. What is known from
// less than a sign of life ago is taken for true.
func (s *workerSession) wanted(ctx context.Context, run string) error {
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

func (s *workerSession) do(ctx context.Context, job *river.Job[ticket], log hclog.Logger) error {
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
	out, err := func() (out Outcome, err error) {
		defer func() {
			<-slot
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p) // River would keep it as it is
				log.Error("a job panicked", "stack", s.o.Redact(string(debug.Stack())))
			}
		}()
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

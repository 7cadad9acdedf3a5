package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Ticket is a job to be done.
type Ticket struct {
	// Kind is who does it: one of a worker's kinds.
	Kind string
	// Name tells the job from the others of its run.
	Name string
	// Args are what the worker is told, as JSON.
	Args any
}

// Done is what came of a job.
type Done struct {
	// Worker is who did it.
	Worker string
	// Output is what the worker returned, as JSON.
	Output json.RawMessage
	// Recorded says that it was done when the run began: by an earlier submitter of
	// the same run.
	Recorded bool
}

// Decode reads the output.
func (d *Done) Decode(into any) error {
	if err := json.Unmarshal(d.Output, into); err != nil {
		return fmt.Errorf("what worker %s returned: %w", d.Worker, err)
	}
	return nil
}

// FailedError says that a job was given up.
type FailedError struct {
	Name string
	// Tries is how often it was begun, Last what the last one met.
	Tries int
	Last  string
}

// Error names the job.
func (e *FailedError) Error() string {
	return fmt.Sprintf("job %s was given up after %d tries: %s", e.Name, e.Tries, e.Last)
}

// RunOptions configure a run; the zero value is sensible.
type RunOptions struct {
	// Heard, when not nil, is told of each record of the run's jobs that is not in
	// Known, one at a time, before Do returns what the record came before.
	Heard func(Record)
	// Known are the numbers of records that were heard of in earlier submissions.
	Known map[int64]bool
	// Keep is how long the run and its results are kept after it was last waited for; 0
	// means seven days, less than 0 for ever.
	Keep time.Duration
	// Warn, when not nil, is told what a person should know who waits: no worker is
	// there, or the database is away.
	Warn func(string)
}

// Run is one submitter's jobs. It is safe for concurrent use.
type Run struct {
	q    *Queue
	id   string
	o    RunOptions
	stop context.CancelFunc
	over chan struct{}

	mu      sync.Mutex
	results map[string]*Done // of earlier submissions
	waiting map[string]*waiter
	seen    map[int64]bool // numbers of records above floor that were heard of
	floor   int64
	last    int64 // the highest number that was heard of
}

type waiter struct {
	job int64 // River's
	t   Ticket
	// after is the number of a record before the job was submitted.
	after int64
	done  chan struct{}
	out   *Done
	err   error
	// again counts how often the job was submitted anew.
	again int
}

// Begin begins a run, or goes on with one of that id. The caller closes it.
func (q *Queue) Begin(ctx context.Context, id string, o RunOptions) (*Run, error) {
	_, err := q.pool.Exec(ctx, `INSERT INTO stepfall_queue.runs (id, keep) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET seen_at = now(), ended = false, keep = excluded.keep`, id, max(0, cmp.Or(o.Keep, q.t.keep)))
	if err != nil {
		return nil, fmt.Errorf("beginning run %s: %w", id, err)
	}
	r := &Run{q: q, id: id, o: o, over: make(chan struct{}), results: map[string]*Done{}, waiting: map[string]*waiter{}, seen: map[int64]bool{}}
	before, err := q.records(ctx, "run = $1", id)
	if err != nil {
		return nil, err
	}
	for i := range before {
		r.hear(&before[i], true)
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go r.follow(following)
	return r, nil
}

// ID returns the run's name.
func (r *Run) ID() string { return r.id }

// Do has a job done and returns what came of it. A job of the same name that an
// earlier submitter of the run has seen to its end is not done again. When ctx ends
// the job goes on until Close.
func (r *Run) Do(ctx context.Context, t Ticket) (*Done, error) {
	r.mu.Lock()
	if done := r.results[t.Name]; done != nil {
		r.mu.Unlock()
		return done, nil
	}
	if r.waiting[t.Name] != nil {
		r.mu.Unlock()
		return nil, fmt.Errorf("job %s is submitted already", t.Name)
	}
	w := &waiter{t: t, after: r.last, done: make(chan struct{})}
	r.waiting[t.Name] = w
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, t.Name)
		r.mu.Unlock()
	}()
	if err := r.submit(ctx, w); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.done:
		return w.out, w.err
	}
}

// submit gives the job to River, unless it has it.
func (r *Run) submit(ctx context.Context, w *waiter) error {
	args, err := json.Marshal(w.t.Args)
	if err != nil {
		return fmt.Errorf("job %s: %w", w.t.Name, err)
	}
	result, err := r.q.client.Insert(ctx, ticket{Run: r.id, Name: w.t.Name, Args: args}, &river.InsertOpts{
		Queue: w.t.Kind, MaxAttempts: maxTries,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning, rivertype.JobStateScheduled,
		}},
	})
	if err != nil {
		return fmt.Errorf("submitting job %s: %w", w.t.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.job = result.Job.ID
	return nil
}

// Close ends the run: jobs that are not done are not begun any more, and those at work
// end. What they have finished is kept for a run of the same id.
func (r *Run) Close(ctx context.Context) error {
	r.stop()
	<-r.over
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := r.q.pool.Exec(ctx, "UPDATE stepfall_queue.runs SET ended = true WHERE id = $1", r.id); err != nil {
		return fmt.Errorf("ending run %s: %w", r.id, err)
	}
	return nil
}

// follow hears what comes until ctx ends.
func (r *Run) follow(ctx context.Context) {
	defer close(r.over)
	poll := r.q.t.poll
	wait := poll
	tick := time.NewTimer(wait)
	defer tick.Stop()
	beaten, looked, away := time.Time{}, time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		some, err := r.listen(ctx)
		// Where results come thick and fast, whoever waits for them would otherwise keep
		// the workers waiting for the next jobs.
		if wait = min(2*wait, poll); some {
			wait = max(wait/4, poll/8)
		}
		tick.Reset(wait)
		if now := time.Now(); err == nil && now.Sub(beaten) >= r.q.t.beat {
			if err = r.beat(ctx); err == nil {
				beaten = now
			}
		}
		if now := time.Now(); err == nil && now.Sub(looked) >= 2*r.q.t.beat {
			looked = now
			err = r.look(ctx)
		}
		if err != nil && ctx.Err() == nil && !away {
			r.warn(fmt.Sprintf("the queue cannot be reached, waiting for it: %v", err))
		}
		away = err != nil
	}
}

func (r *Run) warn(text string) {
	if r.o.Warn != nil {
		r.o.Warn(text)
	}
}

// listen reads the records that have come and reports whether there were some.
func (r *Run) listen(ctx context.Context) (some bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r.mu.Lock()
	idle, floor := len(r.waiting) == 0, r.floor
	seen := make([]int64, 0, len(r.seen))
	for n := range r.seen {
		seen = append(seen, n)
	}
	r.mu.Unlock()
	if idle {
		return false, nil
	}
	// A record may be seen after one with a higher number.
	list, err := r.q.records(ctx, "run = $1 AND n > $2 AND n <> ALL ($3::bigint[])", r.id, floor, seen)
	if err != nil {
		return false, err
	}
	for i := range list {
		r.hear(&list[i], false)
	}
	if some = len(list) > 0; len(seen) < 256 {
		return some, nil
	}
	// What was written a while ago was there to be seen, but for what [Run.look] finds.
	var old *int64
	if err := r.q.pool.QueryRow(ctx, "SELECT max(n) FROM stepfall_queue.records WHERE run = $1 AND at < now() - interval '10 seconds'", r.id).Scan(&old); err != nil || old == nil {
		return some, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor = *old
	for n := range r.seen {
		if n <= *old {
			delete(r.seen, n)
		}
	}
	return some, nil
}

// hear takes a record into account; earlier says that it is of an earlier submission.
func (r *Run) hear(rec *Record, earlier bool) {
	r.mu.Lock()
	r.seen[rec.N] = true
	r.last = max(r.last, rec.N)
	w := r.waiting[rec.Job]
	r.mu.Unlock()
	if rec.kind == kindNote && r.o.Heard != nil && !r.o.Known[rec.N] {
		r.o.Heard(*rec)
	}
	if rec.kind == kindNote || rec.kind == kindFailure && earlier {
		return
	}
	done := &Done{Worker: rec.Worker, Output: rec.Data, Recorded: earlier}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w != nil:
		w.end(done, nil)
	case rec.kind == kindResult && r.results[rec.Job] == nil:
		r.results[rec.Job] = done
	}
}

// end has the waiter's Do return. The run is locked.
func (w *waiter) end(out *Done, err error) {
	select {
	case <-w.done:
	default:
		w.out, w.err = out, err
		close(w.done)
	}
}

// beat says that the submitter is there, and looks for workers.
func (r *Run) beat(ctx context.Context) error {
	if _, err := r.q.pool.Exec(ctx, "UPDATE stepfall_queue.runs SET seen_at = now() WHERE id = $1", r.id); err != nil {
		return err
	}
	r.mu.Lock()
	idle := len(r.waiting) == 0
	r.mu.Unlock()
	if idle {
		return nil
	}
	workers, err := r.q.Workers(ctx)
	if err == nil && len(workers) == 0 {
		r.warn("no worker is there; start one with 'stepfall worker'")
	}
	return err
}

// look finds the jobs that have come to an end without a result.
func (r *Run) look(ctx context.Context) error {
	r.mu.Lock()
	byJob := map[int64]*waiter{}
	ids := make([]int64, 0, len(r.waiting))
	for _, w := range r.waiting {
		if w.job != 0 {
			byJob[w.job] = w
			ids = append(ids, w.job)
		}
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.q.pool.Query(ctx, `SELECT i, coalesce(state::text, 'gone'), coalesce(attempt, 0), coalesce(errors[array_upper(errors, 1)] ->> 'error', '')
		FROM unnest($1::bigint[]) i LEFT JOIN stepfall_queue.river_job ON id = i
		WHERE state IS NULL OR state IN ('completed', 'cancelled', 'discarded')`, ids)
	if err != nil {
		return err
	}
	type end struct {
		id    int64
		state string
		tries int
		last  string
	}
	ends, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e end, err error) {
		err = row.Scan(&e.id, &e.state, &e.tries, &e.last)
		return e, err
	})
	if err != nil {
		return err
	}
	for _, e := range ends {
		w := byJob[e.id]
		// Its result may have come since.
		list, err := r.q.records(ctx, "run = $1 AND job = $2 AND kind > 0 AND n > $3", r.id, w.t.Name, w.after)
		if err != nil {
			return err
		}
		switch {
		case len(list) > 0:
			r.hear(&list[len(list)-1], false)
		case e.state == "discarded" || w.again >= 3:
			r.mu.Lock()
			w.end(nil, &FailedError{Name: w.t.Name, Tries: e.tries, Last: e.last})
			r.mu.Unlock()
		default:
			// It was cancelled while this submitter could not be heard.
			w.again++
			if err := r.submit(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphaned returns the runs among ids whose jobs nobody waits for.
func (q *Queue) orphaned(ctx context.Context, ids []string) (map[string]bool, error) {
	rows, err := q.pool.Query(ctx, `SELECT i FROM unnest($1::text[]) i LEFT JOIN stepfall_queue.runs ON id = i
		WHERE id IS NULL OR ended OR seen_at < now() - $2::interval`, ids, q.t.orphan)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, id := range list {
		gone[id] = true
	}
	return gone, nil
}

// ErrNotWaitedFor is the cause of the end of a job whose run has ended.
var ErrNotWaitedFor = errors.New("nobody waits for the job any more")

package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// Ticket is a job to be submitted.
type Ticket struct {
	// Kind is one of a worker's kinds.
	Kind string
	// Name identifies the job within its run.
	Name string
	// Args are the arguments, encoded as JSON.
	Args any
	// Transient deletes the job when its result has been delivered, or when nobody waits for it before it starts.
	Transient bool
}

// jobArgs is a ticket in River's table. The arguments are bytes, since jsonb rejects some valid JSON; the same holds
// for the output.
type jobArgs struct {
	Run  string `json:"run" river:"unique"`
	Name string `json:"name" river:"unique"`
	Args []byte `json:"args"`
}

func (jobArgs) Kind() string { return "stepfall" }

// jobOutput is a result in River's table.
type jobOutput struct {
	Worker string `json:"worker"`
	Data   []byte `json:"data"`
	Again  bool   `json:"again,omitempty"`
}

// maxAttempts bounds the attempts at a job.
const maxAttempts = 8

// Done is the result of a job.
type Done struct {
	// Worker is the name of the worker that ran it.
	Worker string
	// Output is what the worker returned, as JSON.
	Output json.RawMessage
	// Recorded reports that the result is from an earlier submission of the run.
	Recorded bool
}

// Decode unmarshals the output.
func (d *Done) Decode(into any) error {
	if err := json.Unmarshal(d.Output, into); err != nil {
		return fmt.Errorf("what worker %s returned: %w", d.Worker, err)
	}
	return nil
}

// FailedError reports that all attempts at a job failed.
type FailedError struct {
	Name string
	// Tries is the number of attempts, Last the error of the last one.
	Tries int
	Last  string
}

// Error names the job.
func (e *FailedError) Error() string {
	return fmt.Sprintf("job %s failed after %d tries: %s", e.Name, e.Tries, e.Last)
}

// RunOptions configures a run. The zero value is usable.
type RunOptions struct {
	// OnRecord, when not nil, is called with each record of the run's jobs that is not in Known, one call at a time,
	// and before Do returns the result of the job.
	OnRecord func(Record)
	// Known holds the numbers of records that earlier submissions have received.
	Known map[int64]bool
	// Keep is the retention of the run and its results after the last heartbeat; 0 means seven days, a negative value
	// for ever.
	Keep time.Duration
	// Warn, when not nil, is called with warnings for the user: no worker is running, or the database is unavailable.
	Warn func(string)
}

// Run is a submitter's set of jobs. It is safe for concurrent use.
type Run struct {
	q    *Queue
	id   string
	o    RunOptions
	stop context.CancelFunc
	over chan struct{}

	mu      sync.Mutex
	waiting map[string]*waiter

	records sync.Mutex          // serialises OnRecord
	last    time.Time           // time of the newest record
	recent  map[int64]time.Time // records up to ten seconds older than last
}

type waiter struct {
	t        Ticket
	id       int64 // River's id of the job; 0 before it is submitted
	restarts int
	result   chan result
}

type result struct {
	done *Done
	err  error
}

// Begin starts a run, or resumes the one with that id. The caller closes it.
func (q *Queue) Begin(ctx context.Context, id string, o RunOptions) (*Run, error) {
	_, err := q.pool.Exec(ctx, `INSERT INTO stepfall_queue.runs (id, keep) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET seen_at = now(), ended = false, keep = excluded.keep`, id, max(0, cmp.Or(o.Keep, q.t.keep)))
	if err != nil {
		return nil, fmt.Errorf("beginning run %s: %w", id, err)
	}
	r := &Run{q: q, id: id, o: o, over: make(chan struct{}), waiting: map[string]*waiter{}, recent: map[int64]time.Time{}}
	if err := r.readRecords(ctx); err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	go r.follow(following)
	return r, nil
}

// Do submits a job and waits for its result. A job with the same name that finished in an earlier submission of the
// run is not repeated. When ctx ends, the job continues until Close, but a
// transient one does not start any more.
func (r *Run) Do(ctx context.Context, t Ticket) (*Done, error) {
	w := &waiter{t: t, result: make(chan result, 1)}
	r.mu.Lock()
	if r.waiting[t.Name] != nil {
		r.mu.Unlock()
		return nil, fmt.Errorf("job %s is already submitted", t.Name)
	}
	r.waiting[t.Name] = w
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiting, t.Name)
		r.mu.Unlock()
	}()
	if done, err := r.submit(ctx, w); err != nil || done != nil {
		return done, err
	}
	select {
	case <-ctx.Done():
		if t.Transient {
			r.mu.Lock()
			id := w.id
			r.mu.Unlock()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_, _ = r.q.client.JobDelete(ctx, id) // unless it is running; else it is deleted with the run
		}
		return nil, context.Cause(ctx)
	case got := <-w.result:
		return got.done, got.err
	}
}

func (r *Run) submit(ctx context.Context, w *waiter) (*Done, error) {
	args, err := json.Marshal(w.t.Args)
	for err == nil {
		var inserted *rivertype.JobInsertResult
		inserted, err = r.q.client.Insert(ctx, jobArgs{Run: r.id, Name: w.t.Name, Args: args}, &river.InsertOpts{
			Queue: w.t.Kind, MaxAttempts: maxAttempts, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: rivertype.JobStates()},
		})
		if err != nil {
			break
		}
		job := inserted.Job
		if job.FinalizedAt == nil {
			r.mu.Lock()
			w.id = job.ID
			r.mu.Unlock()
			return nil, nil
		}
		if done, again := decodeOutput(job.Output()); done != nil && !again {
			done.Recorded = true
			return done, r.readRecords(ctx)
		}
		// The job was cancelled, discarded, or is to be repeated.
		if _, err = r.q.client.JobDelete(ctx, job.ID); errors.Is(err, rivertype.ErrNotFound) {
			err = nil
		}
	}
	return nil, fmt.Errorf("submitting job %s: %w", w.t.Name, err)
}

func decodeOutput(data []byte) (done *Done, again bool) {
	var out jobOutput
	if data == nil || json.Unmarshal(data, &out) != nil {
		return nil, false
	}
	return &Done{Worker: out.Worker, Output: out.Data}, out.Again
}

// Close ends the run: waiting jobs do not start any more, and running ones are cancelled. Their results and records
// are kept for a run with the same id.
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

// follow polls for results and sends heartbeats until ctx ends.
func (r *Run) follow(ctx context.Context) {
	defer close(r.over)
	wait, seen, away := r.q.t.poll, time.Time{}, false
	for pause(ctx, wait) {
		some, err := r.poll(ctx)
		// Poll faster while results arrive: workers may be waiting for the next jobs.
		if wait = min(2*wait, r.q.t.poll); some {
			wait = max(wait/4, r.q.t.poll/8)
		}
		if now := time.Now(); err == nil && now.Sub(seen) >= r.q.t.beat {
			seen = now
			err = r.beat(ctx)
		}
		if err != nil && ctx.Err() == nil && !away {
			r.warn(fmt.Sprintf("the queue cannot be reached, retrying: %v", err))
		}
		away = err != nil
	}
}

func (r *Run) warn(text string) {
	if r.o.Warn != nil {
		r.o.Warn(text)
	}
}

// waiters returns the waiters by River's id of their job.
func (r *Run) waiters() map[int64]*waiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	byID := map[int64]*waiter{}
	for _, w := range r.waiting {
		if w.id != 0 {
			byID[w.id] = w
		}
	}
	return byID
}

// poll delivers the results of jobs that have ended and reports whether there were any.
func (r *Run) poll(ctx context.Context) (some bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	waiters := r.waiters()
	if len(waiters) == 0 {
		return false, nil
	}
	rows, err := r.q.pool.Query(ctx, `SELECT i, coalesce(state::text, 'gone'), coalesce(attempt, 0), coalesce(errors[array_upper(errors, 1)] ->> 'error', ''), metadata -> 'output'
		FROM unnest($1::bigint[]) i LEFT JOIN stepfall_queue.river_job ON id = i
		WHERE state IS NULL OR finalized_at IS NOT NULL`, slices.Collect(maps.Keys(waiters)))
	if err != nil {
		return false, err
	}
	type endedJob struct {
		ID     int64
		State  string
		Tries  int
		Last   string
		Output []byte
	}
	ended, err := pgx.CollectRows(rows, pgx.RowToStructByPos[endedJob])
	if err == nil {
		err = r.readRecords(ctx) // includes all records of the ended jobs
	}
	if err != nil {
		return false, err
	}
	for _, job := range ended {
		w := waiters[job.ID]
		done, _ := decodeOutput(job.Output)
		if done == nil && job.State != "discarded" && w.restarts < 3 {
			// The job was cancelled while this submitter could not send heartbeats.
			w.restarts++
			if done, err = r.submit(ctx, w); err != nil {
				return true, err
			}
			if done == nil {
				continue
			}
		}
		got := result{done: done}
		if done == nil {
			got.err = &FailedError{Name: w.t.Name, Tries: job.Tries, Last: job.Last}
		}
		if w.t.Transient { // before delivering: after that Close can end ctx
			_, _ = r.q.client.JobDelete(ctx, job.ID) // else it is deleted with the run
		}
		select {
		case w.result <- got:
		default: // already delivered
		}
	}
	return len(ended) > 0, nil
}

// readRecords calls OnRecord with the records since the last call. A record can become visible up to ten seconds
// after one with a later time.
func (r *Run) readRecords(ctx context.Context) error {
	if r.o.OnRecord == nil {
		return nil
	}
	r.records.Lock()
	defer r.records.Unlock()
	since := r.last.Add(-10 * time.Second)
	maps.DeleteFunc(r.recent, func(_ int64, at time.Time) bool { return at.Before(since) })
	list, err := r.q.records(ctx, "run = $1 AND at >= $2 AND n <> ALL ($3::bigint[])", r.id, since, slices.AppendSeq([]int64{}, maps.Keys(r.recent)))
	for _, rec := range list {
		if r.recent[rec.N] = rec.at; rec.at.After(r.last) {
			r.last = rec.at
		}
		if !r.o.Known[rec.N] {
			r.o.OnRecord(rec)
		}
	}
	return err
}

// beat sends the submitter's heartbeat, and warns if jobs wait and no worker is running.
func (r *Run) beat(ctx context.Context) error {
	if _, err := r.q.pool.Exec(ctx, "UPDATE stepfall_queue.runs SET seen_at = now() WHERE id = $1", r.id); err != nil {
		return err
	}
	if len(r.waiters()) == 0 {
		return nil
	}
	var some bool
	err := r.q.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM stepfall_queue.workers WHERE seen_at > now() - $1::interval)", r.q.t.workerTimeout).Scan(&some)
	if err == nil && !some {
		r.warn("no worker is running; start one with 'stepfall worker'")
	}
	return err
}

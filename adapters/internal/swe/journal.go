package swe

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/filelock"
	"github.com/stepfall/stepfall/sdk"
)

// Journal records a run so that it can resume after being killed. It is a file of JSON lines; each record is
// appended, and synced unless it is a payment. It is safe for concurrent use within one process and locked against
// others.
type Journal struct {
	mu sync.Mutex
	// writeLine writes a record. With isSynced it also syncs, so that this and all earlier records survive a crash of the
	// machine.
	writeLine func(line []byte, isSynced bool) error
	log       *filelock.Log // nil where a queue keeps the records
	attempts  map[string][]AttemptRecord
	results   map[string]Result
	spentUSD  float64
	// openUSD is the spend on each task since its last result.
	openUSD map[string]float64
	// worker is the name of the queue worker that writes, or "" for a local run.
	worker string
	// queued holds the numbers of the records received from workers, and queuedUSD their spend.
	queued    map[int64]bool
	queuedUSD float64
}

// AttemptRecord is one finished attempt of one model, with its cost.
type AttemptRecord struct {
	InstanceID string     `json:"instance_id"`
	Key        string     `json:"key"`
	Answer     sdk.Answer `json:"answer"`
	Trajectory Trajectory `json:"trajectory"`
	// Worker is the queue worker that made the attempt, if any.
	Worker string `json:"worker,omitempty"`
}

// PaidRecord is the cost of one model call or one verification, recorded at once because an attempt that never
// finishes costs money too.
type PaidRecord struct {
	InstanceID string  `json:"instance_id"`
	USD        float64 `json:"usd"`
}

type record struct {
	Paid    *PaidRecord    `json:"paid,omitempty"`
	Attempt *AttemptRecord `json:"attempt,omitempty"`
	Result  *Result        `json:"result,omitempty"`
	// Queued is the record's number in the queue it came from.
	Queued int64 `json:"queued,omitempty"`
	// Event is a progress message of a worker; it is not stored.
	Event string `json:"event,omitempty"`
}

// OpenJournal opens or creates a journal. A damaged line is an error.
func OpenJournal(path string) (j *Journal, err error) {
	j = newJournal()
	if j.log, err = filelock.OpenLog(path, j.load); err != nil {
		return nil, err
	}
	j.writeLine = j.log.Append
	return j, nil
}

func newJournal() *Journal {
	return &Journal{attempts: map[string][]AttemptRecord{}, results: map[string]Result{}, openUSD: map[string]float64{}, queued: map[int64]bool{}}
}

func (j *Journal) load(line []byte) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("is damaged: %w", err)
	}
	j.add(&r)
	return nil
}

func (j *Journal) add(r *record) {
	if r.Queued != 0 {
		j.queued[r.Queued] = true
	}
	if r.Paid != nil {
		j.spentUSD += r.Paid.USD
		j.openUSD[r.Paid.InstanceID] += r.Paid.USD
		if r.Queued != 0 {
			j.queuedUSD += r.Paid.USD
		}
	}
	if r.Attempt != nil {
		j.attempts[r.Attempt.InstanceID] = append(j.attempts[r.Attempt.InstanceID], *r.Attempt)
	}
	if r.Result != nil {
		j.results[r.Result.InstanceID] = *r.Result
		delete(j.openUSD, r.Result.InstanceID)
	}
}

// write stores a record and updates the totals. A nil journal discards it.
func (j *Journal) write(r record) error {
	if j == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// Payments are many and small; the next other record syncs them too.
	if err := j.writeLine(line, r.Paid == nil); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	j.add(&r)
	return nil
}

// Attempt returns a finished attempt by its key. j can be nil.
func (j *Journal) Attempt(instance, key string) (AttemptRecord, bool) {
	if j == nil {
		return AttemptRecord{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.attempts[instance] {
		if a.Key == key {
			return a, true
		}
	}
	return AttemptRecord{}, false
}

// Result returns the result of a finished task. j can be nil.
func (j *Journal) Result(instance string) (Result, bool) {
	if j == nil {
		return Result{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.results[instance]
	return r, ok
}

// cutOffUSD returns the spend on a task since its last result beyond the cost of its new one: the cost of interrupted
// attempts. j can be nil.
func (j *Journal) cutOffUSD(r *Result) float64 {
	if j == nil {
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return sdk.RoundUSD(max(0, j.openUSD[r.InstanceID]-r.CostUSD))
}

// SpentUSD returns the cost of all recorded calls, including those of interrupted attempts.
func (j *Journal) SpentUSD() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.spentUSD
}

// Attempts returns the number of finished attempts.
func (j *Journal) Attempts() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, list := range j.attempts {
		n += len(list)
	}
	return n
}

// workerName returns the worker that writes, or "" for a local run. j can be nil.
func (j *Journal) workerName() string {
	if j == nil {
		return ""
	}
	return j.worker
}

// Close closes the file and releases the lock.
func (j *Journal) Close() error { return j.log.Close() }

package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
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

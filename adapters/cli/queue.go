package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/postgres"
	"github.com/stepfall/stepfall/policies"
)

const queueUsage = "let the workers of this queue do the work: a postgres:// URL"

// maxInQueue is the default bound on a command's jobs in the queue.
const maxInQueue = 1000

// submission is a command's connection to a queue. It can be nil.
type submission struct {
	store  *postgres.Store
	queue  *queue.Queue
	run    *queue.Run
	policy queue.Policy
}

// submit sends a policy to a queue and begins the run with this id.
func submit(ctx context.Context, url, id string, p *policies.Policy, sets []string, o queue.RunOptions) (*submission, error) {
	s, err := postgres.Open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("--queue: %w", err)
	}
	jobs := &submission{store: s}
	if p.Retention != nil {
		o.Keep = cmp.Or(p.Retention.Jobs, -1)
	}
	if jobs.queue, err = queue.Open(ctx, s.Pool()); err == nil {
		jobs.policy, err = jobs.queue.SendPolicy(ctx, p, sets...)
	}
	if err == nil {
		jobs.run, err = jobs.queue.Begin(ctx, id, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--queue: %w", err), s.Close())
	}
	return jobs, nil
}

func (j *submission) queueOf() *queue.Queue {
	if j == nil {
		return nil
	}
	return j.queue
}

// close ends the run, so that workers stop its jobs.
func (j *submission) close(ctx context.Context) error {
	if j == nil {
		return nil
	}
	return errors.Join(j.run.Close(ctx), j.store.Close())
}

// warnRarely returns a function that prints warnings, at most one every ten seconds.
func warnRarely(s Streams) func(string) {
	var mu sync.Mutex
	var last time.Time
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) > 10*time.Second {
			last = now
			fmt.Fprintf(s.Err, "%s\n", text)
		}
	}
}

package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// submit returns a batch whose tasks run on the workers of a queue; done ends the run.
func (f *sweFlags) submit(ctx context.Context, s Streams, single bool) (_ *swe.Batch, done func() error, err error) {
	p, err := policies.Load(f.policy, policies.LoadOptions{Sets: f.sets, WithoutSecrets: true})
	if err != nil {
		return nil, nil, err
	}
	solver := &swe.Solver{Spend: &swe.Spend{}}
	trees, end, err := f.openState(solver)
	if err != nil {
		return nil, nil, err
	}
	known, queuedUSD := solver.Journal.QueuedRuns()
	q := &swe.Job{Journal: solver.Journal, Spend: solver.Spend, Progress: f.progress(s, single)}
	if f.maxUSD > 0 {
		// Spend outside the queue is not in the queue's account.
		q.CapUSD = f.maxUSD - (solver.Spend.SpentUSD() - queuedUSD)
		if q.CapUSD <= 0 {
			return nil, nil, errors.Join(&exitError{Code: exitSpent, Err: fmt.Errorf("%.6g USD spent, cap %.6g: %w", solver.Spend.SpentUSD(), f.maxUSD, sdk.ErrBudgetExhausted)}, end())
		}
	}
	var jobs *submission
	id, err := f.runID()
	if err == nil {
		jobs, err = submit(ctx, f.queue, id, p, f.sets, queue.RunOptions{OnRecord: q.TakeRecord, Known: known, Warn: warnRarely(s)})
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	q.Queue, q.Run = jobs.queue, jobs.run
	q.Settings = swe.Settings{Policy: jobs.policy, MaxTurns: f.maxTurns, TestCommand: f.command, Image: f.image, Engine: f.engine}
	done = func() error { return errors.Join(jobs.close(ctx), end()) }
	return &swe.Batch{Solver: solver, Repos: f.repos, Trees: trees, Parallel: f.parallel, Queue: q}, done, nil
}

// runID returns the name of the run in the queue: the one in the state folder, or a new one.
func (f *sweFlags) runID() (string, error) {
	fresh := "swe-" + rand.Text()
	if f.state == "" {
		return fresh, nil
	}
	path := filepath.Join(f.state, "queue")
	if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), "swe-") {
		return strings.TrimSpace(string(text)), nil
	}
	return fresh, os.WriteFile(path, []byte(fresh+"\n"), 0o600)
}

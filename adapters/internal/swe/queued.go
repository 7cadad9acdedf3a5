package swe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/sdk"
)

// QueueKind is the kind of a swe task in a queue.
const QueueKind = "swe"

// Job runs the tasks of a [Batch] on the workers of a queue, see [QueueWorker]. A repository in a folder is sent
// through the queue's database, once for all base commits of the tasks; workers fetch a repository with a URL by git.
type Job struct {
	Run   *queue.Run
	Queue *queue.Queue
	Settings
	// Journal, when not nil, stores the records of workers, and supplies the results of earlier runs.
	Journal *Journal
	// Progress, when not nil, is called with each event.
	Progress func(instance, event string)
	// Spend, when not nil, accumulates the spend of the workers.
	Spend *Spend

	mu      sync.Mutex
	sources map[string]source
	names   map[string]string // instance IDs by job name
}

// Settings are the settings of a run that workers need.
type Settings struct {
	Policy queue.Policy `json:"policy"`
	// CapUSD is the most that the run's workers may spend together; 0 means no cap.
	CapUSD float64 `json:"cap_usd,omitempty"`
	// MaxTurns, TestCommand, Image and Engine configure the worker's solver.
	MaxTurns    int      `json:"max_turns,omitempty"`
	TestCommand []string `json:"test_command,omitempty"`
	Image       string   `json:"image,omitempty"`
	Engine      []string `json:"engine,omitempty"`
}

// source says where a worker gets a repository.
type source struct {
	// URL, when not empty, is fetched by git.
	URL string `json:"url,omitempty"`
	// Bundle, when not empty, names a parcel with the commits.
	Bundle string `json:"bundle,omitempty"`
}

// taskArgs are the arguments of a task's job.
type taskArgs struct {
	Settings
	Task   Task   `json:"task"`
	Source source `json:"source"`
}

// isRemote reports whether a task's repository is fetched by URL.
func isRemote(repo string) bool {
	return strings.Contains(repo, "://") || strings.HasPrefix(repo, "git@")
}

// send makes the repositories available to workers, and returns the tasks with full commit hashes.
func (q *Job) send(ctx context.Context, repos map[string]*Repository, tasks []Task) ([]Task, error) {
	tasks = slices.Clone(tasks)
	q.sources, q.names = map[string]source{}, map[string]string{}
	commits := map[string]map[string]bool{}
	var faults []error
	for i := range tasks {
		t := &tasks[i]
		commit, err := q.commit(ctx, repos[t.Repo], t)
		if err != nil {
			faults = append(faults, fmt.Errorf("task %s: %w", t.InstanceID, err))
			continue
		}
		t.BaseCommit = commit
		if commits[t.Repo] == nil {
			commits[t.Repo] = map[string]bool{}
		}
		commits[t.Repo][commit] = true
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(commits)) {
		if isRemote(name) {
			q.sources[name] = source{URL: name}
			continue
		}
		bundle, err := q.bundle(ctx, repos[name], slices.Sorted(maps.Keys(commits[name])))
		if err != nil {
			return nil, fmt.Errorf("sending repository %s: %w", name, err)
		}
		q.sources[name] = source{Bundle: bundle}
	}
	return tasks, nil
}

func (*Job) commit(ctx context.Context, repo *Repository, t *Task) (string, error) {
	if repo != nil {
		return repo.Commit(ctx, t.BaseCommit)
	}
	if fullName.MatchString(t.BaseCommit) {
		return t.BaseCommit, nil
	}
	out, err := git(ctx, ".", "ls-remote", "--exit-code", "--", t.Repo, cmp.Or(t.BaseCommit, "HEAD"))
	if err != nil {
		return "", err
	}
	commit, _, _ := strings.Cut(out, "\t")
	return commit, nil
}

// bundle sends the commits with their ancestors, as a parcel named by the commits' hash.
func (q *Job) bundle(ctx context.Context, repo *Repository, commits []string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(commits, " ")))
	name := "git-" + hex.EncodeToString(sum[:])
	return name, q.Queue.Send(ctx, name, func(w io.Writer) error { return repo.bundle(ctx, commits, w) })
}

func (q *Job) solve(ctx context.Context, repo *Repository, t *Task) (r *Result, err error) {
	r = &Result{InstanceID: t.InstanceID}
	// The worker computes the same fingerprint: BaseCommit is a full hash by now.
	if r.Task, err = t.fingerprint(ctx, repo); err != nil {
		r.Error = err.Error()
		return r, nil
	}
	if had, ok := q.Journal.Result(t.InstanceID); ok && had.Task == r.Task {
		had.Recorded = true
		return &had, nil
	}
	job := queue.Ticket{Kind: QueueKind, Name: t.InstanceID + "@" + r.Task, Args: taskArgs{q.Settings, *t, q.sources[t.Repo]}}
	q.mu.Lock()
	q.names[job.Name] = t.InstanceID
	q.mu.Unlock()
	done, err := q.Run.Do(ctx, job)
	if err = cmp.Or(ctx.Err(), err); err == nil {
		err = done.Decode(r)
	}
	if failed, ok := errors.AsType[*queue.FailedError](err); ok {
		r.Error = failed.Error()
		return r, nil
	}
	if err != nil {
		r.Unfinished, r.Error = true, err.Error()
		return r, err
	}
	if r.Unfinished {
		// A worker leaves a task unfinished only when the budget is exhausted.
		return r, fmt.Errorf("%s: %w", r.Error, sdk.ErrBudgetExhausted)
	}
	if r.Error == "" {
		err = q.Journal.write(record{Result: r})
	}
	return r, err
}

// TakeRecord handles a record of a worker. It is the callback in the run's options.
func (q *Job) TakeRecord(rec queue.Record) {
	var line record
	if json.Unmarshal(rec.Data, &line) != nil {
		return // written by another version; only the worker reads it
	}
	if line.Event != "" {
		q.mu.Lock()
		instance := q.names[rec.Job]
		q.mu.Unlock()
		if q.Progress != nil && instance != "" {
			q.Progress(instance, line.Event+" ("+rec.Worker+")")
		}
		return
	}
	if line.Paid != nil && q.Spend != nil {
		q.Spend.Add(line.Paid.USD)
	}
	line.Queued = rec.N
	// A record that cannot be written is still in the queue, and is delivered again.
	_ = q.Journal.write(line)
}

// QueuedRuns returns the numbers of the records received from a queue, and their spend. j can be nil.
func (j *Journal) QueuedRuns() (known map[int64]bool, usd float64) {
	if j == nil {
		return nil, 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.queued), j.queuedUSD
}

package swe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk"
)

// Batch runs many tasks.
type Batch struct {
	Solver *Solver
	// Repos is a folder of repositories: the repo "owner/name" of a task is looked up there as owner/name,
	// owner__name and name. The repo of a task can also be a folder.
	Repos string
	// Trees is the folder for work trees. It must not be shared with another run.
	Trees string
	// Parallel bounds the tasks in flight; 0 means 2.
	Parallel int
	// Done, when not nil, is called with each finished task, one call at a time.
	Done func(*Result)
	// Queue, when not nil, runs the tasks on the workers of a queue instead of in the solver.
	Queue *Job
}

// Run runs tasks and returns their results in the order of the tasks: nil for a task that was not started, an
// Unfinished result for one that was interrupted. A task that fails for a reason of its own has a result with an
// Error. The returned error says why not all tasks finished: the context ended, or the budget is exhausted. There are
// no results when a repository cannot be opened.
func (b *Batch) Run(ctx context.Context, tasks []Task) (_ []*Result, err error) {
	repos, err := b.open(ctx, tasks)
	defer func() { err = errors.Join(err, closeAll(repos)) }()
	if err != nil {
		return nil, err
	}
	solve := b.Solver.Solve
	if b.Queue != nil {
		solve = b.Queue.solve
		if tasks, err = b.Queue.send(ctx, repos, tasks); err != nil {
			return nil, err
		}
	}
	results := make([]*Result, len(tasks))
	var mu sync.Mutex
	var spent error // once set, no further task starts; running tasks finish
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.parallel())
	for i := range tasks {
		group.Go(func() error {
			mu.Lock()
			over := spent != nil
			mu.Unlock()
			if over || ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := solve(ctx, repos[tasks[i].Repo], &tasks[i])
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			if errors.Is(err, sdk.ErrBudgetExhausted) {
				spent = fmt.Errorf("%s: %w", tasks[i].InstanceID, err)
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", tasks[i].InstanceID, err)
			}
			if b.Done != nil {
				b.Done(r)
			}
			return nil
		})
	}
	err = group.Wait()
	return results, errors.Join(err, spent)
}

func (b *Batch) open(ctx context.Context, tasks []Task) (map[string]*Repository, error) {
	repos := map[string]*Repository{}
	var faults []error
	for _, t := range tasks {
		if _, ok := repos[t.Repo]; ok {
			continue
		}
		repos[t.Repo] = nil
		if b.Queue != nil && isRemote(t.Repo) {
			continue
		}
		dir, err := b.find(t.Repo)
		if err == nil {
			repos[t.Repo], err = OpenRepository(ctx, dir, filepath.Join(b.Trees, fmt.Sprintf("r%d", len(repos))))
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return repos, errors.Join(faults...)
}

func closeAll(repos map[string]*Repository) error {
	var faults []error
	for _, r := range repos {
		if r != nil {
			faults = append(faults, r.Close())
		}
	}
	return errors.Join(faults...)
}

func (b *Batch) find(repo string) (string, error) {
	candidates := []string{repo}
	if b.Repos != "" {
		name := repo[strings.LastIndex(repo, "/")+1:]
		candidates = []string{filepath.Join(b.Repos, repo), filepath.Join(b.Repos, strings.ReplaceAll(repo, "/", "__")), filepath.Join(b.Repos, name)}
	}
	for _, dir := range candidates {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	if isRemote(repo) {
		return "", fmt.Errorf("%s is a URL, which requires --queue: otherwise clone it and name the folder", repo)
	}
	return "", fmt.Errorf("no repository %s: looked for %s", repo, strings.Join(candidates, ", "))
}

// WritePredictions atomically writes the leaderboard's predictions file: a JSON line for each result that has a
// patch.
func WritePredictions(path, model string, results []*Result) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	for _, r := range results {
		if r == nil || r.Unfinished || r.Patch == "" {
			continue
		}
		if err := enc.Encode(Prediction{InstanceID: r.InstanceID, Model: model, Patch: r.Patch}); err != nil {
			return err
		}
	}
	temp := path + ".part"
	if err := os.WriteFile(temp, []byte(b.String()), 0o644); err != nil { // less what the umask forbids
		return err
	}
	return os.Rename(temp, path)
}

// Summary aggregates the results of a batch.
type Summary struct {
	Tasks, Solved, Failed, Errors, Open, Calls int

	CostUSD float64
	// CutOffUSD was paid on top of CostUSD, for attempts that were interrupted.
	CutOffUSD float64
}

// NotJudged returns why none of the finished tasks has a verdict. It is empty when one has, and when no task is
// finished.
func NotJudged(results []*Result) string {
	why := ""
	for _, r := range results {
		if r == nil || r.Unfinished {
			continue
		}
		reason := "no verifier judges the task"
		for _, a := range r.Attempts {
			v := cmp.Or(a.Verdict, &sdk.Verdict{Outcome: sdk.Inconclusive})
			if v.Outcome != sdk.Inconclusive {
				return ""
			}
			reason = cmp.Or(v.Evidence, reason)
		}
		why = cmp.Or(why, r.InstanceID+": "+cmp.Or(r.Error, reason))
	}
	return why
}

// Summarise counts results; nil and unfinished results count as open.
func Summarise(results []*Result) Summary {
	s := Summary{Tasks: len(results)}
	for _, r := range results {
		r = cmp.Or(r, &Result{Unfinished: true})
		switch {
		case r.Unfinished:
			s.Open++
		case r.Solved:
			s.Solved++
		case r.Error != "":
			s.Errors++
		default:
			s.Failed++
		}
		s.Calls += r.Calls
		s.CostUSD += r.CostUSD
		s.CutOffUSD += r.CutOffUSD
	}
	return s
}

// Check opens the repositories of tasks and runs the verifiers on the unchanged trees, without calling a model. notes
// is keyed by instance ID; the error lists everything that is missing.
func (b *Batch) Check(ctx context.Context, tasks []Task) (notes map[string][]string, err error) {
	repos, err := b.open(ctx, tasks)
	defer func() { err = errors.Join(err, closeAll(repos)) }()
	if err != nil {
		return nil, err
	}
	notes = map[string][]string{}
	var mu sync.Mutex
	var faults []error
	var group errgroup.Group
	group.SetLimit(b.parallel())
	for _, t := range tasks {
		group.Go(func() error {
			found, err := b.Solver.Check(ctx, repos[t.Repo], &t)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				faults = append(faults, fmt.Errorf("task %s: %w", t.InstanceID, err))
			}
			if len(found) > 0 {
				notes[t.InstanceID] = found
			}
			return ctx.Err()
		})
	}
	return notes, errors.Join(append(faults, group.Wait())...)
}

func (b *Batch) parallel() int { return max(1, cmp.Or(b.Parallel, 2)) }

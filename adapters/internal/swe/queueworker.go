package swe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/adapters/internal/queue"
	"github.com/stepfall/stepfall/adapters/internal/store"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/step"
)

// QueueWorker runs swe tasks for a queue. It is safe for concurrent use.
type QueueWorker struct {
	Routers  *queue.RouterCache
	Cache    *queue.Cache
	Accounts *store.LeasedAccounts
	// Jail runs the commands of models where a task names no image.
	Jail *Jail
	// Trees is the folder for work trees. It belongs to this process.
	Trees string

	mu    sync.Mutex
	repos map[string]*workerRepository // by their names in Cache
	costs map[string]*trajectoryCosts
}

// workerRepository is a repository that one task at a time fetches and opens.
type workerRepository struct {
	mu    sync.Mutex
	trees string
	*Repository
}

// Kind returns the queue kind that runs parallel tasks at once.
func (h *QueueWorker) Kind(parallel int) queue.Kind { return queue.Kind{Parallel: parallel, Do: h.do} }

func (h *QueueWorker) do(ctx context.Context, j *queue.Job) (queue.Outcome, error) {
	var a taskArgs
	if err := j.Decode(&a); err != nil {
		return queue.Outcome{}, err
	}
	repo, err := h.repository(ctx, &a)
	if err != nil {
		return queue.Outcome{}, err
	}
	r, done, err := h.Routers.Use(ctx, a.Policy, "", nil)
	if err != nil {
		return queue.Outcome{}, err
	}
	defer done()
	s, err := h.solver(ctx, j, &a, r)
	if err != nil {
		return queue.Outcome{}, err
	}
	result, err := s.Solve(ctx, repo, &a.Task)
	if err = cmp.Or(ctx.Err(), err); err != nil && !errors.Is(err, sdk.ErrBudgetExhausted) {
		return queue.Outcome{}, err
	}
	result.Worker = j.Worker
	return queue.Outcome{Output: result, Again: result.Unfinished || result.Error != ""}, nil
}

func (h *QueueWorker) solver(ctx context.Context, j *queue.Job, a *taskArgs, r *router.Router) (s *Solver, err error) {
	s = &Solver{
		Setup: FromRouter(r), Mode: Mode(r.Policy().Trajectory.Unit), Agent: Agent{MaxTurns: a.MaxTurns}, Jail: h.Jail,
		ShowFailures: r.Policy().Trajectory.ShowFailures, TestCommand: a.TestCommand, Spend: &Spend{Run: j.Run},
		Progress: func(_, event string) {
			line, _ := json.Marshal(record{Event: event}) // cannot fail
			_ = j.Record(ctx, line)                       // progress only
		},
	}
	s.Setup.Step.Cost = h.costsOf(j.Run)
	if a.CapUSD > 0 {
		s.Spend.Ledger = h.Accounts.Ledger(step.Caps{RunUSD: a.CapUSD})
	}
	if a.Image != "" {
		if s.Jail, err = NewContainerJail(ctx, container.Options{Command: a.Engine, Image: a.Image}); err != nil {
			return nil, err
		}
	}
	s.Journal, err = recordsOf(ctx, j)
	return s, err
}

func recordsOf(ctx context.Context, j *queue.Job) (*Journal, error) {
	list, err := j.Records(ctx)
	if err != nil {
		return nil, err
	}
	own := newJournal()
	own.worker = j.Worker
	for i := range list {
		var line record
		if err := json.Unmarshal(list[i].Data, &line); err != nil {
			return nil, fmt.Errorf("a record of %s is damaged: %w", list[i].Worker, err)
		}
		own.add(&line)
	}
	own.writeLine = func(line []byte, _ bool) error {
		// The result is the output of the job already.
		if strings.HasPrefix(string(line), `{"result":`) {
			return nil
		}
		return j.Record(ctx, line)
	}
	return own, nil
}

// maxCostedRuns bounds the runs whose costs a worker remembers.
const maxCostedRuns = 64

// costsOf returns the attempt costs that this worker has seen in a run.
func (h *QueueWorker) costsOf(run string) *trajectoryCosts {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.costs[run] == nil {
		lookup.MakeRoom(&h.costs, maxCostedRuns)
	}
	return lookup.Entry(&h.costs, run)
}

func (h *QueueWorker) repository(ctx context.Context, a *taskArgs) (*Repository, error) {
	key := a.Source.Bundle
	if a.Source.URL != "" {
		key = "url-" + hashOf(a.Source.URL)
	}
	own := h.repositoryNamed(key)
	own.mu.Lock()
	defer own.mu.Unlock()
	dir, err := h.Cache.Fetch(key, func(dir string) error { return h.initRepository(ctx, dir, a.Source.Bundle) })
	if err == nil && a.Source.URL != "" {
		err = fetchCommit(ctx, dir, a.Source.URL, a.Task.BaseCommit)
	}
	if err != nil {
		return nil, fmt.Errorf("fetching repository %s: %w", a.Task.Repo, err)
	}
	if own.Repository == nil {
		own.Repository, err = OpenRepository(ctx, dir, own.trees)
	}
	return own.Repository, err
}

func (h *QueueWorker) repositoryNamed(key string) *workerRepository {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := lookup.Entry(&h.repos, key)
	if own.trees == "" {
		own.trees = filepath.Join(h.Trees, "r"+strconv.Itoa(len(h.repos)-1))
	}
	return own
}

// initRepository makes a repository with the commits of the bundle, or an empty one.
func (h *QueueWorker) initRepository(ctx context.Context, dir, bundle string) error {
	if _, err := git(ctx, dir, "init", "--quiet", "--template="); err != nil || bundle == "" {
		return err
	}
	path := filepath.Join(dir, ".git", "sent.bundle")
	if err := h.Cache.File(ctx, bundle, path); err != nil {
		return err
	}
	_, err := git(ctx, dir, "fetch", "--quiet", path, "refs/*:refs/sent/*")
	return errors.Join(err, os.Remove(path))
}

// fetchCommit fetches a commit and its ancestors into the repository at dir, or all refs where the server does not
// serve single commits.
func fetchCommit(ctx context.Context, dir, url, commit string) error {
	if _, err := git(ctx, dir, "cat-file", "-e", commit+"^{commit}"); err == nil {
		return nil
	}
	if _, err := git(ctx, dir, "fetch", "--quiet", "--no-tags", "--", url, commit); err == nil {
		return nil
	}
	if _, err := git(ctx, dir, "fetch", "--quiet", "--", url, "+refs/*:refs/sent/*"); err != nil {
		return err
	}
	_, err := git(ctx, dir, "cat-file", "-e", commit+"^{commit}")
	return err
}

// Close removes the work trees. It must not be called while a task runs.
func (h *QueueWorker) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	repos := map[string]*Repository{}
	for key, own := range h.repos {
		repos[key] = own.Repository
	}
	h.repos = nil
	return closeAll(repos)
}

func (r *Repository) bundle(ctx context.Context, commits []string, w io.Writer) error {
	// A bundle holds refs only. They are made in a temporary repository that borrows this one's objects, so that
	// nothing is written here.
	dir, err := os.MkdirTemp("", "stepfall-bundle-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := git(ctx, dir, "init", "--quiet", "--bare", "--template="); err != nil {
		return err
	}
	objects, err := git(ctx, r.dir, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(objects), 0o600); err != nil {
		return err
	}
	args := []string{"bundle", "create", "--quiet", "-"}
	for i, commit := range commits {
		ref := "refs/c/" + strconv.Itoa(i)
		if _, err := git(ctx, dir, "update-ref", ref, commit); err != nil {
			return err
		}
		args = append(args, ref)
	}
	if said, err := Git(ctx, dir, nil, w, args...); err != nil {
		return fmt.Errorf("git bundle: %w: %s", err, firstLine(said))
	}
	return nil
}

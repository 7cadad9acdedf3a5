package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/swe"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/jail/container"
	"github.com/stepfall/stepfall/sdk/step"
)

// Additional exit codes of stepfall swe.
const (
	// exitUnsolved: all tasks finished, but not every one has a patch that passes.
	exitUnsolved = 3
	// exitSpent: the spend cap ended the run.
	exitSpent = 4
)

type sweFlags struct {
	repo, repos, task, policy, base string
	failToPass, passToPass, command []string
	sets                            []string
	dryRun, json                    bool
	maxUSD                          float64
	maxTurns, parallel              int
	state, out, name                string
	image                           string
	engine                          []string
	queue                           string
}

func newSWECommand(s Streams) *cobra.Command {
	var f sweFlags
	cmd := &cobra.Command{
		Use:   "swe --repo DIR --task FILE|TEXT --policy POLICY",
		Short: "What is the cheapest patch that the tests accept? Repair a repository",
		Long: `Repair a repository with a coding agent. Models make attempts in clean work trees, in the
order that the policy's strategy decides, until the policy's verifier accepts a patch. If
the policy sets trajectory { unit = "step" }, there is one attempt, and each of its calls
is routed. The repository itself is not changed.

A task is text, a text file, or a file of tasks in SWE-bench's format (JSON lines or a
list), several of which run at once. With --state, an interrupted or killed run can be
resumed.

Exit codes: 0 all tasks are solved, 3 some are not, 4 the money is spent, 130
interrupted, 1 failure (nothing could be tried), 2 usage.`,
		Example: `  stepfall swe --repo . --task "TestParse fails on empty input" --policy policy.hcl
  stepfall swe --repos ~/repos --task verified.jsonl --policy policy.hcl --state run1 --max-usd 20`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.queue != "" && !cmd.Flags().Changed("parallel") {
				f.parallel = maxInQueue
			}
			return f.run(cmd.Context(), s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.repo, "repo", "", "repository of a single task: a folder, or with --queue a URL")
	flags.StringVar(&f.repos, "repos", "", "folder with the repositories, for a file of tasks")
	flags.StringVar(&f.task, "task", "", "what is wrong: text, or a file")
	flags.StringVar(&f.policy, "policy", "", "policy with models, strategy and the verifier that runs the tests")
	flags.StringVar(&f.base, "base", "", "commit to start from (default HEAD)")
	flags.StringSliceVar(&f.failToPass, "fail-to-pass", nil, "tests that must pass with the patch")
	flags.StringSliceVar(&f.passToPass, "pass-to-pass", nil, "tests that must still pass")
	flags.StringSliceVar(&f.command, "test-command", nil, "the agent's test command, with its arguments separated by commas; detected when absent")
	flags.StringArrayVar(&f.sets, "set", nil, "change a value of the policy, such as trajectory.show_failures=true")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything without calling a model")
	flags.Float64Var(&f.maxUSD, "max-usd", 0, "hard cap on the spending of the run, in US dollars; 0 is none")
	flags.IntVar(&f.maxTurns, "max-turns", 30, "most model calls in one attempt")
	flags.IntVar(&f.parallel, "parallel", 2, "concurrent tasks; with --queue, tasks in the queue")
	flags.StringVar(&f.queue, "queue", "", queueUsage)
	flags.StringVar(&f.state, "state", "", "folder for the state of the run, so that it can be resumed")
	flags.StringVar(&f.out, "out", "", "file for the patch of a single task, or for the leaderboard's predictions for a file of tasks")
	flags.StringVar(&f.name, "model-name", "stepfall", "model_name_or_path in the predictions")
	flags.StringVar(&f.image, "image", "", "run the agent's commands in containers of this image (Docker or Podman)")
	flags.StringSliceVar(&f.engine, "engine", nil, "command of the container engine with its global options; podman or docker when absent")
	return cmd
}

// tasks returns the tasks of --task, and whether it is a single one given as text.
func (f *sweFlags) tasks() ([]swe.Task, bool, error) {
	info, err := os.Stat(f.task)
	if err != nil || info.IsDir() {
		if !strings.ContainsAny(strings.TrimSpace(f.task), " \n") {
			return nil, false, usage("--task %s: no such file, and a task given as text needs a space", f.task)
		}
		return []swe.Task{f.single(f.task)}, true, nil
	}
	data, err := os.ReadFile(f.task)
	if err != nil {
		return nil, false, err
	}
	if strings.IndexAny(strings.TrimSpace(string(data)), "{[") == 0 {
		list, err := swe.ReadTasks(strings.NewReader(string(data)))
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", f.task, err)
		}
		for i := range list {
			list[i].Repo = cmp.Or(f.repo, list[i].Repo)
		}
		return list, false, nil
	}
	return []swe.Task{f.single(string(data))}, true, nil
}

func (f *sweFlags) single(text string) swe.Task {
	return swe.Task{InstanceID: swe.NameTask(f.repo, text), Repo: f.repo, BaseCommit: f.base, ProblemStatement: text, FailToPass: f.failToPass, PassToPass: f.passToPass}
}

func (f *sweFlags) check() error {
	var faults []error
	want := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	want(f.task != "", "--task is required")
	want(f.policy != "", "--policy is required: write one with 'stepfall policy init'")
	want(f.repo != "" || f.repos != "", "--repo or --repos is required")
	want(f.maxUSD >= 0, "--max-usd: want a number of US dollars from 0 up")
	want(f.parallel > 0, "--parallel must be at least 1")
	// Find an unwritable file before a model is paid.
	if err := writable(f.out); err != nil {
		faults = append(faults, fmt.Errorf("--out: %w", err))
	}
	if len(faults) > 0 {
		return &exitError{Code: exitUsage, Err: errors.Join(faults...)}
	}
	return nil
}

// writable returns an error if no file can be written at path; an empty path is allowed. An existing file keeps its
// content.
func writable(path string) error {
	if path == "" {
		return nil
	}
	_, before := os.Lstat(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil || before == nil {
		return err
	}
	return os.Remove(path)
}

func (f *sweFlags) run(ctx context.Context, s Streams) (err error) {
	f.json = s.wantsJSON()
	if err := f.check(); err != nil {
		return err
	}
	list, single, err := f.tasks()
	if err != nil {
		return err
	}
	var account savings.Account
	b, done, err := f.batch(ctx, s, single, &account)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	solver := b.Solver
	if f.dryRun {
		return f.plan(ctx, s, list, solver, b.Trees)
	}
	if !single {
		defer showSolved(s, b, len(list)).finish()
	}
	f.warn(ctx, s, single)
	results, runErr := b.Run(ctx, list)
	if results == nil {
		return runErr
	}
	if f.out != "" && !single {
		if err := swe.WritePredictions(f.out, f.name, results); err != nil {
			return err
		}
	}
	if err := f.print(s, list, results, single); err != nil {
		return err
	}
	// A policy's estimate for an attempt is a guess: without calls of the baseline no savings are claimed.
	if result := account.Result(); !f.json && result.IsMeasured() {
		(&printer{s.Out}).printSavings(&result)
	}
	return f.exit(ctx, results, runErr, solver)
}

// showSolved shows the progress of a batch, with solved tasks and costs.
func showSolved(s Streams, b *swe.Batch, tasks int) *progress {
	bar := newProgress(s.Err, tasks, "mending")
	solved := 0
	b.Done = func(r *swe.Result) {
		if r.Solved {
			solved++
		}
		bar.describef("%d solved, %s USD", solved, usd(b.Solver.Spend.SpentUSD()))
		bar.add(1)
	}
	return bar
}

// warn warns of uncommitted changes, which attempts do not see, and of patches that are not saved.
func (f *sweFlags) warn(ctx context.Context, s Streams, single bool) {
	if f.repo != "" {
		if changed, err := swe.CountUncommitted(ctx, f.repo); err == nil && changed > 0 {
			fmt.Fprintf(s.Err, "%s has %d uncommitted changes; attempts start from the commit, without them\n", f.repo, changed)
		}
	}
	if !single && f.state == "" && f.out == "" && !f.json {
		fmt.Fprintln(s.Err, "patches are not kept: give --state, --out or --json to keep them")
	}
}

// batch returns a batch that runs the tasks in this process, where account counts their costs, or through a queue. A
// dry run never uses the queue.
func (f *sweFlags) batch(ctx context.Context, s Streams, single bool, account *savings.Account) (_ *swe.Batch, done func() error, err error) {
	if f.queue != "" && !f.dryRun {
		return f.submit(ctx, s, single)
	}
	r, err := full.Open(ctx, f.policy, full.Options{Load: policies.LoadOptions{Sets: f.sets, Patches: true, WithoutSecrets: f.dryRun}, Logger: sweLogger(s), Traces: account.Record})
	if err != nil {
		return nil, nil, err
	}
	// Find a broken verifier before a model is paid.
	if err := r.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	solver, trees, end, err := f.solver(ctx, s, r, single)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	b := &swe.Batch{Solver: solver, Repos: f.repos, Trees: trees, Parallel: f.parallel}
	return b, func() error { return errors.Join(end(), r.Close()) }, nil
}

// sweLogger returns a logger that omits failures of single steps, since results of attempts are printed.
func sweLogger(s Streams) hclog.Logger {
	o := s.logOptions(hclog.Warn)
	if o.Level > hclog.Info {
		o.Exclude = func(_ hclog.Level, message string, _ ...any) bool { return message == step.LogFailed }
	}
	return hclog.New(o)
}

// solver returns the solver and the folder for work trees; done cleans up.
func (f *sweFlags) solver(ctx context.Context, s Streams, r *router.Router, single bool) (*swe.Solver, string, func() error, error) {
	open := swe.NewJail
	if f.image != "" {
		open = func(ctx context.Context) (*swe.Jail, error) {
			return swe.NewContainerJail(ctx, container.Options{Command: f.engine, Image: f.image})
		}
	}
	walls, err := open(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	solver := &swe.Solver{
		Setup: swe.FromRouter(r), Mode: swe.Mode(r.Policy().Trajectory.Unit), Agent: swe.Agent{MaxTurns: f.maxTurns}, Jail: walls,
		ShowFailures: r.Policy().Trajectory.ShowFailures, TestCommand: f.command, Spend: &swe.Spend{CapUSD: f.maxUSD},
	}
	solver.Progress = f.progress(s, single)
	trees, done, err := f.openState(solver)
	return solver, trees, done, err
}

// progress returns a function that prints events; nil for several tasks, unless --log is info or more verbose.
func (f *sweFlags) progress(s Streams, single bool) func(instance, event string) {
	if s.logOptions(hclog.Warn).Level > hclog.Info && !single {
		return nil
	}
	var mu sync.Mutex
	return func(instance, event string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(s.Err, "%s %s: %s\n", time.Now().Format("15:04:05"), instance, event)
	}
}

// openState opens the state of the run, sets the solver's journal and spend, and returns the folder for work trees;
// done cleans up.
func (f *sweFlags) openState(solver *swe.Solver) (trees string, done func() error, err error) {
	if f.state == "" {
		scratch, err := swe.NewScratch("")
		if err != nil {
			return "", nil, err
		}
		return filepath.Join(scratch.Dir, "trees"), scratch.Close, nil
	}
	if err := os.MkdirAll(f.state, 0o755); err != nil {
		return "", nil, err
	}
	state, err := filepath.Abs(f.state)
	if err != nil {
		return "", nil, err
	}
	if solver.Journal, err = swe.OpenJournal(filepath.Join(state, "journal.jsonl")); err != nil {
		return "", nil, err
	}
	solver.Spend.Add(solver.Journal.SpentUSD())
	trees = filepath.Join(state, "trees")
	return trees, func() error { return errors.Join(solver.Journal.Close(), os.RemoveAll(trees)) }, nil
}

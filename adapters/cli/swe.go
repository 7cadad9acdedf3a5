package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/swe"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Exit codes of stepfall swe besides the usual ones.
const (
	// exitUnsolved: everything ran, and not every task has a patch that passes.
	exitUnsolved = 3
	// exitSpent: the spend cap ended the run.
	exitSpent = 4
	// exitInterrupted: the run was interrupted; the same command goes on with it.
	exitInterrupted = 130
)

type sweFlags struct {
	repo, repos, task, policy, base string
	failToPass, passToPass, command []string
	sets                            []string
	dryRun, json                    bool
	maxUSD                          float64
	maxTurns, parallel              int
	state, out, predictions, name   string
	verbose                         bool
}

func newSWECommand(s Streams) *cobra.Command {
	var f sweFlags
	cmd := &cobra.Command{
		Use:   "swe --repo DIR --task FILE|TEXT --policy POLICY",
		Short: "Mend a repository by the cheapest models whose patch the tests accept",
		Long: `Mend a repository with a coding agent. Each model makes an attempt in a clean work
tree, in the order in which the policy's strategy wants them, until the policy's
verifier accepts a patch; or, where the policy says trajectory { unit = "step" }, one
attempt is made each call of which is routed. The repository itself is not touched.

A task is text, a file of text, or a file of tasks in SWE-bench's format (JSON lines
or a list), of which many run together. With --state, a run that was interrupted or
killed goes on where it was.

Exit codes: 0 every task is solved, 3 not all are, 4 the money is spent, 130
interrupted, 1 failure, 2 usage.`,
		Example: `  stepfall swe --repo . --task "TestParse fails on empty input" --policy policy.hcl
  stepfall swe --repos ~/repos --task verified.jsonl --policy policy.hcl --state run1 --max-usd 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.repo, "repo", "", "the repository of a single task")
	flags.StringVar(&f.repos, "repos", "", "folder with the repositories of a file of tasks")
	flags.StringVar(&f.task, "task", "", "what is wrong: text, or a file")
	flags.StringVar(&f.policy, "policy", "", "policy with models, strategy and the verifier that runs the tests")
	flags.StringVar(&f.base, "base", "", "commit to start from; HEAD when absent")
	flags.StringSliceVar(&f.failToPass, "fail-to-pass", nil, "tests that must pass with the patch")
	flags.StringSliceVar(&f.passToPass, "pass-to-pass", nil, "tests that must still pass")
	flags.StringSliceVar(&f.command, "test-command", nil, "the agent's test command, an argument each; found out when absent")
	flags.StringArrayVar(&f.sets, "set", nil, "change a value of the policy, as trajectory.show_failures=true")
	flags.BoolVar(&f.dryRun, "dry-run", false, "check everything and call no model")
	flags.BoolVar(&f.json, "json", false, "print results as JSON lines")
	flags.Float64Var(&f.maxUSD, "max-usd", 0, "hard cap on what the run spends; 0 is none")
	flags.IntVar(&f.maxTurns, "max-turns", 30, "calls of the model in one attempt")
	flags.IntVar(&f.parallel, "parallel", 2, "tasks at work together")
	flags.StringVar(&f.state, "state", "", "folder that keeps the run, so that it can go on")
	flags.StringVar(&f.out, "out", "", "write the patch of a single task to this file")
	flags.StringVar(&f.predictions, "predictions", "", "write the leaderboard's predictions to this file")
	flags.StringVar(&f.name, "model-name", "stepfall", "model_name_or_path in the predictions")
	flags.BoolVar(&f.verbose, "verbose", false, "tell what happens, and show the plugins' log")
	cmd.AddCommand(newSWEBenchCommand(s))
	return cmd
}

// tasks returns what is to be done, and whether it is one task of the user's own.
func (f *sweFlags) tasks() ([]swe.Task, bool, error) {
	info, err := os.Stat(f.task)
	if err != nil || info.IsDir() {
		if !strings.ContainsAny(strings.TrimSpace(f.task), " \n") {
			return nil, false, usage("--task %s: no such file; a task that is given as text is a sentence", f.task)
		}
		return []swe.Task{f.single(f.task)}, true, nil
	}
	data, err := os.ReadFile(f.task)
	if err != nil {
		return nil, false, err
	}
	if first := strings.TrimSpace(string(data)); strings.HasPrefix(first, "{") || strings.HasPrefix(first, "[") {
		list, err := swe.ReadTasks(strings.NewReader(string(data)))
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", f.task, err)
		}
		if f.repo != "" {
			for i := range list {
				list[i].Repo = f.repo
			}
		}
		return list, false, nil
	}
	return []swe.Task{f.single(string(data))}, true, nil
}

func (f *sweFlags) single(text string) swe.Task {
	return swe.Task{InstanceID: "task", Repo: f.repo, BaseCommit: f.base, ProblemStatement: text, FailToPass: f.failToPass, PassToPass: f.passToPass}
}

func (f *sweFlags) check() error {
	var faults []error
	want := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	want(f.task != "", "--task is missing")
	want(f.policy != "", "--policy is missing: write one with 'stepfall policy init'")
	want(f.repo != "" || f.repos != "", "--repo or --repos is missing")
	want(f.maxUSD >= 0, "--max-usd is negative")
	want(f.parallel > 0, "--parallel is not positive")
	if len(faults) > 0 {
		return &ExitError{Code: ExitUsage, Err: errors.Join(faults...)}
	}
	return nil
}

func (f *sweFlags) run(ctx context.Context, s Streams) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	list, single, err := f.tasks()
	if err != nil {
		return err
	}
	level := hclog.Warn
	if f.verbose {
		level = hclog.Info
	}
	r, err := router.Open(ctx, f.policy, router.Options{
		Load: policies.LoadOptions{Sets: f.sets}, Logger: hclog.New(&hclog.LoggerOptions{Name: "stepfall", Output: s.Err, Level: level}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// A verifier at fault is found before a model is paid.
	if err := r.Start(ctx); err != nil {
		return err
	}
	solver, trees, done, err := f.solver(ctx, s, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if f.dryRun {
		return f.plan(ctx, s, list, solver, trees)
	}
	b := &swe.Batch{Solver: solver, Repos: f.repos, Trees: trees, Parallel: f.parallel}
	if !f.verbose || !single {
		bar := newProgress(s.Err, len(list), "mending")
		solved := 0
		b.Done = func(r *swe.Result) {
			if r.Solved {
				solved++
			}
			bar.describef("%d solved, %.4f USD", solved, solver.Spend.SpentUSD())
			bar.add(1)
		}
		defer bar.finish()
	}
	if f.repo != "" {
		if changed, err := swe.Uncommitted(ctx, f.repo); err == nil && changed > 0 {
			fmt.Fprintf(s.Err, "%s has %d uncommitted changes; attempts begin at the commit, without them\n", f.repo, changed)
		}
	}
	results, runErr := b.Run(ctx, list)
	if results == nil {
		return runErr
	}
	if f.predictions != "" {
		if err := swe.WritePredictions(f.predictions, f.name, results); err != nil {
			return err
		}
	}
	if err := f.print(s, list, results, single); err != nil {
		return err
	}
	return exitOf(ctx, results, runErr)
}

// solver makes the solver and the folder for work trees; done cleans up.
func (f *sweFlags) solver(ctx context.Context, s Streams, r *router.Router) (*swe.Solver, string, func() error, error) {
	walls, err := swe.NewJail(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	solver := &swe.Solver{
		Setup: swe.FromRouter(r), Mode: swe.Mode(r.Policy().Trajectory.Unit), Agent: swe.Agent{MaxTurns: f.maxTurns}, Jail: walls,
		ShowFailures: r.Policy().Trajectory.ShowFailures, TestCommand: f.command, Spend: &swe.Spend{CapUSD: f.maxUSD},
	}
	if f.verbose {
		var mu sync.Mutex
		solver.Progress = func(instance, event string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(s.Err, "%s %s: %s\n", time.Now().Format("15:04:05"), instance, event)
		}
	}
	if f.state == "" {
		scratch, err := swe.NewScratch("")
		if err != nil {
			return nil, "", nil, err
		}
		return solver, filepath.Join(scratch.Dir, "trees"), scratch.Close, nil
	}
	if err := os.MkdirAll(f.state, 0o755); err != nil {
		return nil, "", nil, err
	}
	state, err := filepath.Abs(f.state)
	if err != nil {
		return nil, "", nil, err
	}
	if solver.Journal, err = swe.OpenJournal(filepath.Join(state, "journal.jsonl")); err != nil {
		return nil, "", nil, err
	}
	solver.Spend.Add(solver.Journal.SpentUSD())
	trees := filepath.Join(state, "trees")
	return solver, trees, func() error { return errors.Join(solver.Journal.Close(), os.RemoveAll(trees)) }, nil
}

// plan says what a run would do.
func (f *sweFlags) plan(ctx context.Context, s Streams, list []swe.Task, solver *swe.Solver, trees string) error {
	p := &printer{w: s.Out}
	b := &swe.Batch{Solver: solver, Repos: f.repos, Trees: trees}
	if err := b.Check(ctx, list); err != nil {
		return err
	}
	p.f("%d tasks, cascaded by the %s, strategy %s\n", len(list), solver.Mode, solver.Setup.Step.StrategyName)
	for _, c := range solver.Setup.Step.Candidates {
		p.f("model %s: expected quality %.2f, %g / %g USD per million tokens\n", c.Model.Name, c.Quality.Mean, c.Model.Price.Input, c.Model.Price.Output)
	}
	for _, v := range solver.Setup.Step.Verifiers {
		p.f("verifier %s\n", v.Name)
	}
	if len(solver.Setup.Step.Verifiers) == 0 {
		p.f("warning: the policy has no verifier: no test decides about a patch\n")
	}
	p.f("agent's commands: %s\n", strings.Join(solver.Jail.Layers, ", "))
	for _, layer := range slices.Sorted(keysOf(solver.Jail.Missing)) {
		p.f("  without %s: %s\n", layer, solver.Jail.Missing[layer])
	}
	if f.maxUSD > 0 {
		p.f("at most %.2f USD, %.4f of it spent\n", f.maxUSD, solver.Spend.SpentUSD())
	}
	p.f("no model was called\n")
	return p.err
}

func keysOf(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (f *sweFlags) print(s Streams, list []swe.Task, results []*swe.Result, single bool) error {
	p := &printer{w: s.Out}
	if f.json {
		enc := json.NewEncoder(s.Out)
		for _, r := range results {
			if r != nil {
				if err := enc.Encode(r); err != nil {
					return err
				}
			}
		}
	}
	if single && results[0] != nil {
		r := results[0]
		if f.out != "" {
			if err := os.WriteFile(f.out, []byte(r.Patch), 0o644); err != nil {
				return err
			}
		}
		if !f.json {
			p.result(r, f.out)
		}
		return p.err
	}
	if f.json {
		return nil
	}
	t := newTable(s.Out, Column{Name: "task"}, Column{Name: "result"}, Column{Name: "model"}, Column{Name: "attempts", Number: true},
		Column{Name: "calls", Number: true}, Column{Name: "USD", Number: true}, Column{Name: "time", Number: true})
	for i, r := range results {
		if r == nil {
			t.AppendRow([]any{list[i].InstanceID, "open", "", "", "", "", ""})
			continue
		}
		t.AppendRow([]any{r.InstanceID, outcomeOf(r), r.Model, len(r.Attempts), r.Calls, usd(r.CostUSD), short(r.Duration)})
	}
	t.Render()
	sum := swe.Summarise(results)
	p.f("%d of %d solved, %d not, %d without a patch, %d open; %s USD in %d calls\n", sum.Solved, sum.Tasks, sum.Failed, sum.Errors, sum.Open, usd(sum.CostUSD), sum.Calls)
	return p.err
}

func outcomeOf(r *swe.Result) string {
	switch {
	case r.Solved:
		return "solved"
	case r.Error != "":
		return oneLine(r.Error)
	case r.Verdict == nil:
		return "not verified"
	}
	return r.Verdict.Outcome.String()
}

// result prints what came of a single task.
func (p *printer) result(r *swe.Result, out string) {
	for i, a := range r.Attempts {
		verdict := "not verified"
		switch {
		case a.Verdict != nil:
			verdict = a.Verdict.Outcome.String() + ": " + oneLine(a.Verdict.Evidence)
		case a.Trajectory.Why != "":
			verdict = oneLine(a.Trajectory.Why)
		}
		p.f("%d. %s, %d calls, %s USD: %s\n", i+1, a.Model, a.Trajectory.Turns, usd(a.CostUSD), verdict)
	}
	switch {
	case r.Error != "":
		p.f("\nno patch: %s\n", r.Error)
	case r.Solved:
		p.f("\nsolved by %s\n", r.Model)
	default:
		p.f("\nnot solved; the best patch is that of %s\n", r.Model)
	}
	if r.Verdict != nil && len(r.Verdict.Isolation) > 0 {
		p.f("tests ran under: %s\n", strings.Join(r.Verdict.Isolation, ", "))
	}
	if len(r.Isolation) > 0 {
		p.f("agent ran under: %s\n", strings.Join(r.Isolation, ", "))
	}
	for _, layer := range slices.Sorted(keysOf(r.Missing)) {
		p.f("  without %s: %s\n", layer, r.Missing[layer])
	}
	p.f("%s USD, %d calls, %s, of which %s in stepfall\n", usd(r.CostUSD), r.Calls, short(r.Duration), short(r.Overhead))
	switch {
	case r.Patch == "":
	case out != "":
		p.f("patch: %s (apply it with 'git apply %s')\n", out, out)
	default:
		p.f("\n%s", r.Patch)
	}
}

// exitOf turns how a run ended into the command's error.
func exitOf(ctx context.Context, results []*swe.Result, err error) error {
	sum := swe.Summarise(results)
	switch {
	case ctx.Err() != nil:
		return &ExitError{Code: exitInterrupted, Err: errors.New("interrupted; the same command with --state goes on with the rest")}
	case errors.Is(err, sdk.ErrBudgetExhausted):
		return &ExitError{Code: exitSpent, Err: err}
	case err != nil:
		return err
	case sum.Solved < sum.Tasks:
		return &ExitError{Code: exitUnsolved, Err: fmt.Errorf("%d of %d tasks are not solved", sum.Tasks-sum.Solved, sum.Tasks)}
	}
	return nil
}

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/adapters/internal/suite"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/swe"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
)

type sweBenchFlags struct {
	limit, parallel int
	export          string
	serve           bool
	queue           string
}

func newSWEBenchCommand(s Streams) *cobra.Command {
	var f sweBenchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Run the bundled suite with scripted models, and compare strategies",
		Long: `Run the bundled suite: tasks over six small repositories, with scripted models whose
edits are fixed. Work trees, the agent's tools, the verifier and its tests are real;
the same patch to the same task is tested once.

With --export DIR the repositories, tasks.jsonl and a policy are written there for
runs of your own: point the policy at a model server and use 'stepfall swe'.`,
		Args:        cobra.NoArgs,
		Annotations: hasJSON(),
		RunE:        func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	cmd.Flags().IntVar(&f.limit, "tasks", 0, "run only so many tasks; 0 means all")
	cmd.Flags().IntVar(&f.parallel, "parallel", 2, "tasks at work together")
	cmd.Flags().StringVar(&f.export, "export", "", "write the suite into this folder and run nothing")
	cmd.Flags().StringVar(&f.queue, "queue", "", queueUsage+", on this machine, where the scripted models listen")
	cmd.Flags().BoolVar(&f.serve, "serve", false, "with --export: serve the scripted models until interrupted; the policy points at them")
	return cmd
}

// sweRow is what one strategy came to on the suite.
type sweRow struct {
	Strategy string `json:"strategy"`
	swe.Summary
	// Time is the sum over the tasks, Overhead the part of it that is neither in
	// models, tools nor verifiers, for each attempt.
	Time               time.Duration `json:"time_ns"`
	OverheadPerAttempt time.Duration `json:"overhead_per_attempt_ns"`
	costs, solved      []float64
}

func (f *sweBenchFlags) run(ctx context.Context, s Streams) (err error) {
	loaded, err := suite.Load()
	if err != nil {
		return err
	}
	if f.export != "" {
		return f.exportSuite(ctx, s, loaded, f.export)
	}
	scratch, err := swe.NewScratch("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	dir := scratch.Dir
	list, err := loaded.Materialise(ctx, filepath.Join(dir, "repos"))
	if err != nil {
		return err
	}
	list = runnable(s.Err, loaded, list)
	if f.limit > 0 && f.limit < len(list) {
		var some []swe.Task
		for i := range f.limit {
			some = append(some, list[i*len(list)/f.limit])
		}
		list = some
	}
	server, err := loaded.Serve()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Fprintf(s.Err, "%d tasks, SCRIPTED models: their edits are fixed; work trees, tools and tests are real.\n", len(list))
	plugins, err := host.New(host.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()
	remembered := swe.Remember(plugins)
	bar := newProgress(s.Err, len(list)*len(suite.Strategies()), "mending")
	var rows []sweRow
	for i, strategy := range suite.Strategies() {
		policy := filepath.Join(dir, fmt.Sprintf("policy-%d.hcl", i))
		if err := os.WriteFile(policy, []byte(loaded.Policy(server.URL(), strategy[1])), 0o644); err != nil {
			return err
		}
		row, err := f.strategy(ctx, s, remembered, dir, policy, strategy[0], list, bar)
		if err != nil {
			return kept(ctx, fmt.Errorf("%s: %w", strategy[0], err), "a benchmark keeps nothing; the same command begins anew")
		}
		rows = append(rows, *row)
	}
	bar.finish()
	return s.render(rows, func(p *printer) { p.bench(rows) })
}

// runnable leaves out the tasks whose toolchain is not here, and says so.
func runnable(w io.Writer, s *suite.Suite, list []swe.Task) []swe.Task {
	var out []swe.Task
	missing := map[string]int{}
	for _, t := range list {
		if _, err := exec.LookPath(t.TestCommand[0]); err != nil {
			missing[s.Repos[t.Repo].Language]++
			continue
		}
		out = append(out, t)
	}
	for language, n := range missing {
		fmt.Fprintf(w, "%d tasks left out: no %s here\n", n, language)
	}
	return out
}

func (f *sweBenchFlags) strategy(ctx context.Context, s Streams, plugins router.Plugins, dir, policy, name string, list []swe.Task, bar *progress) (_ *sweRow, err error) {
	b, done, err := f.batch(ctx, s, plugins, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	solver := b.Solver
	b.Repos, b.Trees, b.Parallel = filepath.Join(dir, "repos"), filepath.Join(dir, "trees"), f.parallel
	row := &sweRow{Strategy: name}
	overhead, attempts := time.Duration(0), 0
	b.Done = func(r *swe.Result) {
		row.Time += r.Duration
		overhead += r.Overhead
		attempts += len(r.Attempts)
		bar.describef("%s, %s USD", name, usd(solver.Spend.SpentUSD()))
		bar.add(1)
	}
	results, err := b.Run(ctx, list)
	if err != nil {
		return nil, err
	}
	if why := swe.Unjudged(results); why != "" {
		return nil, fmt.Errorf("no verdict could be had: %s", gist(why))
	}
	row.Summary = swe.Summarise(results)
	row.costs, row.solved = make([]float64, len(results)), make([]float64, len(results))
	for i, r := range results {
		if r != nil {
			row.costs[i] = r.CostUSD
			if r.Solved {
				row.solved[i] = 1
			}
		}
	}
	row.OverheadPerAttempt = overhead / time.Duration(max(attempts, 1))
	return row, nil
}

// batch is what does a strategy's tasks: here, or through a queue.
func (f *sweBenchFlags) batch(ctx context.Context, s Streams, plugins router.Plugins, policy string) (_ *swe.Batch, done func() error, err error) {
	if f.queue != "" {
		own := sweFlags{policy: policy, queue: f.queue}
		return own.submit(ctx, s, false)
	}
	r, err := full.Open(ctx, policy, full.Options{Plugins: plugins, Logger: hclog.NewNullLogger(), Load: policies.LoadOptions{Patches: true}})
	if err != nil {
		return nil, nil, err
	}
	walls, err := swe.NewJail(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	solver := &swe.Solver{Setup: swe.FromRouter(r), Mode: swe.WholeTrajectory, Jail: walls, Spend: &swe.Spend{}}
	return &swe.Batch{Solver: solver}, r.Close, nil
}

func (p *printer) bench(rows []sweRow) {
	t := p.table(column{name: "strategy"}, column{name: "solved", number: true}, column{name: "errors", number: true}, column{name: "USD", number: true},
		column{name: "of always large", number: true}, column{name: "calls", number: true}, column{name: "time", number: true}, column{name: "overhead per attempt", number: true})
	for _, r := range rows {
		t.row(r.Strategy, fmt.Sprintf("%d/%d", r.Solved, r.Tasks), r.Errors, usd(r.CostUSD), fmt.Sprintf("%.0f %%", 100*r.CostUSD/rows[1].CostUSD), r.Calls, short(r.Time), short(r.OverheadPerAttempt))
	}
	t.print()
	account, last := &savings.Account{Baseline: "large"}, rows[len(rows)-1]
	for i, usd := range last.costs {
		account.Compare(savings.Recorded{SpentUSD: usd, BaselineUSD: rows[1].costs[i], Answered: true, Quality: last.solved[i], BaselineQuality: rows[1].solved[i]})
	}
	result := account.Result()
	p.f("%s: %s\n", last.Strategy, result.String())
}

// exportSuite writes the suite for runs of the user's own.
func (f *sweBenchFlags) exportSuite(ctx context.Context, s Streams, loaded *suite.Suite, dir string) (err error) {
	url := "http://127.0.0.1:8080/v1"
	if f.serve {
		server, err := loaded.Serve()
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	list, err := loaded.Materialise(ctx, filepath.Join(dir, "repos"))
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(file)
	for _, t := range list {
		if err := enc.Encode(t); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	policy := loaded.Policy(url, suite.Strategies()[3][1])
	if err := os.WriteFile(filepath.Join(dir, "policy.hcl"), []byte(policy), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%d tasks in %s; run them with\n  stepfall swe --repos %s --task %s --policy %s\n", len(list), dir,
		filepath.Join(dir, "repos"), filepath.Join(dir, "tasks.jsonl"), filepath.Join(dir, "policy.hcl"))
	if f.serve {
		fmt.Fprintf(s.Out, "scripted models at %s until interrupted\n", url)
		<-ctx.Done()
	}
	return nil
}

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Options configures a run of the demo.
type Options struct {
	// Policy is the file with the models and the verifier.
	Policy string
	Tasks  []tasks.Task
	// Parallel bounds the calls in flight while outcomes are collected; 0 means 2.
	Parallel int
	// Logger logs what the plugin does; nil logs nothing.
	Logger hclog.Logger
	// Progress, when not nil, is called after each outcome and each fit, one at a time.
	Progress func(doing string)
}

// Units returns how often Progress is called for this many tasks and models.
func Units(tasks, models int) int {
	if tasks < minTasksToLearn {
		return tasks * models
	}
	return tasks*models + len(kinds)*len(shares)*2
}

// minTasksToLearn is the number of tasks needed for fitting on one half.
const minTasksToLearn = 40

// shares are the budgets relative to the cost of the most expensive model; 0 means no budget.
var shares = []float64{0.1, 0.2, 0.35, 0.5, 0}

// kinds are the strategies that are compared.
var kinds = []struct{ name, kind string }{
	{"threshold cascade", cascade.NameThreshold}, {"cascade routing", cascade.NameCascadeRoute}, {"index", cascade.NameIndex},
}

// Row is the result of one strategy: one point, or one for each budget.
type Row struct {
	Strategy string `json:"strategy"`
	// Single marks the rows that always ask the same model.
	Single bool    `json:"single,omitempty"`
	Points []Point `json:"points"`
}

// Point is the result of a strategy with one budget.
type Point struct {
	// Budget is relative to the cost of the most expensive model; 0 means no budget.
	Budget  float64      `json:"budget,omitempty"`
	Solved  int          `json:"solved"`
	CostUSD float64      `json:"cost_usd"`
	Calls   int          `json:"calls"`
	Traces  []*sdk.Trace `json:"-"`
}

// Report is the result of the demo.
type Report struct {
	// Models are the models, cheapest first.
	Models []string `json:"models"`
	// Tasks is the number of tasks that every model answered.
	Tasks int `json:"tasks"`
	// Learnt reports that the strategies were fitted. With few tasks they are not, and the policy's beliefs decide.
	Learnt bool  `json:"learnt"`
	Rows   []Row `json:"rows"`
	// Gains has one entry for each fitted strategy.
	Gains []Gain `json:"gains,omitempty"`
}

type demo struct {
	o        *Options
	policy   *policies.Policy
	models   []sdk.Model // cheapest first
	work     string
	outcomes *outcome.Table
	calls    map[[2]string]sdk.Call // by task and model
	report   *Report
}

// Run collects outcomes, fits strategies and solves the tasks.
func Run(ctx context.Context, o Options) (*Report, error) {
	policy, err := policies.Load(o.Policy, policies.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if len(policy.Models) < 2 || len(policy.Verifiers) == 0 {
		return nil, fmt.Errorf("%s: the demo needs a policy with at least two models and a verifier that runs tests", o.Policy)
	}
	return run(ctx, &o, policy, nil)
}

// run is Run with a loaded policy, and with plugins other than the policy's unless they are nil.
func run(ctx context.Context, o *Options, policy *policies.Policy, plugins router.Plugins) (_ *Report, err error) {
	d := &demo{o: o, policy: policy, models: policy.SDKModels(), calls: map[[2]string]sdk.Call{}, report: &Report{}}
	slices.SortStableFunc(d.models, func(a, b sdk.Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	for _, m := range d.models {
		d.report.Models = append(d.report.Models, m.Name)
	}
	if d.work, err = os.MkdirTemp("", "stepfall-demo-*"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.work)) }()
	if err := d.collect(ctx, plugins); err != nil {
		return nil, err
	}
	d.report.Tasks = len(d.outcomes.Queries)
	d.report.Learnt = d.report.Tasks >= minTasksToLearn
	if err := d.solve(ctx); err != nil {
		return nil, err
	}
	if d.report.Learnt {
		err = d.report.compare(ctx, d.outcomes)
	}
	return d.report, err
}

// collect runs every model on every task and verifies the answers.
func (d *demo) collect(ctx context.Context, plugins router.Plugins) error {
	list := make([]collect.Task, len(d.o.Tasks))
	for i := range d.o.Tasks {
		t := &d.o.Tasks[i]
		dir := filepath.Join(d.work, t.Name)
		if err := errors.Join(os.Mkdir(dir, 0o755), t.Write(dir)); err != nil {
			return err
		}
		list[i] = collect.Task{QueryID: t.Name, Group: t.Group(), Prompt: t.Prompt(), WorkDir: dir}
	}
	var mu sync.Mutex
	reported := 0
	file := filepath.Join(d.work, "outcomes.jsonl")
	sum, err := collect.Run(ctx, collect.Options{
		Policy: d.policy, Tasks: list, Out: file, Parallel: cmp.Or(d.o.Parallel, 2),
		Router: router.Options{Plugins: plugins, Logger: d.o.Logger, Traces: func(_ context.Context, t *sdk.Trace) {
			mu.Lock()
			defer mu.Unlock()
			for i := range t.Calls {
				d.calls[[2]string{t.QueryID, t.Calls[i].Model}] = t.Calls[i]
			}
		}},
		Progress: func(s collect.Summary) {
			mu.Lock()
			defer mu.Unlock()
			for ; reported < s.New+s.Failed && d.o.Progress != nil; reported++ {
				d.o.Progress(fmt.Sprintf("answers, tested, %.6f USD", s.SpentUSD))
			}
		},
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if sum.New == 0 && len(sum.Faults) > 0 {
		_, why, _ := strings.Cut(sum.Faults[0], "inconclusive: ")
		return fmt.Errorf("no task got a verdict, so there is nothing to compare: %s", cmp.Or(why, sum.Faults[0]))
	}
	if err != nil && !errors.Is(err, collect.ErrWasted) {
		return err
	}
	table, err := outcome.Open(file, outcome.Options{Verified: true})
	if err == nil {
		table, err = table.Select(d.report.Models...)
	}
	if err != nil {
		return err
	}
	// The file is in the order of completion. The order of tasks makes fits reproducible.
	var rows []int
	for _, t := range list {
		if row := slices.Index(table.Queries, t.QueryID); row >= 0 {
			rows = append(rows, row)
		}
	}
	d.outcomes = table.Rows(rows).Complete()
	return nil
}

// solve computes the rows: each model alone, and the strategies.
func (d *demo) solve(ctx context.Context) error {
	for _, name := range d.report.Models {
		p, err := d.point(ctx, "always "+name, 0, func(*outcome.Table) (policies.Strategy, string, error) {
			return policies.Strategy{Kind: cascade.NameThreshold, Threshold: []float64{0}, Order: []string{name}, Answer: "best"}, "", nil
		})
		if err != nil {
			return err
		}
		d.report.Rows = append(d.report.Rows, Row{Strategy: "always " + name, Single: true, Points: []Point{*p}})
	}
	budgets := shares
	if !d.report.Learnt {
		budgets = []float64{0}
	}
	for _, k := range kinds {
		row := Row{Strategy: k.name}
		for _, share := range budgets {
			p, err := d.point(ctx, k.name, share, func(other *outcome.Table) (policies.Strategy, string, error) {
				if !d.report.Learnt {
					return d.strategyOfBeliefs(k.kind), "", nil
				}
				profile, err := d.learn(ctx, k.name, k.kind, share, other)
				return policies.Strategy{Kind: k.kind}, profile, err
			})
			if errors.Is(err, errOverBudget) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			row.Points = append(row.Points, *p)
		}
		d.report.Rows = append(d.report.Rows, row)
	}
	return nil
}

// point solves each half of the tasks with the strategy, and the profile's file, that choose returns for the other
// half.
func (d *demo) point(ctx context.Context, name string, share float64, choose func(other *outcome.Table) (policies.Strategy, string, error)) (*Point, error) {
	p := &Point{Budget: share, Traces: make([]*sdk.Trace, d.report.Tasks)}
	for h := range 2 {
		var own, other []int
		for row := range p.Traces {
			if row%2 == h {
				own = append(own, row)
			} else {
				other = append(other, row)
			}
		}
		policy := *d.policy
		strategy, profile, err := choose(d.outcomes.Rows(other))
		if err != nil {
			return nil, err
		}
		policy.Strategy, policy.Matches, policy.Fit = strategy, nil, nil
		// The fit accounts for the budget; pacing would also correct by what this half has cost so far.
		policy.Budget.HoldOver = 0
		if profile != "" {
			policy.Fit = &policies.Fit{Profile: profile}
		}
		f, err := forecast.New(ctx, &policy, &forecast.Table{Outcomes: d.outcomes.Rows(own)}, forecast.Options{Keep: true, Explain: true, Seed: 1})
		if err != nil {
			return nil, err
		}
		for i, t := range f.Traces {
			t.Run = name
			d.complete(t)
			p.Traces[own[i]] = t
			p.CostUSD += t.CostUSD
			p.Calls += len(t.Calls)
			p.Solved += int(quality(IsSolved(t)))
		}
	}
	return p, nil
}

// complete adds the recorded times, texts and evidence to a trace's calls. The step starts with its first call.
func (d *demo) complete(t *sdk.Trace) {
	for i := range t.Calls {
		c := &t.Calls[i]
		if recorded, ok := d.calls[[2]string{t.QueryID, c.Model}]; ok {
			recorded.CostUSD, recorded.Quality = c.CostUSD, c.Quality
			*c = recorded
		}
		t.Duration += c.Latency
	}
	if len(t.Calls) > 0 {
		t.Start = t.Calls[0].Start
	}
}

func (d *demo) strategyOfBeliefs(kind string) policies.Strategy {
	if kind == cascade.NameThreshold {
		return policies.Strategy{Kind: kind, Threshold: []float64{0.5}, Order: d.report.Models, Answer: "best"}
	}
	lambda := d.policy.Strategy.Lambda
	if len(lambda) == 0 {
		lambda = []float64{50}
	}
	return policies.Strategy{Kind: kind, Variant: "exact", Lambda: lambda, Scale: 1}
}

// errOverBudget means that a strategy at its cheapest exceeds the budget.
var errOverBudget = errors.New("the budget cannot be met")

func (d *demo) learn(ctx context.Context, name, kind string, share float64, from *outcome.Table) (string, error) {
	profile, err := fit.Fit(ctx, from, fit.Options{Strategy: kind, BudgetUSD: share * slices.Max(from.MeanCosts()), Models: d.models, Seed: 1})
	if err != nil {
		return "", err
	}
	if d.o.Progress != nil {
		d.o.Progress("answers; now fitting " + name + " and solving")
	}
	if profile.Budget.Over {
		return "", errOverBudget
	}
	file := filepath.Join(d.work, "profile.json")
	return file, profile.Save(file)
}

// IsSolved reports whether the answer of a step passed its tests.
func IsSolved(t *sdk.Trace) bool {
	return slices.ContainsFunc(t.Calls, func(c sdk.Call) bool {
		return c.Model == t.Chosen && c.Verdict != nil && c.Verdict.Outcome == sdk.Passed
	})
}

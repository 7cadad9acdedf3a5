package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"
	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/swe"
	"github.com/stepfall/stepfall/adapters/swe/tasks"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Options say what to run.
type Options struct {
	// Policy is the file with the models and the verifier; its strategy is the one
	// of the rows "cascade routing" and "index" where it has a lambda.
	Policy string
	Tasks  []tasks.Task
	// Parallel bounds the tasks at work together; 0 means 2.
	Parallel int
	// Logger hears about the plugin; nil is silence.
	Logger hclog.Logger
	// Done, when not nil, is told of each finished task, one at a time.
	Done func(strategy string, t *sdk.Trace)
}

// Row is what one strategy came to.
type Row struct {
	Strategy string  `json:"strategy"`
	Solved   int     `json:"solved"`
	Tasks    int     `json:"tasks"`
	CostUSD  float64 `json:"cost_usd"`
	Calls    int     `json:"calls"`
	// Time is the sum over the tasks of the time in models and tests.
	Time time.Duration `json:"time_ns"`
	// Single marks the rows that always ask the same model.
	Single bool         `json:"single,omitempty"`
	Traces []*sdk.Trace `json:"-"`
	// Errors counts the tasks that gave no answer at all.
	Errors int `json:"errors,omitempty"`
}

// Report is what the demo found.
type Report struct {
	Models []string `json:"models"`
	Rows   []Row    `json:"rows"`
}

// Strategies returns how many strategies a run compares.
const Strategies = 5

// Run solves the tasks once with each strategy.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	policy, err := policies.Load(o.Policy, policies.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if len(policy.Models) < 2 || len(policy.Verifiers) == 0 {
		return nil, fmt.Errorf("%s: the demo needs a policy with at least two models and a verifier that runs tests", o.Policy)
	}
	work, err := os.MkdirTemp("", "stepfall-demo-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for i := range o.Tasks {
		dir := filepath.Join(work, o.Tasks[i].Name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if err := o.Tasks[i].Write(dir); err != nil {
			return nil, err
		}
	}
	settings := map[string]host.PluginConfig{}
	for _, p := range policy.Plugins {
		settings[p.Name] = host.PluginConfig{Path: p.Path, SHA256: p.Checksum, PassEnv: p.Env, StartTimeout: p.StartTimeout}
	}
	plugins, err := host.New(host.Config{Plugins: settings, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.Close()) }()

	models := policy.SDKModels()
	slices.SortStableFunc(models, func(a, b sdk.Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	report := &Report{}
	for _, m := range models {
		report.Models = append(report.Models, m.Name)
	}
	remembered := swe.Remember(plugins)
	for _, s := range strategies(policy, models) {
		row, err := s.run(ctx, policy, remembered, work, &o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		if why := row.unjudged(); why != "" {
			return nil, fmt.Errorf("no verdict could be had on any task, so there is nothing to compare: %s", why)
		}
		report.Rows = append(report.Rows, *row)
	}
	return report, nil
}

// strategy is one row of the comparison.
type strategy struct {
	name   string
	single bool
	policies.Strategy
}

func strategies(p *policies.Policy, models []sdk.Model) []strategy {
	order := make([]string, len(models))
	for i, m := range models {
		order[i] = m.Name
	}
	lambda := p.Strategy.Lambda
	if len(lambda) == 0 {
		lambda = []float64{50}
	}
	first, last := order[:1], order[len(order)-1:]
	return []strategy{
		{"always " + first[0], true, policies.Strategy{Kind: "threshold", Threshold: []float64{0}, Order: first, Answer: "best"}},
		{"always " + last[0], true, policies.Strategy{Kind: "threshold", Threshold: []float64{0}, Order: last, Answer: "best"}},
		{"threshold cascade", false, policies.Strategy{Kind: "threshold", Threshold: []float64{0.5}, Order: order, Answer: "best"}},
		{"cascade routing", false, policies.Strategy{Kind: "cascade_route", Variant: "exact", Lambda: lambda, Scale: 1}},
		{"index", false, policies.Strategy{Kind: "index", Lambda: lambda, Scale: 1}},
	}
}

// run solves all tasks with one strategy.
func (s *strategy) run(ctx context.Context, base *policies.Policy, plugins router.Plugins, work string, o *Options) (_ *Row, err error) {
	policy := *base
	policy.Strategy, policy.Matches, policy.Fit = s.Strategy, nil, nil
	policy.Trace.Explain = true
	r, err := router.New(ctx, &policy, router.Options{Plugins: plugins, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	row := &Row{Strategy: s.name, Single: s.single, Tasks: len(o.Tasks), Traces: make([]*sdk.Trace, len(o.Tasks))}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(o.Parallel, 2))
	for i := range o.Tasks {
		group.Go(func() error {
			trace, err := solve(ctx, r, &o.Tasks[i], s.name, work)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if trace == nil {
				return fmt.Errorf("task %s: %w", o.Tasks[i].Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			row.Traces[i] = trace
			row.add(trace)
			if o.Done != nil {
				o.Done(s.name, trace)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return row, nil
}

// solve runs one task as one step of the run. The trace is nil when the step never began.
func solve(ctx context.Context, model llms.Model, t *tasks.Task, run, work string) (*sdk.Trace, error) {
	ctx = middleware.WithInfo(ctx, middleware.Info{QueryID: t.Name, Group: fmt.Sprintf("repair/level-%d", t.Level), Run: run, WorkDir: filepath.Join(work, t.Name)})
	ctx, report := middleware.WithReport(ctx)
	_, err := model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, t.Prompt())})
	steps := report.Steps()
	if len(steps) == 0 {
		return nil, err
	}
	return steps[len(steps)-1], err
}

func (r *Row) add(t *sdk.Trace) {
	r.CostUSD += t.CostUSD
	r.Calls += len(t.Calls)
	if t.Chosen == "" {
		r.Errors++
	}
	for _, c := range t.Calls {
		r.Time += c.Latency
		if c.Verdict != nil {
			r.Time += c.Verdict.Duration
		}
	}
	if Solved(t) {
		r.Solved++
	}
}

// unjudged says why no answer of the row has a verdict; it is empty when one has.
func (r *Row) unjudged() string {
	why := "no verifier was asked"
	for _, t := range r.Traces {
		for _, c := range t.Calls {
			switch {
			case c.Verdict == nil:
			case c.Verdict.Outcome != sdk.Inconclusive:
				return ""
			case c.Verdict.Evidence != "":
				why = t.QueryID + ": " + c.Verdict.Evidence
			}
		}
	}
	return why
}

// Solved reports whether the answer of a step passed its tests.
func Solved(t *sdk.Trace) bool {
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model == t.Chosen && c.Verdict != nil && c.Verdict.Outcome == sdk.Passed {
			return true
		}
	}
	return false
}

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/swe"
	"github.com/stepfall/stepfall/plugins/host"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// Options say what to run.
type Options struct {
	// Policy is the file with the models and the verifier.
	Policy string
	Tasks  []tasks.Task
	// Parallel bounds the calls under way while outcomes are collected; 0 means 2.
	Parallel int
	// Logger hears about the plugin; nil is silence.
	Logger hclog.Logger
	// Collected, when not nil, is told of each outcome that was collected, and Fitted
	// of each fit; they are called one at a time.
	Collected func(costUSD float64)
	Fitted    func(strategy string)
}

// Work returns how often Collected and Fitted are called for so many tasks and models.
func Work(tasks, models int) (outcomes, fits int) {
	if tasks >= enough {
		fits = len(kinds) * len(shares) * 2
	}
	return tasks * models, fits
}

// Row is what one strategy came to: one point, or one for each budget.
type Row struct {
	Strategy string `json:"strategy"`
	// Single marks the rows that always ask the same model.
	Single bool    `json:"single,omitempty"`
	Points []Point `json:"points"`
}

// Point is what a strategy came to with one budget.
type Point struct {
	// Budget is the share that was allowed of what the dearest model costs; 0 is no
	// budget.
	Budget  float64 `json:"budget,omitempty"`
	Solved  int     `json:"solved"`
	CostUSD float64 `json:"cost_usd"`
	Calls   int     `json:"calls"`
	// Errors counts the tasks that gave no answer at all.
	Errors int          `json:"errors,omitempty"`
	Traces []*sdk.Trace `json:"-"`
}

// Report is what the demo found.
type Report struct {
	// Models are the models, cheapest first.
	Models []string `json:"models"`
	Tasks  int      `json:"tasks"`
	// Learnt says whether the strategies were fitted; of few tasks nothing can be
	// learnt, and the policy's beliefs decide.
	Learnt bool  `json:"learnt"`
	Rows   []Row `json:"rows"`
	// Gains has one entry for each strategy that was fitted.
	Gains []Gain `json:"gains,omitempty"`
}

// demo is a run.
type demo struct {
	o       *Options
	policy  *policies.Policy
	models  []sdk.Model // cheapest first
	plugins router.Plugins
	asked   *answers
	work    string
	report  *Report
}

// Run collects, fits and solves.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	policy, err := policies.Load(o.Policy, policies.LoadOptions{})
	if err != nil {
		return nil, err
	}
	if len(policy.Models) < 2 || len(policy.Verifiers) == 0 {
		return nil, fmt.Errorf("%s: the demo needs a policy with at least two models and a verifier that runs tests", o.Policy)
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
	return run(ctx, &o, policy, swe.Remember(plugins))
}

// run is Run with the plugins at hand.
func run(ctx context.Context, o *Options, policy *policies.Policy, plugins router.Plugins) (_ *Report, err error) {
	d := &demo{o: o, policy: policy, plugins: plugins, asked: &answers{}, report: &Report{Tasks: len(o.Tasks)}}
	if d.work, err = os.MkdirTemp("", "stepfall-demo-*"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.work)) }()
	for i := range o.Tasks {
		dir := d.folder(i)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if err := o.Tasks[i].Write(dir); err != nil {
			return nil, err
		}
	}
	d.models = d.policy.SDKModels()
	slices.SortStableFunc(d.models, func(a, b sdk.Model) int { return cmp.Compare(a.Price.Output, b.Price.Output) })
	for _, m := range d.models {
		d.report.Models = append(d.report.Models, m.Name)
	}
	halves, err := d.collect(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.solve(ctx, halves); err != nil {
		return nil, err
	}
	if d.report.Learnt {
		err = d.report.compare(ctx)
	}
	return d.report, err
}

// folder is where the files of task i are.
func (d *demo) folder(i int) string { return filepath.Join(d.work, d.o.Tasks[i].Name) }

// Solved reports whether the answer of a step passed its tests.
func Solved(t *sdk.Trace) bool {
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Model == t.Chosen && c.Verdict != nil && c.Verdict.Outcome == sdk.Passed {
			return true
		}
	}
	return false
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/internal/tasks"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/fit"
)

// enough is how many tasks it takes to learn from one half.
const enough = 40

// shares are the budgets, as shares of what the dearest model costs; 0 is none.
var shares = []float64{0.1, 0.2, 0.35, 0.5, 0}

// kinds are the strategies that are compared.
var kinds = []struct{ name, kind string }{
	{"threshold cascade", cascade.NameThreshold}, {"cascade routing", cascade.NameCascadeRoute}, {"index", cascade.NameIndex},
}

// solve makes the rows: each model alone, and the strategies.
func (d *demo) solve(ctx context.Context, halves [2]half) error {
	for _, name := range d.report.Models {
		alone := policies.Strategy{Kind: cascade.NameThreshold, Threshold: []float64{0}, Order: []string{name}, Answer: "best"}
		p := Point{Traces: make([]*sdk.Trace, len(d.o.Tasks))}
		for h := range halves {
			if err := d.run(ctx, "always "+name, alone, "", &halves[h], &p); err != nil {
				return err
			}
		}
		d.report.Rows = append(d.report.Rows, Row{Strategy: "always " + name, Single: true, Points: []Point{p}})
	}
	d.report.Learnt = len(d.o.Tasks) >= enough
	for _, k := range kinds {
		row := Row{Strategy: k.name}
		points := shares
		if !d.report.Learnt {
			points = []float64{0}
		}
		for _, share := range points {
			p, err := d.point(ctx, k.name, k.kind, share, halves)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if p != nil {
				row.Points = append(row.Points, *p)
			}
		}
		d.report.Rows = append(d.report.Rows, row)
	}
	return nil
}

// point solves each half with what the other taught. It is nil where the strategy costs
// more than the budget at its cheapest.
func (d *demo) point(ctx context.Context, name, kind string, share float64, halves [2]half) (*Point, error) {
	p := &Point{Budget: share, Traces: make([]*sdk.Trace, len(d.o.Tasks))}
	for h := range halves {
		strategy, profile := d.believed(kind), ""
		if d.report.Learnt {
			strategy = policies.Strategy{Kind: kind}
			var err error
			if profile, err = d.learn(ctx, name, kind, share, &halves[1-h]); err != nil || profile == "" {
				return nil, err
			}
		}
		if err := d.run(ctx, name, strategy, profile, &halves[h], p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// believed is a strategy that goes by the policy's beliefs.
func (d *demo) believed(kind string) policies.Strategy {
	if kind == cascade.NameThreshold {
		return policies.Strategy{Kind: kind, Threshold: []float64{0.5}, Order: d.report.Models, Answer: "best"}
	}
	lambda := d.policy.Strategy.Lambda
	if len(lambda) == 0 {
		lambda = []float64{50}
	}
	return policies.Strategy{Kind: kind, Variant: "exact", Lambda: lambda, Scale: 1}
}

// learn fits a strategy to the outcomes of a half and returns the file of the profile,
// or "" where the budget cannot be met.
func (d *demo) learn(ctx context.Context, name, kind string, share float64, from *half) (string, error) {
	if from.outcomes == nil {
		return "", errors.New("no outcomes to learn from")
	}
	dearest := slices.Max(from.outcomes.MeanCosts())
	profile, err := fit.Fit(ctx, from.outcomes, fit.Options{Strategy: kind, BudgetUSD: share * dearest, Models: d.models, Seed: 1})
	if err != nil {
		return "", err
	}
	if d.o.Fitted != nil {
		d.o.Fitted(name)
	}
	if profile.Budget.Over {
		return "", nil
	}
	file := filepath.Join(d.work, "profile.json")
	return file, profile.Save(file)
}

// run solves the tasks of one half, one after the other, and adds what came of them.
func (d *demo) run(ctx context.Context, name string, s policies.Strategy, profile string, h *half, p *Point) (err error) {
	policy := *d.policy
	policy.Strategy, policy.Matches, policy.Fit = s, nil, nil
	policy.Trace.Explain = true
	// The budget is the fit's; pacing would hold it by what this half has cost so far.
	policy.Budget.HoldOver = 0
	if profile != "" {
		policy.Fit = &policies.Fit{Profile: profile}
	}
	r, err := router.New(ctx, &policy, full.Complete(router.Options{Plugins: d.plugins, Logger: d.o.Logger, Transport: d.asked, Seed: 1}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, i := range h.tasks {
		t := &d.o.Tasks[i]
		trace, err := one(ctx, r, t, name, d.folder(i))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if trace == nil {
			return fmt.Errorf("task %s: %w", t.Name, err)
		}
		p.add(i, trace)
	}
	return nil
}

// one runs one task as one step of the run. The trace is nil when the step never began.
func one(ctx context.Context, model llms.Model, t *tasks.Task, run, folder string) (*sdk.Trace, error) {
	ctx = middleware.WithInfo(ctx, middleware.Info{QueryID: t.Name, Group: t.Group(), Run: run, WorkDir: folder})
	ctx, report := middleware.WithReport(ctx)
	_, err := model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, t.Prompt())})
	steps := report.Steps()
	if len(steps) == 0 {
		return nil, err
	}
	return steps[len(steps)-1], err
}

func (p *Point) add(i int, t *sdk.Trace) {
	p.Traces[i] = t
	p.CostUSD += t.CostUSD
	p.Calls += len(t.Calls)
	if t.Chosen == "" {
		p.Errors++
	}
	if Solved(t) {
		p.Solved++
	}
}

package agents

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/adapters/full"
	"github.com/stepfall/stepfall/adapters/router"
	"github.com/stepfall/stepfall/adapters/scripted"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
)

// learn is the number of learning tasks of each agent; the others are measured.
const learn = 40

// A Run is the result of one task on one road.
type Run struct {
	Right   bool
	USD     float64
	Calls   int
	Seconds float64
	Steps   int
	// Err is why the run ended early.
	Err error
}

// A Bench runs agents at roads.
type Bench struct {
	Agents []*Agent
	// Real asks the models that policies name, where they are, in place of scripted ones.
	Real bool
	// Dir is a folder for what roads write: policies, traces, profiles.
	Dir string
}

// tasks selects the tasks: those for learning or the others, and whether their results are reported.
type tasks struct{ learning, reported bool }

// run does tasks of the agents at a road, under its policy.
func (b *Bench) run(ctx context.Context, road *Road, text string, which tasks) ([]Run, error) {
	p, err := policies.Parse(filepath.Join(b.Dir, "policy.hcl"), []byte(text), policies.LoadOptions{HasVerifier: road.Verify != nil})
	if err != nil {
		return nil, err
	}
	cast := NewCast(b.Agents...)
	server, err := scripted.Start(scripted.Options{Respond: cast.Respond})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	served := map[string]string{}
	for i := range p.Models {
		m := &p.Models[i]
		served[m.Name] = m.Served
		if !b.Real {
			// Prices and capabilities stay those of the model; only who answers is another.
			m.Provider, m.API, m.BaseURL = "openai", "chat", server.URL()
		}
	}
	o := full.Complete(router.Options{Seed: 1, Logger: hclog.NewNullLogger()})
	if road.Verify != nil {
		o.Verify = road.Verify(cast)
	}
	open := func() (*router.Router, error) { return router.New(ctx, p, o) }
	if road.Wrap {
		if o.Models, err = clients(p, o.Providers); err != nil {
			return nil, err
		}
		for _, m := range p.Models {
			served[m.Served] = m.Served
		}
		open = func() (*router.Router, error) { return router.Wrap(ctx, 0.05, o) }
	}
	model, err := open()
	if err != nil {
		return nil, err
	}
	runs, err := b.do(ctx, model, served, which)
	return runs, errors.Join(err, model.Close())
}

// clients returns the models of a policy as clients in a program.
func clients(p *policies.Policy, providers map[string]middleware.OpenClient) (map[string]llms.Model, error) {
	models := map[string]llms.Model{}
	for _, m := range p.Models {
		model, err := providers[m.Provider](middleware.ClientConfig{Model: m.Served, BaseURL: m.BaseURL, API: m.API, APIKey: "scripted", MaxOutputTokens: m.MaxOutputTokens})
		if err != nil {
			return nil, err
		}
		models[m.Served] = model
	}
	return models, nil
}

func (b *Bench) do(ctx context.Context, model *router.Router, served map[string]string, which tasks) ([]Run, error) {
	var runs []Run
	for _, a := range b.Agents {
		list := a.Tasks[learn:]
		if which.learning {
			list = a.Tasks[:learn]
		}
		for _, t := range list {
			runCtx, report := middleware.WithReport(middleware.WithInfo(ctx, middleware.Info{Run: t.ID, Session: t.ID}))
			var r Run
			r.Right, r.Err = a.Run(runCtx, model, t)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if which.reported {
				v := sdk.Verdict{Outcome: sdk.Failed}
				if r.Right {
					v.Outcome = sdk.Passed
				}
				if err := model.Report(ctx, t.ID, v); err != nil {
					return nil, err
				}
			}
			for _, step := range report.Steps() {
				r.Steps++
				r.count(step, served)
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// count adds a step's usage; concurrent calls take as long as the slowest one. Of a judge's calls only the cost is
// known.
func (r *Run) count(step *sdk.Trace, served map[string]string) {
	r.USD += step.CostUSD
	before := 0.0
	for i, call := range step.Calls {
		r.Calls++
		took := Latency(served[call.Model], call.Usage.OutputTokens).Seconds()
		if i > 0 && call.Start.Before(step.Calls[i-1].Start.Add(step.Calls[i-1].Latency)) {
			r.Seconds -= min(before, took) // both were under way at once
		}
		r.Seconds += took
		before = took
	}
}

// A Row is the result of all runs of a road, compared with always asking the large model.
type Row struct {
	Road Road
	Runs []Run
	// Refused is why there are none.
	Refused string
}

// Interval is a mean with the bounds of its 95 % interval.
type Interval struct{ Mean, Low, High float64 }

// Success returns the share of the runs that were right.
func (r *Row) Success() float64 {
	return mean(r.Runs, func(x Run) float64 {
		if x.Right {
			return 1
		}
		return 0
	})
}

func mean(runs []Run, of func(Run) float64) float64 {
	sum := 0.0
	for _, x := range runs {
		sum += of(x)
	}
	return sum / float64(max(len(runs), 1))
}

// resamples is the number of bootstrap samples of the tasks for an interval.
const resamples = 2000

// Against returns the difference in success to another row, in points, and the cost as a share of its cost, in per
// cent, both paired by task, with bootstrap intervals over tasks.
func (r *Row) Against(base *Row) (points, cost Interval) {
	rng := rand.New(rand.NewPCG(1, 33))
	n := len(r.Runs)
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	compute := func() (float64, float64) {
		right, spent, against := 0, 0.0, 0.0
		for _, i := range at {
			if r.Runs[i].Right {
				right++
			}
			if base.Runs[i].Right {
				right--
			}
			spent += r.Runs[i].USD
			against += base.Runs[i].USD
		}
		return 100 * float64(right) / float64(n), 100 * spent / against
	}
	points.Mean, cost.Mean = compute()
	var all [2][]float64
	for range resamples {
		for i := range at {
			at[i] = rng.IntN(n)
		}
		a, b := compute()
		all[0], all[1] = append(all[0], a), append(all[1], b)
	}
	for i, to := range []*Interval{&points, &cost} {
		slices.Sort(all[i])
		to.Low, to.High = all[i][resamples/40], all[i][resamples-1-resamples/40]
	}
	return points, cost
}

// Open creates the three agents with n tasks each besides those for learning, and the folder for the files of roads.
// The caller calls done after the last run.
func Open(ctx context.Context, n int) (b *Bench, done func() error, err error) {
	n += learn
	database, closeDatabase, err := Database(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	files, remove, err := Files(ctx, n)
	if err != nil {
		return nil, nil, errors.Join(err, closeDatabase())
	}
	b = &Bench{Agents: []*Agent{OrderDesk(n), database, files}}
	if b.Dir, err = os.MkdirTemp("", "roads"); err != nil {
		return nil, nil, errors.Join(err, remove(), closeDatabase())
	}
	// By this the command sees what the program is.
	source := "package agent\n\nimport \"github.com/tmc/langchaingo/llms\"\n\nvar option = llms.WithTools(nil)\n"
	if err := os.WriteFile(filepath.Join(b.Dir, "agent.go"), []byte(source), 0o600); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(b.Dir), remove(), closeDatabase())
	}
	return b, func() error { return errors.Join(os.RemoveAll(b.Dir), remove(), closeDatabase()) }, nil
}

// errorRates returns how often each model errs in each kind of step, over all steps of error-free runs: the first
// table of the page.
func (b *Bench) errorRates(ctx context.Context) ([][kinds]float64, error) {
	var counts [kinds]int
	rates := make([][kinds]float64, len(Models))
	for _, a := range b.Agents {
		for _, t := range a.Tasks[learn:] {
			steps, err := t.steps(ctx)
			if err != nil {
				return nil, err
			}
			for i := range steps {
				counts[steps[i].Kind]++
				for m := range Models {
					if Models[m].errs(t.ID, &steps[i]) {
						rates[m][steps[i].Kind]++
					}
				}
			}
		}
	}
	for m := range rates {
		for k := range rates[m] {
			rates[m][k] /= float64(counts[k])
		}
	}
	return rates, nil
}

// steps returns the steps of a task that is done without an error.
func (t *Task) steps(ctx context.Context) ([]Step, error) {
	world, s := t.Open(), &Conversation{}
	var list []Step
	for len(list) < MaxTurns {
		s.Next, s.used = Step{}, 0
		t.Solve(s)
		list = append(list, s.Next)
		move := s.Next.Right[0]
		if move.Call.Name == "" {
			if !world.Right(move.Text) {
				return nil, fmt.Errorf("%s: done without an error, and not right", t.ID)
			}
			return list, nil
		}
		result, err := world.Do(ctx, move.Call)
		if err != nil {
			return nil, err
		}
		s.Calls, s.Results = append(s.Calls, move.Call), append(s.Results, result)
	}
	return nil, fmt.Errorf("%s: not done in %d turns", t.ID, MaxTurns)
}

// Measure runs a road on the measured tasks. A road that fails has a row that says why.
func (b *Bench) Measure(ctx context.Context, road Road) (*Row, error) {
	row := &Row{Road: road}
	policy, err := road.Make(ctx, b)
	if err == nil {
		row.Runs, err = b.run(ctx, &road, policy, tasks{})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		row.Refused = strings.ReplaceAll(err.Error(), b.Dir+string(filepath.Separator), "")
	}
	return row, nil
}

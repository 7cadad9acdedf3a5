package paper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// The share of steps that explore, and on how many random splits drifts are replayed.
const driftExplore = 0.1

func (e *Env) driftSplits() int { return 2 * e.splits() }

// alarmSplits is on how many random halves false alarms are counted: 100 unless
// Env.Splits says otherwise.
func (e *Env) alarmSplits() int { return 20 * e.splits() }

// world is what happens to outcomes after a profile was fitted.
type world struct {
	name string
	// train changes what the profile is fitted to, use what is met afterwards.
	train, use func(t *outcome.Table, rng *rand.Rand) *outcome.Table
}

func driftWorlds() []world {
	same := func(t *outcome.Table, _ *rand.Rand) *outcome.Table { return t }
	return []world{
		{"nothing changes", same, same},
		{"price cut: the dearest model costs a third", same, cheaper},
		{"the cheapest model is right a third less often", same, worse},
		{"a new kind of query: one group is met in use only", withoutModel, same},
	}
}

// cheaper cuts the price of the dearest model.
func cheaper(t *outcome.Table, _ *rand.Rand) *outcome.Table {
	c := clone(t)
	dearest := eval.NewFrame(t.MeanCosts(), t.MeanQualities()).Dearest
	for q := range c.CostUSD {
		c.CostUSD[q][dearest] /= 3
	}
	return c
}

// worse takes from the cheapest model a third of what it does right.
func worse(t *outcome.Table, rng *rand.Rand) *outcome.Table {
	c := clone(t)
	cheapest := eval.NewFrame(t.MeanCosts(), t.MeanQualities()).Cheapest
	for q := range c.Quality {
		if rng.Float64() < 1./3 {
			c.Quality[q][cheapest] = 0
		}
	}
	return c
}

// withoutModel leaves one group out: the last by name.
func withoutModel(t *outcome.Table, _ *rand.Rand) *outcome.Table {
	last := ""
	for q := range t.Queries {
		last = max(last, t.Group(q))
	}
	var keep []int
	for q := range t.Queries {
		if t.Group(q) != last {
			keep = append(keep, q)
		}
	}
	return t.Rows(keep)
}

func clone(t *outcome.Table) *outcome.Table {
	c := *t
	c.Quality, c.CostUSD = nil, nil
	for q := range t.Queries {
		c.Quality = append(c.Quality, append([]float64(nil), t.Quality[q]...))
		c.CostUSD = append(c.CostUSD, append([]float64(nil), t.CostUSD[q]...))
	}
	return &c
}

// inUse replays a profile over outcomes, with exploration, and returns the traces that a
// router would leave.
func inUse(t *outcome.Table, p *fit.Profile, share float64, rng *rand.Rand) ([]*sdk.Trace, error) {
	s, err := p.NewStrategy(t.Models)
	if err != nil {
		return nil, err
	}
	beliefs, err := p.Estimator.On(t)
	if err != nil {
		return nil, err
	}
	traces := make([]*sdk.Trace, len(t.Queries))
	for q, id := range t.Queries {
		trace := &sdk.Trace{ID: id, QueryID: id, Group: t.Group(q)}
		ask := func(m int, propensity float64) {
			verdict := &sdk.Verdict{Outcome: sdk.Failed}
			if t.Quality[q][m] >= 0.5 {
				verdict.Outcome = sdk.Passed
			}
			trace.Calls = append(trace.Calls, sdk.Call{Model: t.Models[m], CostUSD: t.CostUSD[q][m], Verdict: verdict, Propensity: propensity})
		}
		replay.NewWalker(beliefs.Start(q), t.Quality[q], t.CostUSD[q]).Walk(coinStrategy{s, rng}, 0, func(turn *replay.Turn) {
			rec := sdk.Decision{}
			for m, b := range turn.State.Beliefs {
				rec.Models = append(rec.Models, sdk.Belief{
					Model: t.Models[m], Quality: sdk.Estimate{Mean: b.Mean}, CostUSD: turn.State.Costs[m], Ran: slices.Contains(turn.State.Ran, m),
				})
			}
			if m := turn.Decision.Run; m != cascade.Stop {
				rec.Run = t.Models[m]
				ask(m, 1)
			}
			trace.Decisions = append(trace.Decisions, rec)
		})
		if left := len(t.Models) - len(trace.Calls); left > 0 && rng.Float64() < share {
			var open []int
			for _, b := range trace.Decisions[len(trace.Decisions)-1].Models {
				if !b.Ran {
					open = append(open, t.Index(b.Model))
				}
			}
			ask(open[rng.IntN(left)], share/float64(left))
		}
		traces[q] = trace
	}
	return traces, nil
}

// coinStrategy is a strategy with a coin of its own for each decision.
type coinStrategy struct {
	cascade.Strategy
	rng *rand.Rand
}

// Decide implements [cascade.Strategy].
func (c coinStrategy) Decide(s *cascade.State) cascade.Decision {
	own := *s
	own.Coin = c.rng.Float64()
	return c.Strategy.Decide(&own)
}

// driftResult is what came of one split.
type driftResult struct {
	told, refitted bool
	// cost and quality of the test rows, on the profile in use, on the one that the check
	// leaves in place, and on one fitted to all outcomes of the changed world.
	cost, quality [3]float64
}

// drift shows what fit --check tells and does when the world changes.
func drift(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("drift", "When estimates no longer hold")
	t := *e.Questions.Table
	t.Answers, t.Prompts, t.Signals = nil, nil, nil
	table, err := t.Subset("5")
	if err != nil {
		return nil, err
	}
	table.Verified = true
	p.printf("A profile (`index`, budget 0.0005 USD) is fitted to a third of the questions, with a check that judges every answer, and used on another third, with a share of %v of the steps that ask one further model for the record. "+
		"`fit --check` looks at the traces of that, and fits anew to seven tenths of them where that tells the rest better. What is in place then is measured on the last third, beside the profile in use and one fitted to all outcomes of all models in the changed world. "+
		"Means over %d random splits; ± is two standard deviations over them. The test allows one false alarm in a hundred.\n\nData: %s, 5 models.\n", driftExplore, e.driftSplits(), e.Questions)
	out := &eval.Table{Header: []string{"what happens", "told on", "fitted anew on", "cost in use, USD", "after the check", "all known", "quality in use, %", "after the check", "all known"}}
	for _, w := range driftWorlds() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e.startingf("drift: %s", w.name)
		line, err := e.driftLine(ctx, table, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		out.Cells = append(out.Cells, line)
	}
	p.section("Told, and what is done about it")
	p.table(out)
	alarms, err := e.alarms(ctx)
	if err != nil {
		return nil, err
	}
	p.section("Told where nothing has changed")
	p.printf("A profile is fitted to one half of a table, verdicts known, and used on the other, with the same share of exploration. `told` is on how many of %d random halves something is said to have drifted; %d is what the test allows, and chance may take it to %d.\n\n", e.alarmSplits(), e.alarmSplits()/100, mostAlarms(e.alarmSplits()))
	p.table(alarms)
	return p, nil
}

// mostAlarms is how many alarms of one in a hundred are passed with a probability of less
// than 1 %.
func mostAlarms(splits int) int {
	n := 0
	for (distuv.Binomial{N: float64(splits), P: 0.01}).Survival(float64(n)) > 0.01 {
		n++
	}
	return n
}

// alarmData are sets of models on questions, as if a check had judged the answers, and the
// tables of agents.
func (e *Env) alarmData() []*Data {
	var data []*Data
	for _, d := range e.pacingData() {
		t := *d.Table
		t.Answers, t.Prompts, t.Signals, t.Verified = nil, nil, nil, true
		data = append(data, d.of(&t, ""))
	}
	return data
}

// alarms counts false alarms on every table.
func (e *Env) alarms(ctx context.Context) (*eval.Table, error) {
	out := &eval.Table{Header: []string{"data", "means looked at", "told"}}
	for _, d := range e.alarmData() {
		e.startingf("false alarms: %s", d.Name)
		found, err := overSplits(ctx, e.alarmSplits(), func(ctx context.Context, i int) (*fit.Assessment, error) {
			return alarmOnce(ctx, d.Table, e.Seed+uint64(i))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		told, tests := 0, 0.0
		for _, a := range found {
			tests += float64(a.Tests) / float64(len(found))
			if !a.Holds() {
				told++
			}
		}
		out.Cells = append(out.Cells, []string{d.String(), fmt.Sprintf("%.0f", tests), fmt.Sprintf("%d of %d", told, len(found))})
	}
	return out, nil
}

// alarmOnce fits to one half of a table and assesses the profile on the other.
func alarmOnce(ctx context.Context, t *outcome.Table, seed uint64) (*fit.Assessment, error) {
	rng := rand.New(rand.NewPCG(seed, 0xa1a2))
	known, met := t.Split(0.5, seed)
	costs := known.MeanCosts()
	p, err := fit.Fit(ctx, known, fit.Options{
		// Between the cheapest and the dearest model, at their geometric mean.
		BudgetUSD: math.Sqrt(slices.Min(costs) * slices.Max(costs)), Seed: seed, Estimate: estimate.Options{Quality: estimate.KindLatent},
	})
	if err != nil {
		return nil, err
	}
	traces, err := inUse(met, p, driftExplore, rng)
	if err != nil {
		return nil, err
	}
	return fit.Assess(p, traces)
}

func (e *Env) driftLine(ctx context.Context, t *outcome.Table, w world) ([]string, error) {
	results, err := overSplits(ctx, e.driftSplits(), func(ctx context.Context, i int) (driftResult, error) {
		return driftOnce(ctx, t, w, e.Seed+uint64(i))
	})
	if err != nil {
		return nil, err
	}
	told, refitted := 0, 0
	var cost, quality [3][]float64
	for _, r := range results {
		if r.told {
			told++
		}
		if r.refitted {
			refitted++
		}
		for k := range r.cost {
			cost[k], quality[k] = append(cost[k], r.cost[k]), append(quality[k], 100*r.quality[k])
		}
	}
	line := []string{w.name, fmt.Sprintf("%d of %d", told, len(results)), fmt.Sprint(refitted)}
	for k := range cost {
		mean, _ := spreadOf(cost[k])
		line = append(line, fmt.Sprintf("%.5f", mean))
	}
	for k := range quality {
		mean, two := spreadOf(quality[k])
		line = append(line, fmt.Sprintf("%.2f ± %.2f", mean, two))
	}
	return line, nil
}

// driftBudget is what a query may cost, in US dollars.
const driftBudget = 0.0005

func driftOnce(ctx context.Context, t *outcome.Table, w world, seed uint64) (d driftResult, err error) {
	rng := rand.New(rand.NewPCG(seed, 0xd71f))
	known, rest := t.Split(1./3, seed)
	met, test := rest.Split(0.5, seed+1)
	met, test = w.use(met, rng), w.use(test, rng)
	fitTo := func(t *outcome.Table) (*fit.Profile, error) {
		return fit.Fit(ctx, t, fit.Options{BudgetUSD: driftBudget, Seed: seed, Estimate: estimate.Options{Quality: estimate.KindLatent}})
	}
	inPlace, err := fitTo(w.train(known, rng))
	if err != nil {
		return d, err
	}
	traces, err := inUse(met, inPlace, driftExplore, rng)
	if err != nil {
		return d, err
	}
	rng.Shuffle(len(traces), func(i, j int) { traces[i], traces[j] = traces[j], traces[i] })
	a, err := fit.Assess(inPlace, traces)
	if err != nil {
		return d, err
	}
	after := inPlace
	if d.told = !a.Holds(); d.told {
		if after, d.refitted, err = anew(inPlace, traces, t.Models, fitTo); err != nil {
			return d, err
		}
	}
	all, err := fitTo(met)
	if err != nil {
		return d, err
	}
	for k, p := range []*fit.Profile{inPlace, after, all} {
		points, err := points(ctx, test, &fit.Profile{Estimator: p.Estimator, Strategy: p.Strategy}, 0)
		if err != nil {
			return d, err
		}
		d.cost[k], d.quality[k] = points[0].Cost, points[0].Quality
	}
	return d, nil
}

// anew is what fit --check does: the profile in place, or one fitted to the traces where
// that tells the newest better.
func anew(inPlace *fit.Profile, traces []*sdk.Trace, models []string, fitTo func(*outcome.Table) (*fit.Profile, error)) (*fit.Profile, bool, error) {
	over := func(traces []*sdk.Trace) (*fit.Profile, error) {
		t, err := outcome.OfTraces(traces)
		if err != nil {
			return nil, err
		}
		for _, m := range models {
			if t.Index(m) < 0 {
				return nil, fmt.Errorf("%w: none of %s", fit.ErrTooFew, m)
			}
		}
		if t, err = t.Select(models...); err != nil {
			return nil, err
		}
		return fitTo(t)
	}
	older := len(traces) * 7 / 10
	fresh, err := over(traces[:older])
	if errors.Is(err, fit.ErrTooFew) {
		return inPlace, false, nil // chance has not asked every model yet
	}
	if err != nil {
		return nil, false, err
	}
	r, err := fit.Compare(inPlace, fresh, traces[older:])
	if err != nil || !r.Better() {
		return inPlace, false, err
	}
	fresh, err = over(traces)
	return fresh, true, err
}

package fit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/step"
)

// stuck simulates an agent whose tasks are easy or hard as a whole. Nearly all wrong calls end in a tool
// error and are tried again; the others make the run fail.
type stuck struct {
	rng *rand.Rand
	// errors are those of the run so far.
	errors, turns float64
	hard          float64
}

var stuckUSD = map[string]float64{"small": 0.1, "large": 1}

func (s *stuck) begin() { s.errors, s.turns, s.hard = 0, 0, s.rng.NormFloat64() }

// errs draws whether each model errs in the next step.
func (s *stuck) errs() map[string]bool {
	common := 0.5 * s.rng.NormFloat64()
	chance := func(base, slope float64) bool {
		return s.rng.Float64() < 1/(1+math.Exp(-(base+slope*(s.hard+common))))
	}
	return map[string]bool{"small": chance(-3.2, 2), "large": chance(-6, 1)}
}

// run simulates a run that calls the models chosen by ask, and returns its cost and whether it was right.
func (s *stuck) run(ask func(step map[string]bool) string) (usd float64, isRight bool) {
	s.begin()
	for done := 0; done < 5; s.turns++ {
		if s.turns == 12 {
			return usd, false
		}
		errs := s.errs()
		model := ask(errs)
		usd += stuckUSD[model]
		switch {
		case !errs[model]:
			done++
		case s.rng.Float64() < 0.97:
			s.errors++
		default:
			return usd, false
		}
	}
	return usd, true
}

func (s *stuck) features() map[string]float64 {
	return map[string]float64{feature.ToolErrors: s.errors}
}

// recordStuck returns the outcomes of steps of runs that one of the models did, the other beside it.
func recordStuck(t *testing.T, runs int) *outcome.Table {
	t.Helper()
	s := &stuck{rng: rand.New(rand.NewPCG(1, 1))}
	var traces []*sdk.Trace
	for i := range runs {
		with := []string{"small", "large"}[i%2]
		s.run(func(errs map[string]bool) string {
			trace := &sdk.Trace{ID: fmt.Sprint("step", len(traces)), Chosen: with, Decisions: []sdk.Decision{}, Features: s.features()}
			for _, name := range []string{"small", "large"} {
				v := &sdk.Verdict{Outcome: sdk.Passed}
				if errs[name] {
					v.Outcome = sdk.Failed
				}
				trace.Calls = append(trace.Calls, sdk.Call{Model: name, CostUSD: stuckUSD[name], Verdict: v})
			}
			traces = append(traces, trace)
			return with
		})
	}
	table, err := outcome.OfTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	table.Verified = false // nothing judges when the models are used
	return table
}

// playStuck does runs under a profile, or with the large model where there is none.
func playStuck(t *testing.T, p *fit.Profile, runs int) (usd, right float64) {
	t.Helper()
	s := &stuck{rng: rand.New(rand.NewPCG(2, 2))}
	ask := func(map[string]bool) string { return "large" }
	if p != nil {
		names := []string{"small", "large"}
		strategy, err := p.NewStrategy(names)
		if err != nil {
			t.Fatal(err)
		}
		engine, err := step.New(step.Config{
			Candidates: []step.Candidate{{Model: sdk.Model{Name: "small"}}, {Model: sdk.Model{Name: "large"}}}, Strategy: strategy,
			Estimators: []step.Estimator{{Name: "profile", Estimator: p.Estimator.QualityEstimator(), Looks: func(*sdk.Query, string) bool { return false }}},
			Cost:       p.Estimator.CostEstimator(),
			Coin:       rand.New(rand.NewPCG(3, 3)).Float64,
		})
		if err != nil {
			t.Fatal(err)
		}
		ask = func(map[string]bool) string {
			result, err := engine.Run(t.Context(), step.Request{
				Query: &sdk.Query{Features: s.features()},
				Caller: step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
					return &sdk.Answer{Text: "x", CostUSD: stuckUSD[c.Model.Name]}, nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			return result.Trace.Chosen
		}
	}
	for range runs {
		cost, isRight := s.run(ask)
		usd += cost / float64(runs)
		if isRight {
			right += 1 / float64(runs)
		}
	}
	return usd, right
}

// Tool errors in a run are evidence that its next step is hard: a profile fitted to them gives stuck
// agents the large model, and is better at its cost than one that ignores them.
func TestStuckRunsAreHard(t *testing.T) {
	table := recordStuck(t, 400)
	alwaysUSD, always := playStuck(t, nil, 6000)
	var usd, right [2]float64
	for i := range usd {
		own := *table
		if i == 0 {
			own.ToolTroubles = nil
		}
		p, err := fit.Fit(t.Context(), &own, fit.Options{BudgetUSD: 0.25, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		usd[i], right[i] = playStuck(t, p, 6000)
	}
	// What is as dear is a mix of the profile without them and the large model.
	mixed := right[0] + (always-right[0])*(usd[1]-usd[0])/(alwaysUSD-usd[0])
	if right[1] < mixed+0.015 || right[1] < always-0.02 || usd[1] > alwaysUSD/2 {
		t.Errorf("%.3f of the runs are right, %.3f with a mix at the same cost, and %.3f with the large model", right[1], mixed, always)
	}
}

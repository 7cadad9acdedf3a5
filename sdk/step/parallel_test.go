package step_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/step"
)

// pair is an engine that compares the answers of two cheap models before a large one.
func pair(t *testing.T, parallel bool, change func(*step.Config)) *step.Engine {
	t.Helper()
	strategy, err := cascade.NewThreshold(cascade.Params{Thresholds: []float64{0.9}})
	if err != nil {
		t.Fatal(err)
	}
	var list []step.Candidate
	var models []sdk.Model
	for name, usd := range map[string]float64{"a": 1, "b": 1, "large": 20} {
		models = append(models, sdk.Model{Name: name, MaxOutputTokens: 1000, Price: sdk.Price{Input: usd, Output: usd}})
	}
	slices.SortFunc(models, func(x, y sdk.Model) int {
		return int(x.Price.Input-y.Price.Input)*100 + int(x.Name[0]) - int(y.Name[0])
	})
	for _, m := range models {
		list = append(list, step.Candidate{Model: m})
	}
	config := step.Config{
		Candidates: list, Strategy: strategy, Parallel: parallel,
		Estimators: []step.Estimator{{Name: "agreement", Estimator: estimate.OfPriors(models, make([]float64, 3)).QualityEstimator()}},
	}
	if change != nil {
		change(&config)
	}
	return engine(t, config)
}

// timedAnswers answers after a second for a, two for b and three for large.
func timedAnswers(answers map[string]string) step.Caller {
	return step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
		took := map[string]time.Duration{"a": time.Second, "b": 2 * time.Second, "large": 3 * time.Second}[c.Model.Name]
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		text := answers[c.Model.Name]
		if text == "" {
			return nil, &step.CallError{Err: errors.New("gone")}
		}
		return &sdk.Answer{Text: text, Usage: sdk.Usage{InputTokens: 10, OutputTokens: 10}}, nil
	})
}

// Two that are asked in any case are asked at the same time: the step takes as long as the
// slower one, and is in all else the step that asks one after the other.
func TestPairAtOnce(t *testing.T) {
	for _, test := range []struct {
		name       string
		answers    map[string]string
		took, less time.Duration
		calls      int
	}{
		{"agree", map[string]string{"a": "x", "b": "x"}, 2 * time.Second, time.Second, 2},
		{"differ", map[string]string{"a": "x", "b": "y", "large": "y"}, 5 * time.Second, time.Second, 3},
		{"the first fails", map[string]string{"b": "y", "large": "y"}, 5 * time.Second, time.Second, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var steps [2]*sdk.Trace
				for k, parallel := range []bool{true, false} {
					res, err := pair(t, parallel, nil).Run(t.Context(), step.Request{Query: query(), Caller: timedAnswers(test.answers)})
					if err != nil {
						t.Fatal(err)
					}
					steps[k] = res.Trace
				}
				both, serial := steps[0], steps[1]
				if both.Duration != test.took || serial.Duration-both.Duration != test.less || both.Overhead != 0 {
					t.Errorf("took %v (%v overhead), one after the other %v", both.Duration, both.Overhead, serial.Duration)
				}
				if len(both.Calls) != test.calls || len(serial.Calls) != test.calls || both.Chosen != serial.Chosen || math.Abs(both.CostUSD-serial.CostUSD) > 1e-15 {
					t.Errorf("%d calls, chose %s for %v; one after the other %d, %s, %v", len(both.Calls), both.Chosen, both.CostUSD, len(serial.Calls), serial.Chosen, serial.CostUSD)
				}
				for i := range both.Calls {
					if x, y := both.Calls[i], serial.Calls[i]; x.Model != y.Model || x.Latency != y.Latency || x.Quality != y.Quality {
						t.Errorf("call %d: %+v, one after the other %+v", i, x, y)
					}
				}
				if both.Decisions[0].Note != "asked at once with b, which would be asked next" || serial.Decisions[0].Note != "" {
					t.Errorf("notes %q and %q", both.Decisions[0].Note, serial.Decisions[0].Note)
				}
			})
		})
	}
}

// Both worst cases are reserved before either is asked. Where there is no room for both,
// and where a verifier may pass the first answer, one is asked after the other.
func TestPairAtOnceHasItsConditions(t *testing.T) {
	passes := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Passed}, nil
	})
	one := step.WorstCostUSD(&sdk.Model{MaxOutputTokens: 1000, Price: sdk.Price{Input: 1, Output: 1}}, 400, 1000)
	for _, test := range []struct {
		name   string
		change func(*step.Config)
		took   time.Duration
	}{
		{"room for both", func(c *step.Config) { c.StepCapUSD = 2.5 * one }, 2 * time.Second},
		{"room for one", func(c *step.Config) { c.StepCapUSD = 1.5 * one }, 3 * time.Second},
		{"room for both in the ledger", func(c *step.Config) { c.Ledger = step.NewMemory(step.Caps{TenantUSD: 2.5 * one}) }, 2 * time.Second},
		{"room for one in the ledger", func(c *step.Config) { c.Ledger = step.NewMemory(step.Caps{TenantUSD: 1.5 * one}) }, 3 * time.Second},
		{"a verifier", func(c *step.Config) { c.Verifiers = []step.Verifier{{Name: "v", Verifier: passes}} }, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res, err := pair(t, true, test.change).Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: timedAnswers(map[string]string{"a": "x", "b": "x"})})
				if err != nil || res.Trace.Duration != test.took {
					t.Errorf("%v, %v", res.Trace.Duration, err)
				}
			})
		})
	}
}

// A call that turns out not to be wanted is ended, and what it cost is the step's.
func TestPairAtOnceInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := step.NewMemory(step.Caps{TenantUSD: 1})
		sure := step.Estimator{Name: "sure", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			e := sdk.Estimate{Mean: 0.5, StdDev: 0.3}
			if len(r.Attempts) > 0 {
				e = sdk.Estimate{Mean: 0.99}
			}
			return &sdk.QualityResponse{Estimates: []sdk.Estimate{e, e, e}}, nil
		})}
		e := pair(t, true, func(c *step.Config) { c.Estimators, c.Ledger = []step.Estimator{sure}, memory })
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: timedAnswers(map[string]string{"a": "x", "b": "x"})})
		if err != nil {
			t.Fatal(err)
		}
		calls := res.Trace.Calls
		if res.Trace.Duration != time.Second || res.Trace.Chosen != "a" || len(calls) != 2 || calls[1].Model != "b" || calls[1].Error == "" || calls[1].Latency != time.Second {
			t.Errorf("%v, chose %s: %+v", res.Trace.Duration, res.Trace.Chosen, calls)
		}
		if _, spent := memory.SpentUSD("r", "t"); math.Abs(spent-res.Trace.CostUSD) > 1e-11 || spent == 0 {
			t.Errorf("%v was booked and %v spent", spent, res.Trace.CostUSD)
		}
	})
}

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

// pair returns an engine that compares the answers of two cheap models before it calls a large one.
func pair(t *testing.T, parallel bool, change func(*step.Config)) *step.Engine {
	t.Helper()
	strategy, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.9}})
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

// timedAnswers returns a caller that takes a second for a, two for b and three for large.
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

// Two models that are called in any case are called concurrently: the step takes as long as
// the slower call, and is otherwise the same as a sequential step.
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
				if both.Decisions[0].Note != "asked in parallel with b, which would be next" || serial.Decisions[0].Note != "" {
					t.Errorf("notes %q and %q", both.Decisions[0].Note, serial.Decisions[0].Note)
				}
			})
		})
	}
}

// Both worst cases are reserved before either call. If there is no room for both, or if a
// verifier can pass the first answer, the models are called one after the other.
func TestPairAtOnceHasItsConditions(t *testing.T) {
	passes := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Passed}, nil
	})
	const one = 0.25 // US dollars
	for _, test := range []struct {
		name               string
		stepCap, tenantCap float64
		verifiers          []step.Verifier
		took               time.Duration
	}{
		{"room for both", 2 * one, 0, nil, 2 * time.Second},
		{"room for one at a time", 1.5 * one, 0, nil, 3 * time.Second},
		{"hardly room for both", 2*one - 1e-12, 0, nil, 3 * time.Second},
		{"room for both in the ledger", 0, 2 * one, nil, 2 * time.Second},
		{"room for one at a time in the ledger", 0, 1.5 * one, nil, 3 * time.Second},
		{"hardly room for both in the ledger", 0, 2*one - 1e-12, nil, 3 * time.Second},
		{"a verifier", 0, 0, []step.Verifier{{Name: "v", Verifier: passes}}, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := step.NewMemory(step.Caps{TenantUSD: test.tenantCap})
				e := pair(t, true, func(c *step.Config) {
					c.StepCapUSD, c.Ledger, c.Verifiers = test.stepCap, memory, test.verifiers
					for i := range c.Candidates {
						c.Candidates[i].Model = each(c.Candidates[i].Model.Name, one)
					}
				})
				answers := timedAnswers(map[string]string{"a": "x", "b": "x"})
				cheap := step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
					answer, err := answers.Call(ctx, c)
					if err == nil {
						answer.CostUSD = 1e-3
					}
					return answer, err
				})
				res, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: cheap})
				if err != nil || res.Trace.Duration != test.took {
					t.Errorf("%v, %v", res.Trace.Duration, err)
				}
				pinned, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Only: "a", Caller: cheap})
				if err != nil || len(pinned.Trace.Calls) != 1 {
					t.Errorf("only a: calls %q, %v", called(pinned.Trace), err)
				}
				if _, spent := memory.SpentUSD("r", "t"); test.tenantCap > 0 {
					if _, err := memory.Reserve(t.Context(), query(), test.tenantCap-spent); err != nil {
						t.Errorf("something is still reserved beside %v USD: %v", spent, err)
					}
				}
			})
		})
	}
}

// believing returns an estimator with the deviation stdDev before any answer, and a mean of
// alone once there is one.
func believing(alone, stdDev float64, byAgreement bool) step.Estimator {
	return step.Estimator{Name: "believing", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		e := sdk.Estimate{Mean: 0.5, StdDev: stdDev}
		if len(r.Attempts) > 0 {
			e = sdk.Estimate{Mean: alone}
		}
		return &sdk.QualityResponse{Estimates: []sdk.Estimate{e, e, e}, ByAgreement: byAgreement}, nil
	})}
}

// The second model is called early only if hardly any answer of the first would end the step.
func TestPairAtOnceOnlyWhereCertain(t *testing.T) {
	for _, test := range []struct {
		name        string
		stdDev      float64
		byAgreement bool
		calls       int
	}{
		{"an answer may well end the step", 0.3, false, 1},
		{"hardly any answer ends the step", 0.19, false, 2},
		{"only agreement moves the belief", 0.3, true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := pair(t, true, func(c *step.Config) { c.Estimators = []step.Estimator{believing(0.99, test.stdDev, test.byAgreement)} })
				res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: timedAnswers(map[string]string{"a": "x", "b": "x"})})
				if err != nil || len(res.Trace.Calls) != test.calls {
					t.Errorf("%+v, %v", res.Trace.Calls, err)
				}
			})
		})
	}
}

// An early call that is not needed is cancelled. Its expected cost is part of the step's, its
// worst case stays booked under the caps, and it does not count as a failure of the model.
func TestPairAtOnceInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const expected = 20e-6 // USD: ten tokens in, ten out
		memory := step.NewMemory(step.Caps{TenantUSD: 1})
		e := pair(t, true, func(c *step.Config) {
			c.Estimators, c.Ledger = []step.Estimator{believing(0.99, 0, false)}, memory
			c.Cost = sdk.CostEstimatorFunc(func(_ context.Context, r *sdk.CostRequest) (*sdk.CostResponse, error) {
				return &sdk.CostResponse{Estimates: slices.Repeat([]sdk.Estimate{{Mean: expected}}, len(r.Models))}, nil
			})
		})
		answers := timedAnswers(map[string]string{"a": "x", "b": "x"})
		billed := step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
			answer, err := answers.Call(ctx, c)
			if err != nil {
				err = &step.CallError{Err: err, Billed: true}
			}
			return answer, err
		})
		q := query()
		q.InputTokens, q.MaxOutputTokens = 10, 300
		res, err := e.Run(t.Context(), step.Request{Query: q, Caller: billed})
		if err != nil {
			t.Fatal(err)
		}
		calls := res.Trace.Calls
		if res.Trace.Duration != time.Second || res.Trace.Chosen != "a" || len(calls) != 2 {
			t.Fatalf("%v, chose %s: %+v", res.Trace.Duration, res.Trace.Chosen, calls)
		}
		c := calls[1]
		if c.Model != "b" || c.Error == "" || c.Failed() || c.StopReason != sdk.StopReasonCancelled || c.Latency != time.Second {
			t.Errorf("%+v", c)
		}
		if c.Usage != (sdk.Usage{InputTokens: 10, OutputTokens: 10, Estimated: true}) || math.Abs(c.CostUSD-expected) > 1e-12 {
			t.Errorf("%+v for %v USD, want the expected length", c.Usage, c.CostUSD)
		}
		if _, stands := memory.SpentUSD("r", "t"); stands < 300e-6 {
			t.Errorf("%v USD counts under the caps, the worst case is more than 300e-6", stands)
		}
	})
}

// With two feasible models left, comparing their answers cannot change which is returned: if one of
// the pair is unavailable, the other is not called just for the comparison.
func TestNobodyIsAskedToBeComparedWithOneOther(t *testing.T) {
	for away, want := range map[string]string{"a": "large", "b": "large", "large": "b"} {
		synctest.Test(t, func(t *testing.T) {
			req := step.Request{Query: query(), Caller: timedAnswers(map[string]string{"a": "x", "b": "x", "large": "x"}), Exclude: func(i int) string {
				if []string{"a", "b", "large"}[i] == away {
					return "away"
				}
				return ""
			}}
			res, err := pair(t, true, nil).Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Trace.Calls) != 1 || res.Trace.Chosen != want {
				t.Errorf("without %s: %d calls, answer of %s", away, len(res.Trace.Calls), res.Trace.Chosen)
			}
		})
	}
}

// Of two candidates in all, both are called for the comparison: whoever configures it with two wants to know.
func TestTwoCandidatesAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := pair(t, false, func(c *step.Config) {
			c.Candidates = c.Candidates[:2]
			models := []sdk.Model{c.Candidates[0].Model, c.Candidates[1].Model}
			c.Estimators[0].Estimator = estimate.OfPriors(models, make([]float64, 2)).QualityEstimator()
		})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: timedAnswers(map[string]string{"a": "x", "b": "x"})})
		if err != nil || called(res.Trace) != "a b" {
			t.Errorf("calls %q, %v", called(res.Trace), err)
		}
	})
}

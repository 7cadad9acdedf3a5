package step_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// exploring returns an engine that routes to "a" of a, b and c, with a verifier that passes
// only c, and the given share of exploring steps.
func exploring(t *testing.T, share float64) *step.Engine {
	t.Helper()
	s, err := cascade.New(cascade.NameRoute, cascade.Params{Lambdas: []float64{1}, Gamma: 1})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	e, err := step.New(step.Config{
		Candidates: []step.Candidate{
			{Model: sdk.Model{Name: "c"}}, {Model: sdk.Model{Name: "a"}, Quality: sdk.Estimate{Mean: 0.9}}, {Model: sdk.Model{Name: "b"}},
		},
		Strategy: s, Explore: share, Coin: rng.Float64,
		Verifiers: []step.Verifier{{Name: "test", Verifier: sdk.VerifierFunc(func(_ context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if req.Answer.Model == "c" {
				return &sdk.Verdict{Outcome: sdk.Passed}, nil
			}
			return &sdk.Verdict{Outcome: sdk.Failed}, nil
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Weighted by the inverse propensities in the traces, every model is called once per step.
// A better answer is returned, and exploring calls are paid for.
func TestExploredModelsAreAskedAsOftenAsTracesSay(t *testing.T) {
	const n, share = 6000, 0.3
	e := exploring(t, share)
	caller := step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: c.Model.Name, CostUSD: 1}, nil
	})
	weights := map[string]float64{}
	for range n {
		res, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: caller, Commit: true})
		if err != nil {
			t.Fatal(err)
		}
		if res.Trace.CostUSD != float64(len(res.Trace.Calls)) {
			t.Fatalf("%d calls for %v USD", len(res.Trace.Calls), res.Trace.CostUSD)
		}
		want := "a"
		for _, call := range res.Trace.Calls {
			weights[call.Model] += 1 / call.Propensity / n
			if call.Model == "c" {
				want = "c"
			}
		}
		if res.Trace.Chosen != want {
			t.Fatalf("the answer of %s of %v", res.Trace.Chosen, res.Trace.Calls)
		}
	}
	for name, w := range weights {
		// The standard error of a weight of 1/p is the root of (1/p - 1)/n.
		if dev := math.Sqrt((2/share - 1) / n); math.Abs(w-1) > 4*dev {
			t.Errorf("%s was asked %.3f times a step by its weights, want 1 ± %.3f", name, w, dev)
		}
	}
}

func TestAFailureOfAnExploredModelHarmsNobody(t *testing.T) {
	e := exploring(t, 1)
	caller := step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
		if c.Model.Name != "a" {
			return nil, errors.New("down")
		}
		return &sdk.Answer{Text: "a"}, nil
	})
	res, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: caller})
	if err != nil || res.Trace.Chosen != "a" || res.Trace.Error != "" || len(res.Trace.Calls) != 2 {
		t.Errorf("chosen %q of %d calls, error %q, %v", res.Trace.Chosen, len(res.Trace.Calls), res.Trace.Error, err)
	}
}

func TestWithoutAShareNothingIsExplored(t *testing.T) {
	e := exploring(t, 0)
	for range 200 {
		res, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{}, Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{}, nil
		})})
		if err != nil || len(res.Trace.Calls) != 1 || res.Trace.Calls[0].Propensity != 0 {
			t.Fatalf("calls %+v, %v", res.Trace.Calls, err)
		}
	}
}

// The share of steps that explore is exact, and a step that calls a given model does not explore. One number is drawn
// for ties, one for whether to explore, and one for the model.
func TestWhichStepsExplore(t *testing.T) {
	for _, c := range []struct {
		share, coin  float64
		only         string
		calls, drawn int
	}{
		{0.5, 0.5, "", 1, 2}, {0.5, 0.49, "", 2, 3}, {1, 0.99, "", 2, 3}, {0, 0, "", 1, 1}, {1, 0, "small", 1, 1}, {1, 0, "large", 1, 1},
	} {
		drawn := 0
		e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Explore: c.share, Coin: func() float64 { drawn++; return c.coin }})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: c.only})
		if err != nil || len(res.Trace.Calls) != c.calls || drawn != c.drawn {
			t.Errorf("%+v: calls %q, %d numbers drawn, %v", c, called(res.Trace), drawn, err)
		}
	}
}

// A model that is called for the record is waited for, and each try has the propensity. The strategy's own models
// stand aside as in other steps, be it after an answer.
func TestExploredModelsAreWaitedFor(t *testing.T) {
	for _, c := range []struct {
		strategy   cascade.Strategy
		calls      string
		propensity float64 // of the calls after the first
	}{
		{route(t), "large 1 0s, middle 1 0s, middle 2 7s", 0.5},
		{threshold(t, 0, 1, 2), "small 1 0s, middle 1 0s, large 1 0s, middle 2 7s", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			caller, order := limited(map[string][]time.Duration{"middle": {7 * time.Second}})
			e := engine(t, step.Config{Candidates: candidates(), Strategy: c.strategy, Explore: 1, Coin: func() float64 { return 0.9 }, Estimators: looks(estimator{"small": 0.1, "middle": 0.2, "large": 0.995})})
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: caller})
			if got := strings.Join(*order, ", "); err != nil || got != c.calls {
				t.Fatalf("asked %s, want %s; %v", got, c.calls, err)
			}
			for _, call := range res.Trace.Calls[1:] {
				if call.Propensity != c.propensity {
					t.Errorf("the propensity of %s, try %d, is %v", call.Model, call.Attempt, call.Propensity)
				}
			}
		})
	}
}

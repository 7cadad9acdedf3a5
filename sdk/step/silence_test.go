package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// If a verifier is always inconclusive on steps with tools, these steps are soon routed as
// if there were no verifier; other steps are not.
func TestVerifiersThatSayNothingAreLearned(t *testing.T) {
	c := step.Config{Candidates: candidates(), Strategy: index(t, 3), Verifiers: []step.Verifier{{Name: "text", Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if len(r.Query.Tools) > 0 {
			return &sdk.Verdict{Evidence: "a tool call"}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	})}}}
	run := func(e *step.Engine, tools bool) *sdk.Trace {
		t.Helper()
		q := query()
		if tools {
			q.Tools = []sdk.Tool{{Name: "find"}}
		}
		res, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		return res.Trace
	}
	alone := c
	alone.Verifiers = nil
	c.Candidates[1].Model.Capabilities.Tools, c.Candidates[0].Model.Capabilities.Tools, c.Candidates[2].Model.Capabilities.Tools = true, true, true
	routed := called(run(engine(t, alone), true))
	e := engine(t, c)
	first := called(run(e, true))
	if first == routed {
		t.Fatalf("%s is asked with the verifier and without: the case shows nothing", first)
	}
	for range 4 {
		run(e, true)
	}
	if trace := run(e, true); called(trace) != routed || trace.Decisions[0].Models[0].Judged {
		t.Errorf("%s asked where nothing looks, want %s", called(trace), routed)
	}
	if trace := run(e, false); !trace.Decisions[0].Models[0].Judged {
		t.Error("the verifier is not expected to judge steps without tools")
	}
}

// A paused verifier is not asked, and the pause does not count as inconclusive verdicts.
func TestPausedVerifiersAreNotLearnedToSayNothing(t *testing.T) {
	now, isPoor := time.Unix(0, 0), true
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 3), Now: func() time.Time { return now }, Verifiers: []step.Verifier{{
		Name: "poor", MaxCostUSD: 0.01, CallsModels: true, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if isPoor {
				sdk.MarkModelBudgetSpent(ctx)
				return &sdk.Verdict{CostUSD: 0.01}, nil
			}
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}),
	}}})
	steps := func(n int) (trace *sdk.Trace) {
		t.Helper()
		for range n {
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
			if err != nil {
				t.Fatal(err)
			}
			trace = res.Trace
		}
		return trace
	}
	if trace := steps(100); trace.Decisions[0].Models[0].Judged {
		t.Fatal("a verifier without verdicts is expected to judge")
	}
	now, isPoor = now.Add(time.Minute), false
	if trace := steps(20); !trace.Decisions[0].Models[0].Judged {
		t.Error("after twenty verdicts the verifier is not expected to judge")
	}
}

// An unavailable estimator judges no answers, so the step is routed.
func TestEstimatorThatIsAwayLooksAtNothing(t *testing.T) {
	away := sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		return nil, errors.New("gone")
	})
	c := step.Config{Candidates: candidates(), Strategy: index(t, 3)}
	want, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	c.Estimators = []step.Estimator{{Name: "away", Estimator: away}}
	got, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil || called(got.Trace) != called(want.Trace) || got.Trace.Decisions[0].Models[0].Quality.StdDev != 0 {
		t.Errorf("%s asked with an estimator that is away, %s without: %v", called(got.Trace), called(want.Trace), err)
	}
}

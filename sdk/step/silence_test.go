package step_test

import (
	"context"
	"errors"
	"fmt"
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
				sdk.ModelBudgetOf(ctx).Spent.Store(true)
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

// After more than two inconclusive verdicts, a verifier is expected to judge once half of its verdicts, and two more,
// were conclusive. Groups, and steps with and without tools, are counted apart.
func TestWhenAVerifierIsExpectedToJudge(t *testing.T) {
	kinds := []*sdk.Query{query(), query(), query()}
	kinds[1].Group, kinds[2].Tools = "math", []sdk.Tool{{Name: "find"}}
	var isMute bool
	judge := step.Verifier{Name: "judge", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if isMute {
			return &sdk.Verdict{}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	})}
	list := candidates()[:1]
	list[0].Model.Capabilities.Tools = true
	for _, kind := range kinds {
		e := engine(t, step.Config{Candidates: list, Strategy: route(t), Verifiers: []step.Verifier{judge}})
		asked, conclusive := 0, 0
		for _, isMute = range []bool{true, true, true, false, true, false, false, true, true, true, true, false, false, false, false} {
			res, err := e.Run(t.Context(), step.Request{Query: kind, Commit: true, Caller: step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
				if c.Unseen {
					t.Error("an answer can be shown before the verifier has judged it")
				}
				return says().Call(ctx, c)
			})})
			if err != nil {
				t.Fatal(err)
			}
			if want := conclusive+2 >= (asked+2+1)/2; res.Trace.Decisions[0].Models[0].Judged != want {
				t.Errorf("after %d verdicts, %d of them conclusive: judged %v", asked, conclusive, !want)
			}
			if asked++; !isMute {
				conclusive++
			}
		}
		for _, other := range kinds {
			res, err := e.Run(t.Context(), step.Request{Query: other, Caller: says()})
			if isMute = true; err != nil || !res.Trace.Decisions[0].Models[0].Judged {
				t.Errorf("%q: %v", other.Group, err)
			}
		}
	}
}

// Counting starts over after 1024 kinds of query, so that groups without end hold no memory.
func TestKindsOfQueryAreForgotten(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Verifiers: []step.Verifier{finds("mute", sdk.Verdict{}, nil)}})
	isJudged := func(group string) bool {
		t.Helper()
		q := query()
		q.Group = group
		res, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		return res.Trace.Decisions[0].Models[0].Judged
	}
	for range 3 {
		isJudged("first")
	}
	for i := range 1023 {
		isJudged(fmt.Sprint(i))
	}
	if isJudged("first") {
		t.Error("1024 kinds are too many")
	}
	isJudged("one more")
	if !isJudged("first") {
		t.Error("1025 kinds are kept")
	}
}

package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// sluggish is an estimator that answers after its deadline.
type sluggish struct {
	asked int
	quick bool
}

func (s *sluggish) EstimateQuality(ctx context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	s.asked++
	if !s.quick {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(r.Models))}
	for i := range resp.Estimates {
		resp.Estimates[i] = sdk.Estimate{Mean: 0.5}
	}
	return resp, nil
}

// A verifier whose verdict max_usd or its timeout ended ten times in a row is paused for a while; one that is
// inconclusive for another reason is not.
func TestVerdictsThatLimitsEndAreNotBoughtForEver(t *testing.T) {
	for what, c := range map[string]struct {
		refused, failing bool
		late             bool
		asUnavailable    step.Unavailable
		asked            int // in 30 steps
	}{
		"a verdict that says so":           {refused: true, asked: 10},
		"an error":                         {refused: true, failing: true, asked: 10},
		"an error that accepts the answer": {refused: true, failing: true, asUnavailable: step.UnavailableAccept, asked: 30},
		"no verdict in time":               {late: true, asked: 10},
		"another reason":                   {asked: 30},
		"an error of another kind":         {failing: true, asked: 30},
	} {
		now, asked := time.Unix(0, 0), 0
		poor := sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
			asked++
			budget := sdk.ModelBudgetOf(ctx)
			if budget == nil || budget.USD != 0.01 {
				t.Fatalf("%s: the budget is %v", what, budget)
			}
			if c.refused {
				budget.Spent.Store(true)
			}
			if c.late {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if c.failing {
				return nil, errors.New("no further model calls")
			}
			return &sdk.Verdict{CostUSD: 0.01}, nil
		})
		timeout := time.Hour
		if c.late {
			timeout = time.Millisecond
		}
		e := engine(t, step.Config{
			Candidates: candidates(), Strategy: route(t), Now: func() time.Time { return now },
			Verifiers: []step.Verifier{{Name: "poor", Verifier: poor, MaxCostUSD: 0.01, Timeout: timeout, CallsModels: true, OnUnavailable: c.asUnavailable}},
		})
		var last string
		for range 30 {
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
			if err != nil {
				t.Fatal(what, err)
			}
			last = notes(res.Trace)
		}
		if asked != c.asked {
			t.Errorf("%s: asked %d times in 30 steps, want %d", what, asked, c.asked)
		}
		const want = "verifier poor is left out for a while, since its max_usd or timeout ended ten verdicts in a row: it is asked again in 30s"
		if strings.Contains(last, want) != (c.asked == 10) {
			t.Errorf("%s: notes %q", what, last)
		}
		now = now.Add(30 * time.Second)
		if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil || asked != c.asked+1 {
			t.Errorf("%s: asked %d times with the step after the pause, want %d (%v)", what, asked, c.asked+1, err)
		}
	}
}

// A slow estimator does not cost its timeout in every step: after three missed deadlines it
// is paused, then tried again, and a success resets the count.
func TestSlowEstimatorsAreLeftAlone(t *testing.T) {
	now, slow := time.Unix(0, 0), &sluggish{}
	c := step.Config{
		Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(map[string]bool{"small": true})},
		Estimators: []step.Estimator{{Name: "slow", Estimator: slow, Timeout: time.Millisecond}}, Now: func() time.Time { return now },
	}
	run := func(e *step.Engine) *sdk.Trace {
		t.Helper()
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		return res.Trace
	}
	notes := func(trace *sdk.Trace) string {
		var b strings.Builder
		for _, d := range trace.Decisions {
			b.WriteString(d.Note + "\n")
		}
		return b.String()
	}
	e := engine(t, c)
	for range 5 {
		run(e)
	}
	if slow.asked != 3 {
		t.Errorf("asked %d times in five steps, want 3", slow.asked)
	}
	if got := notes(run(e)); !strings.Contains(got, "estimator slow is paused for 30s: it missed its deadline 3 times in a row") {
		t.Errorf("notes %q", got)
	}
	// One more miss doubles the pause; one answer ends it.
	now = now.Add(30 * time.Second)
	run(e)
	if got := notes(run(e)); slow.asked != 4 || !strings.Contains(got, "is paused for 1m0s") {
		t.Errorf("asked %d times, notes %q", slow.asked, got)
	}
	now, slow.quick = now.Add(time.Minute), true
	run(e)
	if before := slow.asked; strings.Contains(notes(run(e)), "is paused") || slow.asked == before {
		t.Errorf("an estimator that answers again is not asked")
	}
	// Where a step fails without the estimator it is asked each time.
	slow.quick, slow.asked = false, 0
	c.Estimators[0].OnUnavailable = step.UnavailableFail
	e = engine(t, c)
	for range 5 {
		if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err == nil {
			t.Fatal("no error")
		}
	}
	if slow.asked != 5 {
		t.Errorf("asked %d times, want 5", slow.asked)
	}
}

package step_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// At a deadline the step returns the best answer so far, the first of equals, or the
// deadline's error if there is none.
func TestDeadlineTakesTheBestAnswer(t *testing.T) {
	// Each call takes ten seconds: the third is cut off.
	for _, c := range []struct {
		found map[string]float64
		want  string
	}{
		{map[string]float64{"small": 0.9, "middle": 0.4}, "small"},
		{map[string]float64{"small": 0.1, "middle": 0.4}, "middle"},
		{map[string]float64{"small": 0.4, "middle": 0.4}, "small"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			defer cancel()
			inTurn := scripted(func(s *cascade.State) cascade.Decision {
				return cascade.Decision{Run: len(s.Ran), Answer: cascade.None}
			})
			e := engine(t, step.Config{Candidates: candidates(), Strategy: inTurn, Estimators: looks(estimator(c.found))})
			res, err := e.Run(ctx, step.Request{Query: query(), Caller: step.CallerFunc(func(ctx context.Context, call *step.Call) (*sdk.Answer, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(10 * time.Second):
				}
				return says().Call(ctx, call)
			})})
			if err != nil || res.Answer == nil || res.Answer.Model != c.want || res.Trace.Stop != sdk.StopDeadline {
				t.Errorf("found %v: answer %+v, stop %s, %v; want that of %s", c.found, res.Answer, res.Trace.Stop, err, c.want)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	res, err := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)}).Run(ctx, step.Request{Query: query(), Caller: says()})
	if !errors.Is(err, context.DeadlineExceeded) || res.Trace.Stop != sdk.StopDeadline || len(res.Trace.Calls) != 0 {
		t.Errorf("a deadline in the past: stop %s, %d calls, %v", res.Trace.Stop, len(res.Trace.Calls), err)
	}
}

// Of answers with equal estimates, the one that passed more checks is returned. A cascade
// that returns its last answer does so even if no model is left to run.
func TestWhichOfTheRejectedIsReturned(t *testing.T) {
	scores := map[string]float64{"small": 0.2, "middle": 0.6, "large": 0.4}
	failing := step.Verifier{Name: "tests", Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Failed, Score: scores[r.Answer.Model]}, nil
	})}
	last, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.99}, Answer: cascade.Last})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		config step.Config
		want   string
	}{
		"share of checks": {step.Config{Strategy: index(t, 1), Verifiers: []step.Verifier{failing}}, "middle"},
		"the last answer": {step.Config{Strategy: last, Estimators: looks(estimator{"small": 0.5, "middle": 0.9, "large": 0.1})}, "large"},
		"no rule of its own": {step.Config{Strategy: scripted(func(s *cascade.State) cascade.Decision {
			return cascade.Decision{Run: min(len(s.Ran), 2), Answer: cascade.None}
		}), Estimators: looks(estimator{"small": 0.5, "middle": 0.9, "large": 0.1})}, "middle"},
		"worth more counts": {step.Config{Strategy: index(t, 1), Verifiers: []step.Verifier{{Name: "unsure", Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
			return &sdk.Verdict{Outcome: sdk.Failed, Score: scores[r.Answer.Model], Confidence: map[string]float64{"small": 0.5, "middle": 0.9, "large": 0.9}[r.Answer.Model]}, nil
		})}}}, "small"},
	} {
		c.config.Candidates = candidates()
		res, err := engine(t, c.config).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil || res.Trace.Chosen != c.want {
			t.Errorf("%s: %s of %q, want %s; %v", what, res.Trace.Chosen, called(res.Trace), c.want, err)
		}
	}
}

// The error of a step names the cause: no feasible model if the strategy runs nothing, or
// the errors of failed calls and nothing else.
func TestTheErrorSaysWhatWasInTheWay(t *testing.T) {
	nothing := scripted(func(*cascade.State) cascade.Decision {
		return cascade.Decision{Run: cascade.Stop, Answer: cascade.None}
	})
	_, err := engine(t, step.Config{Candidates: candidates(), Strategy: nothing}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if !errors.Is(err, sdk.ErrNoFeasibleModel) {
		t.Errorf("a strategy that runs nothing: %v", err)
	}
	gaveUp := scripted(func(s *cascade.State) cascade.Decision {
		if s.Infeasible[0] {
			return cascade.Decision{Run: cascade.Stop, Answer: cascade.None}
		}
		return cascade.Decision{Run: 0, Answer: cascade.None}
	})
	down := errors.New("connection refused")
	_, err = engine(t, step.Config{Candidates: candidates(), Strategy: gaveUp}).Run(t.Context(), step.Request{Query: query(), Caller: fails(map[string]error{"small": down})})
	if err == nil || err.Error() != "model small: connection refused" {
		t.Errorf("a call that failed: %v", err)
	}
	e := engine(t, step.Config{Candidates: candidates()[:2], Strategy: route(t)})
	_, err = e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Exclude: func(i int) string { return []string{"is off", "is away"}[i] }})
	if err == nil || err.Error() != sdk.ErrNoFeasibleModel.Error()+": small is off, middle is away" {
		t.Errorf("nobody can be asked: %v", err)
	}
}

// A missing capability is reported rather than the caller's reason to exclude a model.
func TestExcludeIsAskedOfWhomCouldBeAsked(t *testing.T) {
	list := candidates()
	list[0].Model.ContextTokens = 66 // the query has 100, or 66 with long tokens: no room for an answer
	list[1].Model.ContextTokens = 67
	var asked []int
	res, err := engine(t, step.Config{Candidates: list, Strategy: route(t)}).Run(t.Context(), step.Request{Query: query(), Caller: says(), Exclude: func(i int) string {
		asked = append(asked, i)
		return map[int]string{2: "on holiday"}[i]
	}})
	if err != nil || called(res.Trace) != "middle" || len(asked) != 2 || asked[0] != 1 || asked[1] != 2 {
		t.Errorf("calls %q, asked about %v, %v", called(res.Trace), asked, err)
	}
	want := []sdk.Infeasible{{Model: "small", Reason: "prompt of about 100 tokens, context of 66"}, {Model: "large", Reason: "on holiday"}}
	if got := res.Trace.Infeasible; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("infeasible %+v, want %+v", got, want)
	}
}

// The server decides whether a borderline prompt fits; if it refuses, a model with a larger context is
// called. Ollama does not refuse prompts.
func TestServersDecideAboutPromptsThatMayFit(t *testing.T) {
	for provider, want := range map[string]string{"openai": "small middle", "ollama": "middle"} {
		list := candidates()[:2]
		list[0].Quality.Mean, list[0].Model.Provider, list[0].Model.ContextTokens = 0.8, provider, 90 // the query has about 100
		refuses := step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
			if c.Index == 0 {
				return nil, &step.CallError{Err: errors.New("prompt is too long"), Refused: true}
			}
			return &sdk.Answer{Text: "right"}, nil
		})
		res, err := engine(t, step.Config{Candidates: list, Strategy: route(t)}).Run(t.Context(), step.Request{Query: query(), Caller: refuses})
		if err != nil || res.Answer.Text != "right" || called(res.Trace) != want {
			t.Errorf("%s: calls %q, %v", provider, called(res.Trace), err)
		}
	}
}

// A failed step has no answer and the index -1, however it fails.
func TestAStepThatFailsHasNoIndex(t *testing.T) {
	down := errors.New("down")
	fails := func(e *step.CallError) step.Caller {
		return step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return nil, e })
	}
	refuses := step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
		if c.Index == 0 {
			return nil, &step.CallError{Err: down, Refused: true}
		}
		return says().Call(ctx, c)
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	judge := step.Verifier{Name: "judge", OnUnavailable: step.UnavailableFail, Verifier: sdk.VerifierFunc(
		func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { return nil, down })}
	estimator := step.Estimator{Name: "guess", OnUnavailable: step.UnavailableFail, Estimator: sdk.QualityEstimatorFunc(
		func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) { return nil, down })}
	for name, c := range map[string]struct {
		ctx context.Context
		c   step.Config
		req step.Request
	}{
		"nobody of that name":   {req: step.Request{Only: "nobody"}},
		"canceled":              {ctx: canceled},
		"all are excluded":      {req: step.Request{Exclude: func(int) string { return "no" }}},
		"all fail":              {req: step.Request{Caller: fails(&step.CallError{Err: down})}},
		"one ends it":           {req: step.Request{Caller: fails(&step.CallError{Err: down, Fatal: true})}},
		"over the cap":          {c: step.Config{StepCapUSD: 1e-9}},
		"no verdict to be had":  {c: step.Config{Verifiers: []step.Verifier{judge}}},
		"no estimate to be had": {c: step.Config{Estimators: []step.Estimator{estimator}}},
		"a faulty strategy":     {c: step.Config{Strategy: stubborn{1}}},
		"nothing to run": {c: step.Config{Strategy: scripted(func(*cascade.State) cascade.Decision {
			return cascade.Decision{Run: cascade.Stop, Answer: cascade.None}
		})}},
		"all refuse":               {req: step.Request{Caller: fails(&step.CallError{Err: down, Refused: true})}},
		"one refuses, one is poor": {c: step.Config{Checks: []step.Check{{Name: "never good", Fault: func(*sdk.Query, *sdk.Answer, []sdk.Attempt) string { return "bad" }}}}, req: step.Request{Caller: refuses}},
		"no verdict to buy":        {c: step.Config{Verifiers: []step.Verifier{{Name: "judge", As: step.AsBought, OnUnavailable: step.UnavailableFail, Verifier: judge.Verifier}}, Estimators: []step.Estimator{offers(0.0001)}, Strategy: index(t, 10)}},
	} {
		c.c.Candidates = candidates()
		if c.c.Strategy == nil {
			c.c.Strategy = index(t, 1)
		}
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		if c.req.Caller == nil {
			c.req.Caller = says()
		}
		c.req.Query = query()
		res, err := engine(t, c.c).Run(c.ctx, c.req)
		if err == nil || res.Index != -1 || res.Answer != nil || res.Trace.Chosen != "" {
			t.Errorf("%s: candidate %d, %+v, chosen %q, %v", name, res.Index, res.Answer, res.Trace.Chosen, err)
		}
	}
}

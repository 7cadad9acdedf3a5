package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

func route(t testing.TB) cascade.Strategy {
	t.Helper()
	s, err := cascade.New(cascade.NameRoute, cascade.Params{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fails returns a caller that fails for some models.
func fails(errs map[string]error) step.Caller {
	return step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
		if err := errs[c.Model.Name]; err != nil {
			return nil, err
		}
		return says().Call(ctx, c)
	})
}

// The model named in Only is called whatever the strategy decides, be it the first or the
// last candidate, and the trace has the strategy's decision.
func TestOnlyCallsTheNamedModel(t *testing.T) {
	for _, name := range []string{"small", "middle", "large"} {
		told := 0
		verifier := step.Verifier{Name: "never", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			t.Errorf("only %s: a verifier was asked", name)
			return &sdk.Verdict{}, nil
		})}
		e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Verifiers: []step.Verifier{verifier}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: name, Done: func(*sdk.Trace) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		first := res.Trace.Decisions[0]
		note := map[bool]string{true: name + " was called instead"}[name != "large"]
		if called(res.Trace) != name || res.Trace.Chosen != name || res.Trace.Stop != sdk.StopExhausted || first.Run != "large" || first.Note != note {
			t.Errorf("only %s: calls %q, chosen %s, stop %s, decision %q %q", name, called(res.Trace), res.Trace.Chosen, res.Trace.Stop, first.Run, first.Note)
		}
		if told != 0 {
			t.Errorf("only %s: the strategy was told of a step that it did not decide", name)
		}
	}
}

// Done is called for the steps that the strategy decided.
func TestDoneIsToldOfTheStep(t *testing.T) {
	var told []string
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Done: func(tr *sdk.Trace) { told = append(told, tr.ID) }})
	if err != nil || len(told) != 1 || told[0] != res.Trace.ID {
		t.Errorf("told of %v, want %s; %v", told, res.Trace.ID, err)
	}
}

// If the named model is infeasible or fails, no other model replaces it.
func TestOnlyDoesNotFallBack(t *testing.T) {
	down := errors.New("no such deployment")
	reject := []step.Check{{Name: "never good", Fault: func(*sdk.Query, *sdk.Answer, []sdk.Attempt) string { return "bad" }}}
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Checks: reject})
	for _, name := range []string{"small", "large"} {
		for what, c := range map[string]struct {
			req   step.Request
			calls string
			stop  sdk.StopReason
			want  error
		}{
			"excluded": {step.Request{Caller: says(), Exclude: func(i int) string {
				return map[string]string{name: "not today", "middle": "away"}[candidates()[i].Model.Name]
			}}, "", sdk.StopError, sdk.ErrNoFeasibleModel},
			"failed":   {step.Request{Caller: fails(map[string]error{name: down})}, name, sdk.StopError, down},
			"too dear": {step.Request{Caller: fails(map[string]error{name: sdk.ErrBudgetExhausted})}, name, sdk.StopBudget, sdk.ErrBudgetExhausted},
			"rejected": {step.Request{Caller: says()}, name, sdk.StopExhausted, nil},
		} {
			c.req.Query, c.req.Only = query(), name
			res, err := e.Run(t.Context(), c.req)
			if what == "excluded" && (err == nil || strings.Contains(err.Error(), "middle")) {
				t.Errorf("only %s: the error names a model that was not asked for: %v", name, err)
			}
			if !errors.Is(err, c.want) || called(res.Trace) != c.calls || res.Trace.Stop != c.stop {
				t.Errorf("only %s, %s: calls %q, stop %s, %v; want %q, %s, %v", name, what, called(res.Trace), res.Trace.Stop, err, c.calls, c.stop, c.want)
			}
		}
	}
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: "huge"}); !errors.Is(err, sdk.ErrNoFeasibleModel) || !strings.Contains(err.Error(), `"huge"`) {
		t.Errorf("a model that is no candidate: %v", err)
	}
}

// A step of a holdout whose baseline gives no answer, for whatever reason, is decided by the strategy, and its trace says
// so. It fails only if no other model answers.
func TestTheStrategyReplacesAHoldoutsBaseline(t *testing.T) {
	down := errors.New("withdrawn")
	limited := &step.CallError{Err: errors.New("slow down"), Retry: true, After: time.Hour}
	for what, c := range map[string]struct {
		errs    map[string]error
		exclude string
		calls   string
		failed  bool
		want    error
	}{
		"answers":      {nil, "", "large", false, nil},
		"withdrawn":    {map[string]error{"large": down}, "", "large middle", true, nil},
		"rate limit":   {map[string]error{"large": limited}, "", "large middle", true, nil},
		"cap":          {map[string]error{"large": sdk.ErrBudgetExhausted}, "", "large middle", true, nil},
		"open circuit": {nil, "large", "middle", true, nil},
		"all are away": {map[string]error{"large": down, "middle": down, "small": down}, "", "large middle small", true, down},
	} {
		told := 0
		e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)})
		drawn := &sdk.Holdout{Share: 0.05, Baseline: true}
		res, err := e.Run(t.Context(), step.Request{
			Query: query(), Caller: fails(c.errs), Only: "large", Holdout: drawn, Done: func(*sdk.Trace) { told++ },
			Exclude: func(i int) string {
				if candidates()[i].Model.Name == c.exclude {
					return "circuit open"
				}
				return ""
			},
		})
		h := res.Trace.Holdout
		if !errors.Is(err, c.want) || called(res.Trace) != c.calls || !h.Baseline || h.BaselineFailed != c.failed || res.IsDecided != c.failed || (told > 0) != c.failed || drawn.BaselineFailed {
			t.Errorf("%s: calls %q, holdout %+v, decided %v, %v", what, called(res.Trace), h, res.IsDecided, err)
		}
		for _, rec := range res.Trace.Calls {
			if want := 0.05; rec.Model == "large" && rec.Propensity != want || rec.Model != "large" && rec.Propensity != 0 {
				t.Errorf("%s: the call of %s has the propensity %v", what, rec.Model, rec.Propensity)
			}
		}
	}
}

func TestOnlyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t)})
	res, err := e.Run(ctx, step.Request{Query: query(), Only: "small", Caller: step.CallerFunc(func(ctx context.Context, _ *step.Call) (*sdk.Answer, error) {
		cancel()
		return nil, ctx.Err()
	})})
	if !errors.Is(err, context.Canceled) || res.Trace.Stop != sdk.StopDeadline {
		t.Errorf("stop %s, %v", res.Trace.Stop, err)
	}
}

// An observed step records verdicts and estimates and cannot fail because of them, even if
// the first candidate is the one named.
func TestObserveCannotFailTheFirstCandidate(t *testing.T) {
	gone := errors.New("gone")
	verifier := step.Verifier{Name: "broken", OnUnavailable: step.UnavailableFail, Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, gone
	})}
	away := sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) { return nil, gone })
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verifier},
		Estimators: []step.Estimator{{Name: "away", Estimator: away, OnUnavailable: step.UnavailableFail}}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: "small", Observe: true})
	if err != nil || res.Answer == nil || res.Answer.Model != "small" {
		t.Fatalf("answer %v, %v", res.Answer, err)
	}
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); !errors.Is(err, step.ErrEstimatorUnavailable) || !errors.Is(err, gone) {
		t.Errorf("a step of its own goes on without the estimator that must be there: %v", err)
	}
}

// If a check rejects a router's choice, it routes among the other models, and the trace
// names the new choice. With Commit no answer is final before the checks have run.
func TestARouterRoutesAnewWhatChecksReject(t *testing.T) {
	for _, c := range []struct{ rejected, calls, chosen string }{
		{"", "large", "large"},
		{"large", "large middle", "middle"},
		{"large middle", "large middle small", "small"},
		{"large middle small", "large middle small", "small"},
	} {
		check := step.Check{Name: "table", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
			return map[bool]string{true: "bad"}[strings.Contains(c.rejected, a.Model)]
		}}
		for _, commit := range []bool{false, true} {
			e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Checks: []step.Check{check}})
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Commit: commit})
			if err != nil {
				t.Fatal(err)
			}
			if called(res.Trace) != c.calls || strings.Count(c.rejected, " ") < 2 && res.Trace.Chosen != c.chosen {
				t.Errorf("rejects %q: calls %q, chose %s; want %q, %s", c.rejected, called(res.Trace), res.Trace.Chosen, c.calls, c.chosen)
			}
			for i, name := range strings.Fields(c.calls) {
				if got := res.Trace.Decisions[i].Run; got != name {
					t.Errorf("rejects %q: decision %d says that %q is run, and %s was", c.rejected, i, got, name)
				}
			}
		}
	}
}

func TestAThresholdReturnsNoRejectedAnswerWhereOthersPassed(t *testing.T) {
	down, up := []int{2, 1, 0}, []int{0, 1, 2}
	for _, c := range []struct {
		name                    string
		params                  cascade.Params
		rejected, calls, chosen string
	}{
		{"accepts all", cascade.Params{Order: down, Thresholds: []float64{0}}, "", "large", "large"},
		{"the next in the order", cascade.Params{Order: down, Thresholds: []float64{0}}, "large", "large middle", "middle"},
		{"none passed", cascade.Params{Order: down, Thresholds: []float64{0}}, "large middle small", "large middle small", "small"},
		{"depth reached", cascade.Params{Order: down, Thresholds: []float64{0}, MaxDepth: 1}, "large", "large", "large"},
		{"the last", cascade.Params{Order: up, Thresholds: []float64{1}, Answer: cascade.Last}, "", "small middle large", "large"},
		{"the last that passed", cascade.Params{Order: up, Thresholds: []float64{1}, Answer: cascade.Last}, "large", "small middle large", "middle"},
	} {
		check := step.Check{Name: "table", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
			return map[bool]string{true: "bad"}[strings.Contains(c.rejected, a.Model)]
		}}
		strategy, err := cascade.New(cascade.NameThreshold, c.params)
		if err != nil {
			t.Fatal(err)
		}
		for _, commit := range []bool{false, true} {
			e := engine(t, step.Config{Candidates: candidates(), Strategy: strategy, Checks: []step.Check{check}, Estimators: []step.Estimator{believing(0.5, 0.2, false)}})
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Commit: commit})
			if err != nil {
				t.Fatal(err)
			}
			if called(res.Trace) != c.calls || res.Trace.Chosen != c.chosen {
				t.Errorf("%s, commit %v: calls %q, chose %s; want %q, %s", c.name, commit, called(res.Trace), res.Trace.Chosen, c.calls, c.chosen)
			}
		}
	}
}

// scripted is a strategy implemented by the test.
type scripted func(s *cascade.State) cascade.Decision

func (s scripted) Decide(state *cascade.State) cascade.Decision { return s(state) }

// A call is Unseen if only checks will judge its answer and the step will return it: only
// then may the answer be shown while it arrives.
func TestUnseenOnlyWhereTheAnswerStands(t *testing.T) {
	asks := func(answer int) scripted {
		return func(s *cascade.State) cascade.Decision {
			if len(s.Ran) == 0 {
				return cascade.Decision{Run: 1, Answer: cascade.None}
			}
			return cascade.Decision{Run: cascade.Stop, Answer: answer}
		}
	}
	both := scripted(func(s *cascade.State) cascade.Decision {
		if len(s.Ran) < 2 {
			return cascade.Decision{Run: len(s.Ran), Answer: cascade.None}
		}
		return cascade.Decision{Run: cascade.Stop, Answer: 1}
	})
	for what, c := range map[string]struct {
		config step.Config
		commit bool
		want   bool
	}{
		"nobody looks":            {step.Config{Strategy: asks(1)}, true, true},
		"nobody asked for it":     {step.Config{Strategy: asks(1)}, false, false},
		"a verifier looks":        {step.Config{Strategy: asks(1), Verifiers: []step.Verifier{verdicts(map[string]bool{"middle": true})}}, true, false},
		"a verifier for signals":  {step.Config{Strategy: asks(1), Verifiers: []step.Verifier{{Name: "s", As: step.AsSignal, Verifier: verdicts(nil).Verifier}}}, true, true},
		"a verifier of faults":    {step.Config{Strategy: asks(1), Verifiers: []step.Verifier{{Name: "f", Rejects: true, Verifier: verdicts(nil).Verifier}}}, true, true},
		"another answer is taken": {step.Config{Strategy: asks(0)}, true, false},
		"another model follows":   {step.Config{Strategy: both}, true, false},
	} {
		c.config.Candidates = candidates()
		var unseen []bool
		_, err := engine(t, c.config).Run(t.Context(), step.Request{Query: query(), Commit: c.commit, Caller: step.CallerFunc(func(ctx context.Context, call *step.Call) (*sdk.Answer, error) {
			unseen = append(unseen, call.Unseen)
			return says().Call(ctx, call)
		})})
		if what != "another answer is taken" && err != nil {
			t.Fatal(what, err)
		}
		if unseen[0] != c.want {
			t.Errorf("%s: unseen %v, want %v", what, unseen[0], c.want)
		}
	}
}

package step_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// estimator has the post-hoc estimate of each model's answer, and abstains on other models.
type estimator map[string]float64

// looks returns an estimator that judges only the answers of e's models.
func looks(e estimator) []step.Estimator {
	return []step.Estimator{{Name: "looks", Estimator: e, Looks: func(_ *sdk.Query, model string) bool { _, ok := e[model]; return ok }}}
}

func (e estimator) EstimateQuality(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	out := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}
	for i, name := range req.Models {
		out.Estimates[i] = sdk.Abstain()
		for k := range req.Attempts {
			if v, ok := e[name]; ok && req.Attempts[k].Answer.Model == name {
				out.Estimates[i] = sdk.Estimate{Mean: v}
			}
		}
	}
	return out, nil
}

func every(t *testing.T, lambda float64, try func(name string, s cascade.Strategy)) {
	t.Helper()
	for _, name := range []string{cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
		s, err := cascade.New(name, cascade.Params{Lambdas: []float64{lambda}, Thresholds: []float64{0.8}})
		if err != nil {
			t.Fatal(err)
		}
		try(name, s)
	}
}

// If nothing judges answers, every strategy runs one model, however uncertain the priors
// are.
func TestNobodyLooks(t *testing.T) {
	nowhere := verdicts(nil)
	nowhere.Applies = func(*sdk.Query) bool { return false }
	for what, c := range map[string]step.Config{
		"nothing configured":                   {},
		"a verifier that does not apply":       {Verifiers: []step.Verifier{nowhere}},
		"a verifier of none of the candidates": {Verifiers: []step.Verifier{{Name: "other", Verifier: verdicts(nil).Verifier, Models: []string{"other"}}}},
		"an estimator that will not look":      {Estimators: looks(estimator{})},
		"a check that finds nothing":           {Checks: []step.Check{{Name: "fine", Fault: func(*sdk.Query, *sdk.Answer, []sdk.Attempt) string { return "" }}}},
	} {
		every(t, 20, func(name string, s cascade.Strategy) {
			c := c
			c.Candidates, c.Strategy = candidates(), s
			res, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Attempts) != 1 {
				t.Errorf("%s, %s: asked %s", name, what, called(res.Trace))
			}
			for _, b := range res.Trace.Decisions[0].Models {
				if b.Quality.StdDev != 0 {
					t.Errorf("%s, %s: the trace says that a look at %s would reveal %v", name, what, b.Model, b.Quality.StdDev)
				}
			}
		})
	}
}

// If a check rejects an answer that nothing else judges, the best other model is called.
func TestRejectedWhereNobodyLooks(t *testing.T) {
	check := step.Check{Name: "not small", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
		return map[bool]string{true: "small"}[a.Model == "small"]
	}}
	every(t, 20, func(name string, s cascade.Strategy) {
		if name == cascade.NameThreshold {
			return // its thresholds never choose small here
		}
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: s, Checks: []step.Check{check}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Attempts) > 2 || res.Trace.Chosen == "small" {
			t.Errorf("%s: asked %s, chose %s", name, called(res.Trace), res.Trace.Chosen)
		}
	})
}

// A verifier that is inconclusive on the first answer is not expected to judge the others:
// large is called only if it is expected to be better.
func TestInconclusiveVerifierIsNotWaitedFor(t *testing.T) {
	mute := step.Verifier{Name: "mute", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Inconclusive, Evidence: "no tests here"}, nil
	})}
	list := candidates()
	list[1].Quality.Mean, list[2].Quality.Mean = 0.5, 0.5
	every(t, 1, func(name string, s cascade.Strategy) {
		if name == cascade.NameThreshold {
			return // it asks on while no estimate reaches its threshold
		}
		res, err := engine(t, step.Config{Candidates: list, Strategy: s, Verifiers: []step.Verifier{mute}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if called(res.Trace) != "small" {
			t.Errorf("%s: asked %s, which nothing told apart", name, called(res.Trace))
		}
	})
}

// If only one model's answer will be judged, that model is run for the information.
func TestSomebodyLooksAtOne(t *testing.T) {
	for _, post := range []float64{0.2, 0.95} {
		c := step.Config{
			Candidates: candidates(), Strategy: index(t, 3),
			Estimators: looks(estimator{"small": post}),
		}
		c.Candidates = []step.Candidate{c.Candidates[0], c.Candidates[2]}
		res, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		want := map[float64]string{0.2: "small large", 0.95: "small"}[post]
		if called(res.Trace) != want {
			t.Errorf("small looks like %v: asked %q, want %q", post, called(res.Trace), want)
		}
	}
}

func TestObserveLooks(t *testing.T) {
	for what, c := range map[string]step.Config{
		"verifier":  {Verifiers: []step.Verifier{verdicts(map[string]bool{"large": true})}},
		"estimator": {Estimators: looks(estimator{"large": 0.97})},
	} {
		c.Candidates, c.Strategy = candidates(), index(t, 1)
		res, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: "large", Observe: true})
		if err != nil {
			t.Fatal(err)
		}
		call := res.Trace.Calls[0]
		if called(res.Trace) != "large" || call.Quality.Mean < 0.97 || res.Quality.Mean < 0.97 {
			t.Errorf("%s: asked %s, found %+v", what, called(res.Trace), call.Quality)
		}
		if what == "verifier" && (call.Verdict == nil || call.Verdict.Outcome != sdk.Passed) {
			t.Errorf("the verdict is %+v", call.Verdict)
		}
		// The decision recorded is the one that a step of the strategy's own starts with.
		own, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := res.Trace.Decisions[0].Run, own.Trace.Decisions[0].Run; got != want {
			t.Errorf("%s: observing says that %s would be run, and it is %s", what, got, want)
		}
	}
}

// With Observe, estimators and verifiers cannot fail the step.
func TestObserveCannotFail(t *testing.T) {
	broken := step.Verifier{Name: "broken", OnUnavailable: step.UnavailableFail, Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, errors.New("gone")
	})}
	away := sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		return nil, step.ErrEstimatorUnavailable
	})
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{broken}, Estimators: []step.Estimator{{Name: "away", Estimator: away}}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: "large", Observe: true})
	if err != nil || res.Answer == nil {
		t.Fatal(err)
	}
	note := ""
	for _, d := range res.Trace.Decisions {
		note += d.Note
	}
	if !strings.Contains(note, "broken") || !strings.Contains(note, "estimator unavailable") {
		t.Errorf("the trace does not say what was missing: %q", note)
	}
}

// An estimate far outside the range of qualities is noted and ignored.
func TestAbsurdEstimateIsNoted(t *testing.T) {
	for _, v := range []float64{7, -1, math.NaN()} {
		absurd := sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			out := &sdk.QualityResponse{}
			for range req.Models {
				out.Estimates = append(out.Estimates, sdk.Estimate{Mean: v})
			}
			return out, nil
		})
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Estimators: []step.Estimator{{Name: "absurd", Estimator: absurd}}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		first := res.Trace.Decisions[0]
		if !strings.Contains(first.Note, "not a quality") || first.Models[0].Quality.Mean != 0.5 {
			t.Errorf("%v: note %q, belief %+v", v, first.Note, first.Models[0])
		}
	}
}

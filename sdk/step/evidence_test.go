package step_test

import (
	"context"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// rejects is a judge that rejects every answer.
func rejects() sdk.Verifier {
	return sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	})
}

// A verdict of a judge that errs moves the belief by Bayes' rule; the answer with the
// best posterior is returned, a rejected one too; and the trace has what was believed
// before and after.
func TestVerdictsThatErrMoveTheBelief(t *testing.T) {
	rates := cascade.Rates{FalsePass: 0.1, FalseReject: 0.2}
	s, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.99}})
	if err != nil {
		t.Fatal(err)
	}
	c := candidates()
	for i, p := range []float64{0.4, 0.9, 0.7} {
		c[i].Quality = sdk.Estimate{Mean: p}
	}
	res, err := engine(t, step.Config{
		Candidates: c, Strategy: s,
		Verifiers: []step.Verifier{{Name: "judge", Verifier: rejects(), Rates: &rates}},
	}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	if res.Index != 1 || res.Verdict.Outcome != sdk.Failed {
		t.Errorf("answer of %d, %+v; want the best of three that were rejected", res.Index, res.Verdict)
	}
	if want := 0.9 * 0.2 / (0.9*0.2 + 0.1*0.9); math.Abs(res.Quality.Mean-want) > 1e-12 {
		t.Errorf("believed %v after the verdict, want %v", res.Quality.Mean, want)
	}
	first, second := res.Trace.Decisions[0].Models, res.Trace.Decisions[1].Models
	if first[0].Quality.Mean != 0.4 || first[0].Judge != rates || math.Abs(second[0].Quality.Mean-0.08/0.62) > 1e-12 || !second[0].Ran {
		t.Errorf("the trace has %+v before and %+v after", first[0], second[0])
	}
	if v := res.Trace.Calls[0].Verdict; v.IfRight != 0.2 || v.IfWrong != 0.9 {
		t.Errorf("the verdict says %v where the answer is right and %v where it is wrong", v.IfRight, v.IfWrong)
	}
}

// Zero rates are certainty, whatever confidence a verdict states; without rates that
// counts, as ever.
func TestZeroRatesAreCertainty(t *testing.T) {
	unsure := sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: 0.8}, nil
	})
	for want, rates := range map[float64]*cascade.Rates{1: {}, 0.8: nil} {
		res, err := engine(t, step.Config{
			Candidates: candidates(), Strategy: route(t),
			Verifiers: []step.Verifier{{Name: "judge", Verifier: unsure, Rates: rates}},
		}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil || res.Quality.Mean != want {
			t.Errorf("%v: believed %v, want %v", err, res.Quality.Mean, want)
		}
	}
	_, err := step.New(step.Config{Candidates: candidates(), Strategy: route(t), Verifiers: []step.Verifier{{Name: "judge", Verifier: unsure, Rates: &cascade.Rates{FalsePass: 1}}}})
	if err == nil {
		t.Error("a judge that passes everything is taken")
	}
}

// Rates that an estimator gives for a judge whose errors go together stand for its usual
// ones, and only for those of that judge.
func TestRatesFollowWhatAJudgeSaid(t *testing.T) {
	usual, next := cascade.Rates{FalsePass: 0.1, FalseReject: 0.2}, cascade.Rates{FalsePass: 0.4, FalseReject: 0.5}
	estimator := sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Weighs: true, Judge: &sdk.JudgeRates{Usual: usual}}
		for range req.Models {
			resp.Estimates, resp.Judge.Next = append(resp.Estimates, sdk.Estimate{Mean: 0.5}), append(resp.Judge.Next, next)
		}
		return resp, nil
	})
	for _, rates := range []cascade.Rates{usual, {FalsePass: 0.2}} {
		want := next
		if rates != usual {
			want = rates
		}
		res, err := engine(t, step.Config{
			Candidates: candidates(), Strategy: route(t), Estimators: []step.Estimator{{Name: "e", Estimator: estimator}},
			Verifiers: []step.Verifier{{Name: "judge", Verifier: rejects(), Rates: &rates}},
		}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Trace.Decisions[0].Models[0].Judge; got != want {
			t.Errorf("a judge with the rates %+v is believed to err at %+v", rates, got)
		}
	}
}

package step_test

import (
	"context"
	"math"
	"strings"
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

// A fallible judge's verdict updates the belief by Bayes' rule. The answer with the best
// posterior is returned, even a rejected one, and the trace has the beliefs before and
// after.
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

// Another judge with known rates is asked if its verdict is expected to gain more than it
// costs. The trace has both figures. A free judge is always asked.
func TestASecondJudgeIsAskedWhereItIsWorthItsPrice(t *testing.T) {
	first, second := cascade.Rates{FalsePass: 0.3, FalseReject: 0.05}, cascade.Rates{FalsePass: 0.05, FalseReject: 0.05}
	for _, c := range []struct {
		usd, quality float64
		rates        *cascade.Rates
		asked        int
		note         string
	}{
		{0.0001, 0.5, &second, 1, "verifier second is also asked: its verdict is expected to gain "},
		{0.5, 0.5, &second, 0, "verifier second is not asked: its verdict is expected to gain "},
		{0.0001, 0.999, &second, 0, "verifier second is not asked: its verdict is expected to gain 0.0000 and costs 0.0010 in quality"},
		{0, 0.999, &second, 1, ""},
		{0.5, 0.5, nil, 1, ""},
	} {
		list := candidates()
		for i := range list {
			list[i].Quality = sdk.Estimate{Mean: c.quality}
		}
		var asked []string
		passes := sdk.Verdict{Outcome: sdk.Passed, Score: 1}
		a, b := finds("first", passes, &[]string{}), finds("second", passes, &asked)
		a.As, b.As, a.Rates, b.Rates, b.MaxCostUSD = step.AsVerdict, step.AsVerdict, &first, c.rates, c.usd
		res, err := engine(t, step.Config{Candidates: list, Strategy: index(t, 10), Verifiers: []step.Verifier{a, b}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		note := ""
		for _, d := range res.Trace.Decisions {
			note += d.Note
		}
		if len(asked) != c.asked*len(res.Attempts) || !strings.Contains(note, c.note) || c.note == "" && strings.Contains(note, "expected to gain") {
			t.Errorf("at %v USD and a quality of %v: asked %d times for %d answers, %q; want %d, %q", c.usd, c.quality, len(asked), len(res.Attempts), note, c.asked, c.note)
		}
	}
}

// Zero rates make a verdict certain, whatever its confidence; without rates the
// confidence counts.
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

// The share of a verdict's information that also applies to the best answer is part of the
// decision and the trace: no further model is called for its sake.
func TestWhatAVerdictTellsOfTheAnswerAtHandGainsNothing(t *testing.T) {
	s, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{1}, Gamma: 1, MaxDepth: 2})
	if err != nil {
		t.Fatal(err)
	}
	for shared, asked := range map[float64]int{0: 2, 0.95: 1} {
		estimator := sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			resp := &sdk.QualityResponse{Weighs: true}
			for i := range req.Models {
				mean, of := 0.5, shared
				if i < len(req.Attempts) {
					mean, of = 0.55, 0
				}
				resp.Estimates, resp.Shared = append(resp.Estimates, sdk.Estimate{Mean: mean}), append(resp.Shared, of)
			}
			return resp, nil
		})
		res, err := engine(t, step.Config{
			Candidates: candidates(), Strategy: s, Estimators: []step.Estimator{{Name: "e", Estimator: estimator}},
			Verifiers: []step.Verifier{{Name: "judge", Verifier: rejects(), Rates: &cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}}},
		}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Attempts) != asked {
			t.Errorf("%v shared: %d models were asked, want %d", shared, len(res.Attempts), asked)
		}
		d := res.Trace.Decisions[1].Models
		if got := d[len(d)-1].Shared; got != shared {
			t.Errorf("the trace says that %v is shared, want %v", got, shared)
		}
	}
}

// An estimator's current rates for a judge with correlated errors replace that judge's
// usual rates, and no other judge's.
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

package step_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// finds returns a verifier that always returns v and records in asked that it was called.
func finds(name string, v sdk.Verdict, asked *[]string) step.Verifier {
	return step.Verifier{Name: name, Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if asked != nil {
			*asked = append(*asked, name)
		}
		return &v, nil
	})}
}

// After a verdict, quality is a Bernoulli variable with the verdict's confidence.
func TestAVerdictIsAnEstimate(t *testing.T) {
	for _, c := range []struct {
		verdict sdk.Verdict
		want    sdk.Estimate
	}{
		{sdk.Verdict{Outcome: sdk.Passed}, sdk.Estimate{Mean: 1}},
		{sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.8}, sdk.Estimate{Mean: 0.8, StdDev: 0.4}},
		{sdk.Verdict{Outcome: sdk.Failed, Confidence: 0.9}, sdk.Estimate{Mean: 0.1, StdDev: 0.3}},
		{sdk.Verdict{Outcome: sdk.Failed}, sdk.Estimate{}},
		{sdk.Verdict{Outcome: sdk.Inconclusive}, sdk.Estimate{Mean: 0.9, StdDev: 0.2}}, // the prior
	} {
		e := engine(t, step.Config{Candidates: candidates()[2:], Strategy: route(t), Verifiers: []step.Verifier{finds("v", c.verdict, nil)}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if q := res.Quality; math.Abs(q.Mean-c.want.Mean) > 1e-12 || math.Abs(q.StdDev-c.want.StdDev) > 1e-12 {
			t.Errorf("%s with confidence %v: quality %+v, want %+v", c.verdict.Outcome, c.verdict.Confidence, q, c.want)
		}
	}
}

// Beliefs about models that a verifier will judge are Bernoulli before they run, but not
// after an uncertain pass, since the same judge's pass would be worth no more.
func TestJudgedUntilAnUncertainPass(t *testing.T) {
	for confidence, judged := range map[float64]bool{1: true, 0.5: false} {
		pass := finds("tests", sdk.Verdict{Outcome: sdk.Passed, Confidence: confidence}, nil)
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 0.1), Verifiers: []step.Verifier{pass}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil || len(res.Trace.Decisions) != 2 {
			t.Fatalf("%d decisions, %v", len(res.Trace.Decisions), err)
		}
		first, second := res.Trace.Decisions[0].Models, res.Trace.Decisions[1].Models
		for i := range first {
			if !first[i].Judged {
				t.Errorf("%s is not expected to be judged", first[i].Model)
			}
			if ran := first[i].Model == called(res.Trace); second[i].Judged != (judged && !ran) {
				t.Errorf("after a pass with confidence %v: %s judged %v", confidence, second[i].Model, second[i].Judged)
			} else if !ran && !judged && !nearly(second[i].Quality.Mean, confidence*first[i].Quality.Mean) {
				t.Errorf("%s is worth %v, want %v times %v", second[i].Model, second[i].Quality.Mean, confidence, first[i].Quality.Mean)
			}
		}
	}
}

// Verifiers run in order until one rejects. Their verdicts are merged, with the lowest
// confidence and score and the sum of the costs.
func TestVerdictsOfSeveralAreOne(t *testing.T) {
	passed := func(confidence, score, usd float64) sdk.Verdict {
		return sdk.Verdict{Outcome: sdk.Passed, Confidence: confidence, Score: score, CostUSD: usd, Duration: time.Duration(1000 * usd)}
	}
	failed := sdk.Verdict{Outcome: sdk.Failed, Score: 0.3, CostUSD: 0.5, Duration: 500}
	mute := sdk.Verdict{Outcome: sdk.Inconclusive, CostUSD: 0.125, Duration: 125}
	for what, c := range map[string]struct {
		all   []sdk.Verdict
		asked string
		want  sdk.Verdict
	}{
		"both pass, the second surer": {[]sdk.Verdict{passed(0.7, 1, 0.25), passed(0.9, 0.8, 0.5)}, "v0 v1",
			sdk.Verdict{Verifier: "v0", Outcome: sdk.Passed, Confidence: 0.7, Score: 0.8, CostUSD: 0.75, Duration: 750}},
		"both pass, the first surer": {[]sdk.Verdict{passed(0.9, 0.8, 0.25), passed(0.7, 1, 0.5)}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Passed, Confidence: 0.7, Score: 0.8, CostUSD: 0.75, Duration: 750}},
		"both pass, equally sure": {[]sdk.Verdict{passed(0.7, 1, 0.25), passed(0.7, 1, 0.5)}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Passed, Confidence: 0.7, Score: 1, CostUSD: 0.75, Duration: 750}},
		"no confidence is full confidence": {[]sdk.Verdict{passed(0, 1, 0.25), passed(0.7, 1, 0.5)}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Passed, Confidence: 0.7, Score: 1, CostUSD: 0.75, Duration: 750}},
		"the first rejects": {[]sdk.Verdict{failed, passed(0.9, 1, 0.25)}, "v0",
			sdk.Verdict{Verifier: "v0", Outcome: sdk.Failed, Score: 0.3, CostUSD: 0.5, Duration: 500}},
		"the second rejects": {[]sdk.Verdict{passed(0.9, 1, 0.25), failed, passed(1, 1, 8)}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Failed, Score: 0.3, CostUSD: 0.75, Duration: 750}},
		"the first says nothing": {[]sdk.Verdict{mute, passed(0.9, 1, 0.25)}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Passed, Confidence: 0.9, Score: 1, CostUSD: 0.375, Duration: 375}},
		"the second says nothing": {[]sdk.Verdict{passed(0.9, 1, 0.25), mute}, "v0 v1",
			sdk.Verdict{Verifier: "v0", Outcome: sdk.Passed, Confidence: 0.9, Score: 1, CostUSD: 0.375, Duration: 375}},
		"the first says nothing, the second rejects": {[]sdk.Verdict{mute, failed}, "v0 v1",
			sdk.Verdict{Verifier: "v1", Outcome: sdk.Failed, Score: 0.3, CostUSD: 0.625, Duration: 625}},
	} {
		var asked []string
		var list []step.Verifier
		for i, v := range c.all {
			list = append(list, finds(fmt.Sprint("v", i), v, &asked))
		}
		res, err := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Verifiers: list}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		got := res.Verdict
		if strings.Join(asked, " ") != c.asked || got.Verifier != c.want.Verifier || got.Outcome != c.want.Outcome || got.Confidence != c.want.Confidence ||
			got.Score != c.want.Score || got.CostUSD != c.want.CostUSD || got.Duration != c.want.Duration {
			t.Errorf("%s: asked %v, verdict %+v; want %s, %+v", what, asked, *got, c.asked, c.want)
		}
	}
}

// The verifier name and duration in a verdict are kept if set, else filled in.
func TestAVerdictHasANameAndATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, own := range []sdk.Verdict{{Outcome: sdk.Passed}, {Outcome: sdk.Passed, Verifier: "pytest", Duration: time.Second}} {
			slow := step.Verifier{Name: "tests", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
				time.Sleep(2 * time.Second)
				return &own, nil
			})}
			res, err := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Verifiers: []step.Verifier{slow}}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
			if err != nil {
				t.Fatal(err)
			}
			name, took := "tests", 2*time.Second
			if own.Verifier != "" {
				name, took = "pytest", time.Second
			}
			if v := res.Verdict; v.Verifier != name || v.Duration != took {
				t.Errorf("verdict of %s after %v, want %s, %v", v.Verifier, v.Duration, name, took)
			}
			if res.Trace.Overhead != 0 || res.Trace.Duration != 2*time.Second {
				t.Errorf("the step took %v, %v of it its own: waiting for a verifier is no overhead", res.Trace.Duration, res.Trace.Overhead)
			}
		}
	})
}

// Verifiers and estimators get a deadline if and only if they have a timeout.
func TestTimeoutsAreDeadlines(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		check := func(ctx context.Context, who string) {
			if deadline, has := ctx.Deadline(); has != (timeout > 0) || ctx.Err() != nil || has && time.Until(deadline) > timeout {
				t.Errorf("%s with a time-out of %v: deadline %v %v, %v", who, timeout, has, time.Until(deadline), ctx.Err())
			}
		}
		asked := 0
		c := step.Config{Candidates: candidates()[:1], Strategy: route(t),
			Verifiers: []step.Verifier{{Name: "v", Timeout: timeout, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
				check(ctx, "verifier")
				asked++
				return &sdk.Verdict{Outcome: sdk.Passed}, nil
			})}},
			Estimators: []step.Estimator{{Name: "e", Timeout: timeout, Estimator: sdk.QualityEstimatorFunc(func(ctx context.Context, _ *sdk.QualityRequest) (*sdk.QualityResponse, error) {
				check(ctx, "estimator")
				asked++
				return &sdk.QualityResponse{Estimates: []sdk.Estimate{{Mean: 0.5}}}, nil
			})}},
		}
		if _, err := engine(t, c).Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil || asked < 2 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	}
}

// counting is a ledger that records its reservations.
type counting struct {
	log    []string
	refuse float64 // reservations from here on are refused
}

func (c *counting) Reserve(_ context.Context, _ *sdk.Query, usd float64) (step.Reservation, error) {
	if c.refuse > 0 && usd >= c.refuse {
		return nil, fmt.Errorf("no room for %v: %w", usd, sdk.ErrBudgetExhausted)
	}
	c.log = append(c.log, fmt.Sprintf("reserve %.3f", usd))
	return c, nil
}

func (c *counting) Settle(_ context.Context, usd float64) error {
	c.log = append(c.log, fmt.Sprintf("settle %.3f", usd))
	return nil
}

// The ledger gets a reservation before everything that can cost money, and nothing for what
// is free.
func TestALedgerHearsOfMoneyOnly(t *testing.T) {
	call := step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return &sdk.Answer{Text: "x", CostUSD: 1}, nil })
	for what, c := range map[string]struct {
		mostUSD, usd float64 // of the verification
		refuse       float64
		want         string
		outcome      sdk.Outcome
	}{
		"for nothing":           {0, 0, 0, "reserve 2.000, settle 1.000", sdk.Passed},
		"for less than its max": {0.5, 0.25, 0, "reserve 2.000, settle 1.000, reserve 0.500, settle 0.250", sdk.Passed},
		"for nothing after all": {0.5, 0, 0, "reserve 2.000, settle 1.000, reserve 0.500, settle 0.000", sdk.Passed},
		"costs unannounced":     {0, 0.25, 0, "reserve 2.000, settle 1.000, reserve 0.000, settle 0.250", sdk.Passed},
		"no room for it":        {4, 0, 3, "reserve 2.000, settle 1.000", sdk.Inconclusive},
	} {
		ledger := &counting{refuse: c.refuse}
		v := finds("judge", sdk.Verdict{Outcome: sdk.Passed, CostUSD: c.usd}, nil)
		v.MaxCostUSD = c.mostUSD
		e := engine(t, step.Config{Candidates: priced(2), Strategy: route(t), Ledger: ledger, Verifiers: []step.Verifier{v}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: call})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(ledger.log, ", "); got != c.want || res.Verdict.Outcome != c.outcome {
			t.Errorf("%s: %s, verdict %s; want %s, %s", what, got, res.Verdict.Outcome, c.want, c.outcome)
		}
	}
}

// For each model the first estimator that does not abstain counts, and once all models have
// an estimate, no further estimator is asked.
func TestTheFirstEstimatorThatSpeaksCounts(t *testing.T) {
	asked := map[string]int{}
	speaks := func(name string, means map[string]float64) step.Estimator {
		return step.Estimator{Name: name, Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			asked[name]++
			resp := &sdk.QualityResponse{}
			for _, m := range r.Models {
				e := sdk.Abstain()
				if v, ok := means[m]; ok {
					e = sdk.Estimate{Mean: v}
				}
				resp.Estimates = append(resp.Estimates, e)
			}
			return resp, nil
		})}
	}
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Estimators: []step.Estimator{
		speaks("first", map[string]float64{"small": 0.2}),
		speaks("second", map[string]float64{"small": 0.3, "middle": 0.4, "large": 0.1}),
		speaks("third", map[string]float64{"large": 0.9}),
	}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.2, 0.4, 0.1} {
		if got := res.Trace.Decisions[0].Models[i].Quality.Mean; got != want {
			t.Errorf("model %d: %v, want %v", i, got, want)
		}
	}
	if asked["first"] == 0 || asked["second"] == 0 || asked["third"] != 0 {
		t.Errorf("asked %v times", asked)
	}
}

// An estimate can be up to half a unit outside [0, 1]; an invalid deviation becomes zero.
func TestEstimatesOnTheEdge(t *testing.T) {
	for _, c := range []struct {
		said  sdk.Estimate
		want  sdk.Estimate
		noted bool
	}{
		{sdk.Estimate{Mean: 1.5, StdDev: 0.1}, sdk.Estimate{Mean: 1.5, StdDev: 0.1}, false},
		{sdk.Estimate{Mean: -0.5, StdDev: 0.1}, sdk.Estimate{Mean: -0.5, StdDev: 0.1}, false},
		{sdk.Estimate{Mean: 1.51}, sdk.Estimate{Mean: 0.5, StdDev: 0.3}, true},
		{sdk.Estimate{Mean: 0.8, StdDev: -1}, sdk.Estimate{Mean: 0.8}, false},
		{sdk.Estimate{Mean: 0.8, StdDev: math.NaN()}, sdk.Estimate{Mean: 0.8}, false},
		{sdk.Estimate{Mean: 0.8, StdDev: math.Inf(1)}, sdk.Estimate{Mean: 0.8}, false},
	} {
		e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Estimators: []step.Estimator{{Name: "e", Estimator: sdk.QualityEstimatorFunc(
			func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
				return &sdk.QualityResponse{Estimates: []sdk.Estimate{c.said}}, nil
			})}}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		first := res.Trace.Decisions[0]
		if got := first.Models[0].Quality; got != c.want || strings.Contains(first.Note, "not a quality") != c.noted {
			t.Errorf("said %+v: %+v, note %q; want %+v", c.said, got, first.Note, c.want)
		}
	}
}

// A note lists everything that went wrong before the decision, in order.
func TestNotesAreJoined(t *testing.T) {
	gone := func(name string) step.Estimator {
		return step.Estimator{Name: name, Estimator: sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			return nil, errors.New("gone")
		})}
	}
	e := engine(t, step.Config{Candidates: candidates(), Strategy: route(t), Estimators: []step.Estimator{gone("a"), gone("b")}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	if note := res.Trace.Decisions[0].Note; note != "estimator a unavailable, abstained: gone; estimator b unavailable, abstained: gone" {
		t.Errorf("note %q", note)
	}
}

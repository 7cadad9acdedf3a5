package step_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// offers is an estimator with fixed estimates that offers a look at small's answer until
// it is bought; the look's value then is the estimate.
func offers(usd float64) step.Estimator {
	means := map[string]float64{"small": 0.6, "middle": 0.62, "large": 0.9}
	return step.Estimator{Name: "fitted", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models)), Looks: make([]sdk.Look, len(req.Models))}
		for i, name := range req.Models {
			resp.Estimates[i] = sdk.Estimate{Mean: means[name]}
			if name != "small" {
				continue
			}
			resp.Looks[i] = sdk.Look{Signal: "judge", StdDev: 0.4, CostUSD: usd}
			for _, a := range req.Attempts {
				if v, had := a.Answer.Signals["judge"]; had && a.Answer.Model == name {
					resp.Estimates[i].Mean = v // and offers the look again, which is not had twice
				}
			}
		}
		return resp, nil
	})}
}

func TestALookIsBoughtWhereItIsWorthItsPrice(t *testing.T) {
	sure := sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.95, CostUSD: 0.0001}
	wrong := sdk.Verdict{Outcome: sdk.Failed, Confidence: 0.9, CostUSD: 0.0001}
	for _, c := range []struct {
		name    string
		usd     float64
		verdict sdk.Verdict
		as      step.VerifierUse
		asked   int
		called  string
		quality float64
	}{
		{"a good answer stays", 0.0001, sure, step.AsBought, 1, "small", 0.95},
		{"a bad one is left", 0.0001, wrong, step.AsBought, 1, "small large", 0.9},
		{"who has nothing to say is not asked again", 0.0001, sdk.Verdict{CostUSD: 0.0001}, step.AsBought, 1, "small large", 0.9},
		{"too dear", 1, sure, step.AsBought, 0, "large", 0.9},
		{"had of every answer", 0.0001, sure, step.AsSignal, 1, "large", 0.9},
	} {
		var asked []string
		judge := finds("judge", c.verdict, &asked)
		judge.As = c.as
		verifier := judge.Verifier
		judge.Verifier = sdk.VerifierFunc(func(ctx context.Context, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
			if slices.ContainsFunc(req.Earlier, func(a sdk.Attempt) bool { return a.Answer.Model == req.Answer.Model }) {
				t.Errorf("%s: the answer of %s is among those before it", c.name, req.Answer.Model)
			}
			return verifier.Verify(ctx, req)
		})
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 10), Estimators: []step.Estimator{offers(c.usd)}, Verifiers: []step.Verifier{judge}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		paid, bought := 0.0, 0
		for _, call := range res.Trace.Calls {
			paid += call.CostUSD
			if _, had := call.Signals["judge"]; had != (c.as == step.AsSignal || call.Model == "small" && c.quality != 0.9 || c.verdict.Outcome == sdk.Failed && call.Model == "small") {
				t.Errorf("%s: the signals of %s's answer are %v", c.name, call.Model, call.Signals)
			}
			if call.Verdict != nil {
				t.Errorf("%s: a signal is a verdict: %+v", c.name, call.Verdict)
			}
		}
		for _, d := range res.Trace.Decisions {
			if d.Look != "" {
				bought++
				if at := slices.IndexFunc(d.Models, func(b sdk.Belief) bool { return b.Model == d.Look }); d.Run != "" || at < 0 || d.Models[at].Look == nil {
					t.Errorf("%s: the trace does not tell what was offered: %+v", c.name, d)
				}
			}
		}
		if len(asked) != c.asked || c.as == step.AsBought && bought != c.asked || called(res.Trace) != c.called || !nearly(res.Quality.Mean, c.quality) {
			t.Errorf("%s: the judge was asked %d times (%d looks), models %s, quality %v; want %d, %s, %v",
				c.name, len(asked), bought, called(res.Trace), res.Quality.Mean, c.asked, c.called, c.quality)
		}
		if want := paid + 0.0001*float64(c.asked); math.Abs(res.Trace.CostUSD-want) > 1e-12 {
			t.Errorf("%s: the step cost %v, want %v", c.name, res.Trace.CostUSD, want)
		}
	}
}

// judgeForSale is an estimator with fixed estimates that offers the verdicts on all answers.
func judgeForSale(usd float64) step.Estimator {
	means := map[string]float64{"small": 0.6, "large": 0.9}
	return step.Estimator{Name: "fitted", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models)), Looks: make([]sdk.Look, len(req.Models))}
		for i, name := range req.Models {
			resp.Estimates[i], resp.Looks[i] = sdk.Estimate{Mean: means[name]}, sdk.Look{Signal: "judge", CostUSD: usd}
		}
		return resp, nil
	})}
}

// A fallible verdict with a price is bought, but not on the last answer, unless it can decide which
// answer is best. Strategies that do not buy get every verdict.
func TestTheLastVerdictIsLeftOut(t *testing.T) {
	route := func(name string) cascade.Strategy {
		s, err := cascade.New(name, cascade.Params{Lambdas: []float64{10}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	rates := cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}
	failed, mute := sdk.Verdict{Outcome: sdk.Failed, CostUSD: 0.001}, sdk.Verdict{CostUSD: 0.001}
	for _, c := range []struct {
		name     string
		strategy string
		usd      float64
		verdict  sdk.Verdict
		explore  float64
		verdicts string // on whose answers
	}{
		{"the last", cascade.NameIndex, 0.001, failed, 0, "small"},
		{"dear", cascade.NameIndex, 1, failed, 0, ""},
		{"nothing is bought", cascade.NameCascadeRoute, 0.001, failed, 0, "small large"},
		{"a judge that can say nothing", cascade.NameIndex, 0.001, mute, 0, "small"},
		{"a step that explores", cascade.NameIndex, 0.001, failed, 1, "small large"},
	} {
		judge := finds("judge", c.verdict, nil)
		judge.Rates = &rates
		list := candidates()
		res, err := engine(t, step.Config{Candidates: []step.Candidate{list[0], list[2]}, Strategy: route(c.strategy), Explore: c.explore,
			Estimators: []step.Estimator{judgeForSale(c.usd)}, Verifiers: []step.Verifier{judge}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		var verdicts []string
		for _, call := range res.Trace.Calls {
			if call.Verdict != nil {
				verdicts = append(verdicts, call.Model)
			}
		}
		if got := strings.Join(verdicts, " "); got != c.verdicts {
			t.Errorf("%s: verdicts on the answers of %q, want %q; asked %s", c.name, got, c.verdicts, called(res.Trace))
		}
	}
}

// Verdicts are also bought without an estimator, once the first verdict has established the price.
func TestVerdictsAreBoughtWithoutAnEstimator(t *testing.T) {
	list := candidates()
	for name, c := range map[string]struct {
		candidates []step.Candidate
		perStep    float64 // verdicts, from the second step on
	}{
		"one model":  {list[:1], 0},
		"two models": {[]step.Candidate{list[0], list[2]}, 1},
	} {
		const steps = 4
		var asked []string
		judge := finds("judge", sdk.Verdict{Outcome: sdk.Failed, CostUSD: 0.001}, &asked)
		judge.Rates, judge.MaxCostUSD = &cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}, 0.01
		e := engine(t, step.Config{Candidates: c.candidates, Strategy: index(t, 10), Verifiers: []step.Verifier{judge}})
		first := 0
		for n := range steps {
			if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				first = len(asked)
			}
		}
		if per := float64(len(asked)-first) / (steps - 1); first == 0 || per != c.perStep {
			t.Errorf("%s: %d verdicts in the first step, then %v in each, want %v", name, first, per, c.perStep)
		}
	}
}

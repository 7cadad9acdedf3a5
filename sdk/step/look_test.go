package step_test

import (
	"context"
	"fmt"
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
		only     string
		beside   []step.VerifierUse // of further judges
		verdicts string             // on whose answers
	}{
		{"the last", cascade.NameIndex, 0.001, failed, 0, "", nil, "small"},
		{"dear", cascade.NameIndex, 1, failed, 0, "", nil, ""},
		{"nothing is bought", cascade.NameCascadeRoute, 0.001, failed, 0, "", nil, "small large"},
		{"a judge that can say nothing", cascade.NameIndex, 0.001, mute, 0, "", nil, "small"},
		{"a step that explores", cascade.NameIndex, 0.001, failed, 1, "", nil, "small large"},
		{"pinned to the first", cascade.NameIndex, 0.001, failed, 0, "small", nil, "small"},
		{"pinned to the last", cascade.NameIndex, 0.001, failed, 0, "large", nil, "large"},
		{"two judges", cascade.NameIndex, 0.001, failed, 0, "", []step.VerifierUse{step.AsVerdict}, "small large"},
		{"scores for sale", cascade.NameIndex, 0.001, failed, 0, "", []step.VerifierUse{step.AsBought, step.AsBought}, "small"},
	} {
		judge := finds("judge", c.verdict, nil)
		judge.Rates = &rates
		judges := []step.Verifier{judge}
		for i, as := range c.beside {
			other := finds(fmt.Sprint("other ", i), sdk.Verdict{Outcome: sdk.Failed, CostUSD: 0.001}, nil)
			other.Rates, other.As = &rates, as
			judges = append(judges, other)
		}
		list := candidates()
		res, err := engine(t, step.Config{Candidates: []step.Candidate{list[0], list[2]}, Strategy: route(c.strategy), Explore: c.explore,
			Estimators: []step.Estimator{judgeForSale(c.usd)}, Verifiers: judges}).
			Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: c.only, Observe: c.only != ""})
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

// A look can be bought after the last model has run. Then the step ends, since there is nothing left to run or buy.
func TestALookAfterTheLastModel(t *testing.T) {
	var asked []string
	judge := finds("judge", sdk.Verdict{Outcome: sdk.Passed, Confidence: 0.95, CostUSD: 0.0001}, &asked)
	judge.As = step.AsBought
	inTurn := scripted(func(s *cascade.State) cascade.Decision {
		switch {
		case len(s.Ran) < 2:
			return cascade.Decision{Run: len(s.Ran), Answer: cascade.None}
		case s.Beliefs[0].Look != cascade.Look{}:
			return cascade.Decision{Run: 0, Look: true, Answer: 1}
		}
		return cascade.Decision{Run: cascade.Stop, Answer: 0}
	})
	res, err := engine(t, step.Config{Candidates: candidates()[:2], Strategy: inTurn, Estimators: []step.Estimator{offers(0.0001)}, Verifiers: []step.Verifier{judge}}).
		Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil || len(asked) != 1 || res.Trace.Chosen != "small" || !nearly(res.Quality.Mean, 0.95) || res.Trace.Stop != sdk.StopExhausted {
		t.Errorf("%d looks, chose %s of %v, stop %s, %v", len(asked), res.Trace.Chosen, res.Quality, res.Trace.Stop, err)
	}
}

// What an estimator says of some models only is used for those.
func TestEstimatorsThatSayMoreOfTheFirst(t *testing.T) {
	usual, next := cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}, cascade.Rates{FalsePass: 0.3, FalseReject: 0.1}
	judge := finds("judge", sdk.Verdict{Outcome: sdk.Passed}, nil)
	judge.Rates = &usual
	for _, shared := range []float64{0, 0.5, 1, 1.01, -0.01} {
		brief := step.Estimator{Name: "brief", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			return &sdk.QualityResponse{
				Estimates: slices.Repeat([]sdk.Estimate{{Mean: 0.5}}, len(r.Models)), Shared: []float64{shared}, Looks: []sdk.Look{{}},
				Judge: &sdk.JudgeRates{Usual: usual, Next: []cascade.Rates{next}},
			}, nil
		})}
		res, err := engine(t, step.Config{Candidates: candidates()[:2], Strategy: index(t, 1), Estimators: []step.Estimator{brief}, Verifiers: []step.Verifier{judge}}).
			Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		want := shared
		if shared < 0 || shared > 1 {
			want = 0 // not a share
		}
		if b := res.Trace.Decisions[0].Models; b[0].Judge != next || b[0].Shared != want || b[1].Judge != usual || b[1].Shared != 0 {
			t.Errorf("a share of %v: %+v and %+v", shared, b[0], b[1])
		}
	}
}

// A further fallible verdict that is not worth its price is left out, except on the answer of a model that was named.
func TestPinnedAnswersGetEveryVerdict(t *testing.T) {
	for only, want := range map[string]bool{"": false, "small": true, "large": true} {
		var asked []string
		list := []step.Verifier{finds("first", sdk.Verdict{Outcome: sdk.Passed}, &asked), finds("second", sdk.Verdict{Outcome: sdk.Passed}, &asked)}
		for i := range list {
			list[i].Rates, list[i].MaxCostUSD = &cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}, 1
		}
		_, err := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 10), Verifiers: list}).
			Run(t.Context(), step.Request{Query: query(), Caller: says(), Only: only, Observe: only != ""})
		if err != nil || !slices.Contains(asked, "first") || slices.Contains(asked, "second") != want {
			t.Errorf("only %q: asked %v, %v", only, asked, err)
		}
	}
}

package middleware_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

// both is a configuration whose steps call both models, whose answers differ if differs is set.
func both(t *testing.T, differs *atomic.Bool) middleware.Config {
	t.Helper()
	s, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	first := &fake{say: func(context.Context, []llms.MessageContent, *llms.CallOptions) (*llms.ContentResponse, error) {
		if differs.Load() {
			return text("other"), nil
		}
		return text("same"), nil
	}}
	agree := sdk.QualityEstimatorFunc(func(_ context.Context, req *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		return &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(req.Models))}, nil
	})
	return middleware.Config{
		Models: []middleware.Candidate{small(first), large(says("same"))}, Session: middleware.SessionConfig{Off: true, CountDisputes: true},
		Step: step.Config{Strategy: s, Estimators: []step.Estimator{{Name: "none", Estimator: agree}}},
	}
}

func TestDisputedStepsOfARun(t *testing.T) {
	var differs atomic.Bool
	shared := &notes{byID: map[string][]byte{}}
	model := func() (m *middleware.Model, last func() float64) {
		c := both(t, &differs)
		c.Conversations = shared
		var seen float64
		c.Step.Traces = func(_ context.Context, tr *sdk.Trace) { seen = tr.Features[feature.DisputedSteps] }
		return wrap(t, c), func() float64 { return seen }
	}
	m, last := model()
	other, otherLast := model() // another process
	ask := func(m *middleware.Model, last func() float64, info middleware.Info, disputed bool, messages []llms.MessageContent) float64 {
		t.Helper()
		differs.Store(disputed)
		if _, err := m.GenerateContent(middleware.WithInfo(t.Context(), info), messages); err != nil {
			t.Fatal(err)
		}
		return last()
	}
	first := human("book a flight")
	later := append(human("book a flight"), llms.TextParts(llms.ChatMessageTypeAI, "I look"), llms.TextParts(llms.ChatMessageTypeHuman, "go on"))
	a, b := middleware.Info{Run: "a"}, middleware.Info{Run: "a", Tenant: "b"}
	for i, step := range []struct {
		what     string
		got      func() float64
		disputes float64
	}{
		{"a run begins, and its answers differ", func() float64 { return ask(m, last, a, true, first) }, 0},
		{"its next step, whose answers agree", func() float64 { return ask(m, last, a, false, later) }, 1},
		{"the run elsewhere", func() float64 { return ask(other, otherLast, a, true, later) }, 1},
		{"and back", func() float64 { return ask(m, last, a, false, later) }, 2},
		{"another tenant's of that name", func() float64 { return ask(m, last, b, false, later) }, 0},
		{"a run that nobody names", func() float64 { return ask(m, last, middleware.Info{}, true, first) }, 0},
		{"its next step", func() float64 { return ask(m, last, middleware.Info{}, false, later) }, 1},
		{"the same task anew", func() float64 { return ask(m, last, middleware.Info{}, false, first) }, 0},
		{"its next step", func() float64 { return ask(m, last, middleware.Info{}, false, later) }, 0},
		{"a conversation that begins otherwise", func() float64 { return ask(m, last, middleware.Info{}, true, human("book a train")) }, 0},
		{"the one before", func() float64 { return ask(m, last, middleware.Info{}, false, later) }, 0},
	} {
		if got := step.got(); got != step.disputes {
			t.Errorf("%d, %s: %v disputed steps, want %v", i, step.what, got, step.disputes)
		}
	}
}

// Answers that differ in a shadow do not make the baseline's run a hard one: the shadows of its later steps call the
// same models as those of the first step.
func TestShadowsCountNoDisputes(t *testing.T) {
	var differs atomic.Bool
	differs.Store(true)
	c := both(t, &differs)
	c.Mode, c.Baseline, c.Shadow = middleware.Shadow, "large", middleware.ShadowConfig{Sample: 1, CapUSD: 1}
	var seen []float64
	c.Step.Traces = func(_ context.Context, tr *sdk.Trace) {
		if tr.Mode == middleware.ShadowAlternative {
			seen = append(seen, tr.Features[feature.DisputedSteps])
		}
	}
	m := wrap(t, c)
	for range 3 {
		if _, err := m.GenerateContent(middleware.WithInfo(t.Context(), middleware.Info{Run: "a"}), human("q")); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil { // waits for the shadow
			t.Fatal(err)
		}
	}
	if len(seen) != 3 || slices.Max(seen) != 0 {
		t.Errorf("shadows knew of %v disputed steps, want none", seen)
	}
}

// A rejected answer also makes a step disputed, and an idle run is forgotten.
func TestRejectedAnswersDispute(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := middleware.NewSessions(middleware.SessionConfig{CountDisputes: true}, nil, func() time.Time { return now })
	disputes := func(q sdk.Query) float64 {
		q.Features = map[string]float64{}
		s.AddFeatures(&q)
		return q.Features[feature.DisputedSteps]
	}
	q := &sdk.Query{Run: "a"}
	s.RecordDispute(q, &step.Result{IsDecided: true, Attempts: []sdk.Attempt{{Verdict: &sdk.Verdict{Outcome: sdk.Passed}}}})
	if n := disputes(*q); n != 0 {
		t.Errorf("%v after an answer that passed", n)
	}
	s.RecordDispute(q, &step.Result{IsDecided: true, Attempts: []sdk.Attempt{{Verdict: &sdk.Verdict{Outcome: sdk.Failed}}}})
	if n := disputes(*q); n != 1 {
		t.Errorf("%v after a rejected answer, want 1", n)
	}
	if n := disputes(sdk.Query{}); n != 0 {
		t.Errorf("%v of a query of which nothing is known", n)
	}
	now = now.Add(time.Hour)
	if n := disputes(*q); n != 0 {
		t.Errorf("%v after an hour", n)
	}
}

// The cost limit of doubts counts only steps that the policy decides: steps of a holdout, which call the dearest
// model in any case, do not count. Once the counted steps cost more than that model alone would have, further steps
// call only that model.
func TestDoubtsKeepToWhatThePolicyDecides(t *testing.T) {
	large := sdk.Model{Name: "large", Price: sdk.Price{Output: 1e6}} // 1 USD a token
	s := middleware.NewSessions(middleware.SessionConfig{DoubtUpTo: 0.5, Dearest: "large"}, []sdk.Model{large}, time.Now)
	record := func(usd float64, isDecided bool) map[string]float64 {
		q := &sdk.Query{Features: map[string]float64{}}
		for range 100 {
			answer := sdk.Answer{Model: "large", CostUSD: 1, Usage: sdk.Usage{OutputTokens: 1}}
			s.RecordDispute(q, &step.Result{Answer: &answer, Attempts: []sdk.Attempt{{Answer: answer}}, IsDecided: isDecided, Trace: &sdk.Trace{CostUSD: usd}})
		}
		s.AddFeatures(q)
		return q.Features
	}
	for _, test := range []struct {
		what      string
		usd       float64
		isDecided bool
		setbacks  float64
		isHeld    bool
	}{
		{"a holdout", 1, false, 0, false},
		{"within the share", 0.4, true, 0, false},
		{"above it", 0.9, true, 0, true},
		{"above all of it", 2, true, 1, true},
	} {
		f := record(test.usd, test.isDecided)
		if got := feature.Setbacks(f); got != test.setbacks || f[feature.HeldBack] > 0 != test.isHeld {
			t.Errorf("%s: %v setbacks, features %v", test.what, got, f)
		}
	}
}

// The cost of the dearest model alone is computed from its own tokens, whichever model's answer is returned, because
// a reasoning model has more tokens.
func TestDoubtsAreKeptInTheDearestModelsTokens(t *testing.T) {
	large := sdk.Model{Name: "large", Price: sdk.Price{Output: 1e6}} // 1 USD a token
	s := middleware.NewSessions(middleware.SessionConfig{DoubtUpTo: 0.5, Dearest: "large"}, []sdk.Model{large}, time.Now)
	attempt := func(model string, tokens int) sdk.Attempt {
		return sdk.Attempt{Answer: sdk.Answer{Model: model, CostUSD: float64(tokens), Usage: sdk.Usage{OutputTokens: tokens}}}
	}
	plain, thinks, own := attempt("plain", 10), attempt("thinks", 100), attempt("large", 10)
	q := &sdk.Query{Features: map[string]float64{}}
	for i := range 100 {
		attempts := []sdk.Attempt{plain, thinks, own}
		if i > 0 {
			attempts = attempts[:2]
		}
		// The whole step costs 0.9 of the dearest model's ten tokens.
		s.RecordDispute(q, &step.Result{Answer: &attempts[len(attempts)-1].Answer, Attempts: attempts, IsDecided: true, Trace: &sdk.Trace{CostUSD: 9}})
	}
	if s.AddFeatures(q); q.Features[feature.HeldBack] == 0 {
		t.Errorf("nothing is held back: %v", q.Features)
	}
}

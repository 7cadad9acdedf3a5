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
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

func model(name string, input, output float64) sdk.Model {
	return sdk.Model{Name: name, Price: sdk.Price{Input: input, Output: output}, ContextTokens: 8000, MaxOutputTokens: 1000}
}

func candidates() []step.Candidate {
	return []step.Candidate{
		{Model: model("small", 0.1, 0.5), Quality: sdk.Estimate{Mean: 0.5, StdDev: 0.3}},
		{Model: model("middle", 1, 5), Quality: sdk.Estimate{Mean: 0.7, StdDev: 0.3}},
		{Model: model("large", 10, 50), Quality: sdk.Estimate{Mean: 0.9, StdDev: 0.2}},
	}
}

// priced returns one candidate for each worst-case cost of a call.
func priced(usd ...float64) []step.Candidate {
	list := candidates()[:len(usd)]
	for i := range list {
		m := &list[i].Model
		m.Price = sdk.Price{Output: usd[i] * 1e6 / float64(m.MaxOutputTokens)}
	}
	return list
}

func index(t testing.TB, lambda float64) cascade.Strategy {
	t.Helper()
	s, err := cascade.New(cascade.NameIndex, cascade.Params{Lambdas: []float64{lambda}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verdicts is a verifier that looks up the outcome by model.
func verdicts(pass map[string]bool) step.Verifier {
	return step.Verifier{Name: "table", Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
		if pass[r.Answer.Model] {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
		}
		return &sdk.Verdict{Outcome: sdk.Failed}, nil
	})}
}

// says returns a caller that answers with the model's name and a fixed usage.
func says() step.Caller {
	return step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
		return &sdk.Answer{Text: c.Model.Name + " speaks", Usage: sdk.Usage{InputTokens: 100, OutputTokens: 100}}, nil
	})
}

func engine(t testing.TB, c step.Config) *step.Engine {
	t.Helper()
	e, err := step.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func query() *sdk.Query {
	return &sdk.Query{Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart("what is it?")}}}, InputTokens: 100, Run: "r", Tenant: "t"}
}

func called(t *sdk.Trace) string {
	var names []string
	for _, c := range t.Calls {
		names = append(names, c.Model)
	}
	return strings.Join(names, " ")
}

func TestFailedVerdictEscalates(t *testing.T) {
	for _, tt := range []struct {
		pass         map[string]bool
		calls        string
		chosen       string
		stop         sdk.StopReason
		wantMoreThan float64
	}{
		{map[string]bool{"small": true, "large": true}, "small", "small", sdk.StopNotWorth, 0.9},
		{map[string]bool{"middle": true}, "small middle", "middle", sdk.StopNotWorth, 0.9},
		{map[string]bool{}, "small middle large", "large", sdk.StopExhausted, -1},
	} {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(tt.pass)}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		if got := called(res.Trace); got != tt.calls || res.Trace.Chosen != tt.chosen || res.Trace.Stop != tt.stop {
			t.Errorf("pass %v: calls %q chosen %s stop %s, want %q %s %s", tt.pass, got, res.Trace.Chosen, res.Trace.Stop, tt.calls, tt.chosen, tt.stop)
		}
		if res.Quality.Mean <= tt.wantMoreThan {
			t.Errorf("quality %v", res.Quality)
		}
		sum := 0.0
		for _, c := range res.Trace.Calls {
			sum += c.CostUSD
		}
		if math.Abs(sum-res.Trace.CostUSD) > 1e-15 || sum == 0 {
			t.Errorf("calls cost %v, trace says %v", sum, res.Trace.CostUSD)
		}
	}
}

func TestCheckRejectsWithoutVerifier(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Checks: []step.Check{{
		Name: "not small",
		Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
			return map[bool]string{true: "small"}[a.Model == "small"]
		},
	}}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	if res.Answer.Model == "small" {
		t.Errorf("chose the rejected answer; calls %s", called(res.Trace))
	}
	for _, c := range res.Trace.Calls {
		if c.Model == "small" && (c.Verdict == nil || c.Verdict.Evidence != "small") {
			t.Errorf("trace has no verdict on the rejected call: %+v", c)
		}
	}
}

func TestInfeasibleModelsAreNotCalled(t *testing.T) {
	list := candidates()
	list[2].Model.Capabilities.Tools = true
	e := engine(t, step.Config{Candidates: list, Strategy: index(t, 1)})
	q := query()
	q.Tools = []sdk.Tool{{Name: "search"}}
	res, err := e.Run(t.Context(), step.Request{Query: q, Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	if called(res.Trace) != "large" || len(res.Trace.Infeasible) != 2 {
		t.Errorf("called %q, infeasible %v", called(res.Trace), res.Trace.Infeasible)
	}
	q.InputTokens = 12_000
	res, err = e.Run(t.Context(), step.Request{Query: q, Caller: says()})
	if !errors.Is(err, sdk.ErrNoFeasibleModel) || !strings.Contains(err.Error(), "large prompt of about 12000 tokens, context of 8000") {
		t.Errorf("error %v", err)
	}
	if res.Trace.Stop != sdk.StopError || res.Trace.Error == "" || res.Index != -1 {
		t.Errorf("trace %+v", res.Trace)
	}
}

func TestFailedCallIsNoEvidenceAboutQuality(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(map[string]bool{"small": true})}})
		tries := 0
		began := time.Now()
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
			if tries++; tries == 1 {
				return nil, &step.CallError{Err: errors.New("overloaded"), Retry: true, After: 2 * time.Second, CostUSD: 0.25}
			}
			return says().Call(ctx, c)
		})})
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("waited %v, the server asked for 2s", waited)
		}
		if called(res.Trace) != "small small" || res.Trace.Calls[0].Error != "overloaded" || res.Trace.Calls[1].Attempt != 2 {
			t.Errorf("calls %+v", res.Trace.Calls)
		}
		if res.Trace.CostUSD < 0.25 {
			t.Errorf("the failed call's cost is missing: %v", res.Trace.CostUSD)
		}
	})
}

func TestUnavailableModelLeavesTheStep(t *testing.T) {
	broken := errors.New("bad key")
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1)})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
		switch c.Model.Name {
		case "small":
			return nil, broken
		case "middle":
			panic("nil map")
		}
		return says().Call(ctx, c)
	})})
	if err != nil {
		t.Fatal(err)
	}
	if res.Answer.Model != "large" {
		t.Errorf("answer of %s", res.Answer.Model)
	}
	res, err = e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return nil, broken })})
	if !errors.Is(err, broken) || res.Answer != nil {
		t.Errorf("error %v, want the calls' error", err)
	}
	for _, name := range []string{"small", "middle", "large"} {
		if !strings.Contains(err.Error(), "model "+name) {
			t.Errorf("error does not say that %s failed: %v", name, err)
		}
	}
}

func TestStepCapIsNeverPassed(t *testing.T) {
	// The worst case of small is 400 bytes at 0.1 and 1000 tokens at 0.5 per million.
	worst := (400*0.1 + 1000*0.5) / 1e6
	run := func(limit float64, fail bool) (*step.Result, error) {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), StepCapUSD: limit, FailAtCap: fail,
			Verifiers: []step.Verifier{verdicts(nil)}})
		return e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	}
	res, err := run(worst, false)
	if err != nil || called(res.Trace) != "small" || res.Trace.Stop != sdk.StopBudget {
		t.Errorf("at the worst case: calls %q, stop %s, %v", called(res.Trace), res.Trace.Stop, err)
	}
	if res, err = run(worst*0.999, false); !errors.Is(err, sdk.ErrBudgetExhausted) || len(res.Trace.Calls) != 0 {
		t.Errorf("below the worst case: %d calls, %v", len(res.Trace.Calls), err)
	}
	if res, err = run(worst, true); !errors.Is(err, sdk.ErrBudgetExhausted) || res.Answer != nil {
		t.Errorf("with FailAtCap: %v", err)
	}
}

func TestVerifierUnavailable(t *testing.T) {
	down := errors.New("plugin died")
	for _, tt := range []struct {
		policy step.Unavailable
		want   sdk.Outcome
		fails  bool
	}{{step.UnavailableAbstain, sdk.Inconclusive, false}, {step.UnavailableAccept, sdk.Passed, false}, {step.UnavailableFail, 0, true}} {
		e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Verifiers: []step.Verifier{{
			Name: "tests", OnUnavailable: tt.policy,
			Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { return nil, down }),
		}}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if tt.fails {
			if !errors.Is(err, step.ErrVerifierUnavailable) || !errors.Is(err, down) {
				t.Errorf("policy %d: error %v", tt.policy, err)
			}
			continue
		}
		if err != nil || res.Verdict.Outcome != tt.want {
			t.Errorf("policy %d: verdict %+v, %v", tt.policy, res.Verdict, err)
		}
	}
}

func TestDeadlineReturnsTheBestSoFarAndCancelNothing(t *testing.T) {
	for _, canceled := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if !canceled {
			var stop context.CancelFunc
			ctx, stop = context.WithDeadline(ctx, time.Now().Add(time.Hour))
			defer stop()
		}
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(nil)}})
		ended := &endedContext{Context: ctx, canceled: canceled}
		res, err := e.Run(ended, step.Request{Query: query(), Caller: step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
			ended.over = true
			return says().Call(ctx, c)
		})})
		cancel(nil)
		if res.Trace.Stop != sdk.StopDeadline {
			t.Errorf("stop %s", res.Trace.Stop)
		}
		if canceled != errors.Is(err, context.Canceled) || canceled != (res.Answer == nil) {
			t.Errorf("canceled %v: answer %v, error %v", canceled, res.Answer, err)
		}
	}
}

// endedContext is a context that the test ends.
type endedContext struct {
	context.Context
	over, canceled bool
}

func (c *endedContext) Err() error {
	switch {
	case !c.over:
		return nil
	case c.canceled:
		return context.Canceled
	}
	return context.DeadlineExceeded
}

func TestFinalOnlyWhenNothingCanFollow(t *testing.T) {
	finals := func(req step.Request, s cascade.Strategy, pass map[string]bool) string {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: s, Verifiers: []step.Verifier{verdicts(pass)}})
		var got []string
		req.Query = query()
		req.Caller = step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
			got = append(got, fmt.Sprint(c.Model.Name, " ", c.Final))
			return says().Call(ctx, c)
		})
		if _, err := e.Run(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		return strings.Join(got, ", ")
	}
	route, err := cascade.New(cascade.NameRoute, cascade.Params{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		req  step.Request
		s    cascade.Strategy
		want string
	}{
		{step.Request{Commit: true}, index(t, 1), "small false, middle false, large true"},
		{step.Request{}, index(t, 1), "small false, middle false, large false"},
		{step.Request{Commit: true}, route, "large true"},
		{step.Request{Commit: true, Only: "middle"}, index(t, 1), "middle true"},
		{step.Request{Commit: true, Only: "small"}, index(t, 1), "small true"},
	} {
		if got := finals(tt.req, tt.s, nil); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestEstimatorsAreHeard(t *testing.T) {
	quality := sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
		resp := &sdk.QualityResponse{}
		for _, name := range r.Models {
			estimate := sdk.Abstain()
			if name == "middle" {
				estimate = sdk.Estimate{Mean: 0.95, StdDev: 0.01}
			}
			resp.Estimates = append(resp.Estimates, estimate)
		}
		return resp, nil
	})
	cost := sdk.CostEstimatorFunc(func(_ context.Context, r *sdk.CostRequest) (*sdk.CostResponse, error) {
		resp := &sdk.CostResponse{}
		for range r.Models {
			resp.Estimates = append(resp.Estimates, sdk.Estimate{Mean: 0.5})
		}
		return resp, nil
	})
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Estimators: []step.Estimator{{Estimator: quality}}, Cost: cost})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says(), CostOffsets: []float64{0, 0.1, 0}})
	if err != nil {
		t.Fatal(err)
	}
	first := res.Trace.Decisions[0]
	if first.Models[1].Quality.Mean != 0.95 || first.Models[0].Quality.Mean != 0.5 {
		t.Errorf("decision %+v", first)
	}
	if got := first.Models[1].CostUSD; math.Abs(got-0.6) > 1e-12 {
		t.Errorf("cost %v, want 0.5 and the offset 0.1", got)
	}
}

func TestBrokenEstimatorIsNotedAndPriorsAreUsed(t *testing.T) {
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1),
		Estimators: []step.Estimator{{Name: "hasty", Estimator: sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			panic("index out of range")
		})}}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	if note := res.Trace.Decisions[0].Note; !strings.Contains(note, "estimator hasty unavailable, abstained: panic: index out of range") {
		t.Errorf("note %q", note)
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := step.New(step.Config{StepCapUSD: 1, Candidates: []step.Candidate{
		{Model: sdk.Model{Name: "a", Price: sdk.Price{Output: 1}}}, {Model: sdk.Model{Name: "a", Price: sdk.Price{Input: -1}}}, {}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"no strategy", "two candidates are called a", "max_output_tokens", "prices must be", "has no name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

// stubborn is a strategy that always chooses the same model.
type stubborn struct{ model int }

func (s stubborn) Describe() cascade.Description { return cascade.Description{Name: "stubborn"} }

func (s stubborn) Decide(*cascade.State) cascade.Decision {
	return cascade.Decision{Run: s.model, Answer: cascade.None}
}

func TestAFaultyStrategyDoesNotTurnForEver(t *testing.T) {
	engine, err := step.New(step.Config{
		Candidates: []step.Candidate{{Model: sdk.Model{Name: "a"}}, {Model: sdk.Model{Name: "b"}}},
		Strategy:   stubborn{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Run(t.Context(), step.Request{
		Query:  &sdk.Query{},
		Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return &sdk.Answer{Text: "x"}, nil }),
	})
	if err == nil || !strings.Contains(err.Error(), "stubborn chose a") {
		t.Errorf("got %v", err)
	}
}

func TestTheDepthLimitIsNamed(t *testing.T) {
	strategy, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{1}, MaxDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := step.New(step.Config{
		Candidates: []step.Candidate{{Model: sdk.Model{Name: "a"}}, {Model: sdk.Model{Name: "b"}}}, Strategy: strategy,
	})
	if err != nil {
		t.Fatal(err)
	}
	res, err := engine.Run(t.Context(), step.Request{
		Query:  &sdk.Query{},
		Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return &sdk.Answer{Text: "x"}, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Trace.Stop != sdk.StopDepth {
		t.Errorf("stopped for %q", res.Trace.Stop)
	}
}

// After a pass with a confidence below 1, no second pass is bought: the same judge's
// verdict on another answer would be worth no more.
func TestAPassIsNotBoughtTwice(t *testing.T) {
	for _, confidence := range []float64{0, 0.98, 0.5} {
		passes := step.Verifier{Name: "tests", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
			return &sdk.Verdict{Outcome: sdk.Passed, Score: 1, Confidence: confidence}, nil
		})}
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 0.1), Verifiers: []step.Verifier{passes}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil || len(res.Trace.Calls) != 1 {
			t.Errorf("confidence %v: calls %q, %v", confidence, called(res.Trace), err)
		}
	}
}

// A step that a cap ends stops with StopBudget even if there is a feasible model outside the order.
func TestACapBesideAModelOutOfTheOrder(t *testing.T) {
	inOrder := func(order ...int) cascade.Strategy {
		s, err := cascade.New(cascade.NameThreshold, cascade.Params{Thresholds: []float64{0.99, 0.99}, Order: order})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	small, large := (400*0.1+1000*0.5)/1e6, (400*10+1000*50)/1e6
	for _, c := range []struct {
		limit  float64
		fail   bool
		called string
		isErr  bool
	}{{small * 0.9, false, "", true}, {large * 0.9, false, "small", false}, {large * 0.9, true, "small", true}, {2 * large, false, "small large", false}} {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: inOrder(0, 2), StepCapUSD: c.limit, FailAtCap: c.fail, Verifiers: []step.Verifier{verdicts(nil)}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if isErr := errors.Is(err, sdk.ErrBudgetExhausted); isErr != c.isErr || !isErr && err != nil || called(res.Trace) != c.called || (res.Trace.Stop == sdk.StopBudget) != (c.limit < large) {
			t.Errorf("under %v: calls %q, stop %s, %v", c.limit, called(res.Trace), res.Trace.Stop, err)
		}
	}
	// Beside a call that is under way it waits for what that gives back.
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, step.Config{Candidates: candidates()[:2], Strategy: inOrder(0), Ledger: step.NewMemory(step.Caps{RunUSD: 1.5 * small}), CapWait: time.Minute})
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
					time.Sleep(time.Second)
					return &sdk.Answer{Text: "1", Usage: sdk.Usage{InputTokens: 10, OutputTokens: 1}}, nil
				})})
				ended <- err
			}()
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
}

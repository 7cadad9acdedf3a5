package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// spentError is an error of a call that has cost money.
type spentError struct{}

func (spentError) Error() string     { return "it broke after asking a model" }
func (spentError) SpentUSD() float64 { return 0.5 }

// What verifiers and estimators spend counts even if they fail, and is booked on the
// accounts even if nothing was reserved for it.
func TestMoneySpentByPluginsIsBooked(t *testing.T) {
	models := candidates()[:1]
	plain := engine(t, step.Config{Candidates: models, Strategy: index(t, 1)})
	res, err := plain.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	model := res.Trace.CostUSD
	estimator := func(resp *sdk.QualityResponse, err error) sdk.QualityEstimator {
		return sdk.QualityEstimatorFunc(func(context.Context, *sdk.QualityRequest) (*sdk.QualityResponse, error) { return resp, err })
	}
	good := &sdk.QualityResponse{Estimates: []sdk.Estimate{{Mean: 0.5, StdDev: 0.1}}, CostUSD: 0.25}
	broken := step.Verifier{Name: "broken", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, spentError{}
	})}
	for name, c := range map[string]struct {
		config step.Config
		usd    float64 // for each decision, or once
		each   bool
	}{
		"estimator":        {step.Config{Estimators: []step.Estimator{{Estimator: estimator(good, nil)}}}, 0.25, true},
		"failed estimator": {step.Config{Estimators: []step.Estimator{{Estimator: estimator(nil, spentError{})}}}, 0.5, true},
		"failed verifier":  {step.Config{Verifiers: []step.Verifier{broken}}, 0.5, false},
	} {
		ledger := step.NewMemory(step.Caps{RunUSD: 100})
		c.config.Candidates, c.config.Strategy, c.config.Ledger = models, index(t, 1), ledger
		res, err := engine(t, c.config).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(name, err)
		}
		want := model + c.usd
		if c.each {
			want = model + c.usd*float64(len(res.Trace.Decisions))
		}
		if math.Abs(res.Trace.CostUSD-want) > 1e-12 {
			t.Errorf("%s: %v USD, want %v", name, res.Trace.CostUSD, want)
		}
		if booked, _ := ledger.SpentUSD("r", "t"); math.Abs(booked-want) > 1e-9 {
			t.Errorf("%s: %v USD were booked, want %v", name, booked, want)
		}
	}
}

// A malformed verdict is inconclusive, and an impossible cost in it is ignored.
func TestMalformedVerdicts(t *testing.T) {
	for _, v := range []sdk.Verdict{
		{Outcome: 7}, {Outcome: -1}, {Outcome: sdk.Passed, Score: math.NaN()}, {Outcome: sdk.Passed, Confidence: math.Inf(1)}, {Outcome: sdk.Failed, Confidence: -0.5},
		{Outcome: sdk.Passed, Score: 1, CostUSD: math.Inf(1)}, {Outcome: sdk.Passed, Score: 1, CostUSD: -1},
	} {
		judge := step.Verifier{Name: "odd", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { return &v, nil })}
		res, err := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Verifiers: []step.Verifier{judge}}).Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		want := sdk.Inconclusive
		if v.Score == 1 {
			want = sdk.Passed
		}
		if got := res.Trace.Calls[0].Verdict; got == nil || got.Outcome != want || got.CostUSD != 0 {
			t.Errorf("%+v became %+v", v, got)
		}
		if _, err := json.Marshal(res.Trace); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
}

// A judge without a price reserves the worst case of each of its model calls, starting with
// its first verdict, and a call that does not fit under a cap is not made.
func TestModelCallsOfPluginsAreReserved(t *testing.T) {
	judge := sdk.Model{Name: "judge", Price: sdk.Price{Input: 1, Output: 10}, MaxOutputTokens: 1000}
	const worst = (2000+400/3.0)*1e-6 + 1000*10e-6
	for name, c := range map[string]struct {
		capUSD float64
		usage  sdk.Usage
		err    error
		calls  int
		usd    float64 // of the judge, under the cap
	}{
		"room for two":   {2.5 * worst, sdk.Usage{InputTokens: 100, OutputTokens: 1000}, nil, 2, 2 * 0.0101},
		"room for none":  {0.5 * worst, sdk.Usage{InputTokens: 100, OutputTokens: 100}, nil, 0, 0},
		"no usage":       {2.5 * worst, sdk.Usage{}, nil, 2, 2 * worst},
		"billed and cut": {2.5 * worst, sdk.Usage{}, &step.CallError{Err: context.Canceled, Billed: true}, 2, 2 * worst},
		"not billed":     {2.5 * worst, sdk.Usage{}, &step.CallError{Err: context.Canceled}, 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			verifier := step.Verifier{Name: "judge", CallsModels: true, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
				verdict := &sdk.Verdict{Outcome: sdk.Passed, Score: 1}
				for range 5 {
					limit, book, err := step.ReserveCall(ctx, &judge, &step.Request{Query: asked(0), PromptBytes: 400})
					if err != nil {
						if !errors.Is(err, sdk.ErrBudgetExhausted) {
							t.Error(err)
						}
						return verdict, nil
					}
					if calls++; limit != judge.MaxOutputTokens {
						t.Errorf("the limit is %d tokens", limit)
					}
					answer := &sdk.Answer{Text: "yes", Usage: c.usage}
					if book(answer, c.err); c.err == nil {
						verdict.CostUSD += answer.CostUSD
					}
				}
				return verdict, nil
			})}
			free := candidates()[:1]
			free[0].Model.Price = sdk.Price{}
			ledger := step.NewMemory(step.Caps{RunUSD: c.capUSD})
			if _, err := engine(t, step.Config{Candidates: free, Strategy: index(t, 1), Verifiers: []step.Verifier{verifier}, Ledger: ledger}).Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
				t.Fatal(err)
			}
			booked, _ := ledger.SpentUSD("r", "t")
			if calls != c.calls || math.Abs(booked-c.usd) > 1e-9 || booked > c.capUSD {
				t.Errorf("%d calls, %v USD of %v were booked, want %d and %v", calls, booked, c.capUSD, c.calls, c.usd)
			}
		})
	}
}

// Without caps, missing or impossible usage of a judge's model calls is estimated as for a candidate's, and the
// service tier is taken into account.
func TestModelCallsOfPluginsWithoutCaps(t *testing.T) {
	judge := sdk.Model{Name: "judge", Price: sdk.Price{Input: 1, Output: 10}}
	text := strings.Repeat("It is right. ", 40) // 130 tokens by four bytes each
	for name, c := range map[string]struct {
		answer sdk.Answer
		usd    float64
	}{
		"reported":     {sdk.Answer{Text: text, Usage: sdk.Usage{InputTokens: 90, OutputTokens: 161}}, 90e-6 + 161*10e-6},
		"no usage":     {sdk.Answer{Text: text}, 100e-6 + 130*10e-6},
		"no prompt":    {sdk.Answer{Text: text, Usage: sdk.Usage{OutputTokens: 161}}, 100e-6 + 161*10e-6},
		"another tier": {sdk.Answer{Text: text, Usage: sdk.Usage{InputTokens: 90, OutputTokens: 161}, PriceFactor: 2}, 2 * (90e-6 + 161*10e-6)},
	} {
		limit, book, err := step.ReserveCall(t.Context(), &judge, &step.Request{Query: asked(0), PromptBytes: 400})
		if err != nil || limit != 0 {
			t.Fatal(limit, err)
		}
		if book(&c.answer, nil); math.Abs(c.answer.CostUSD-c.usd) > 1e-12 {
			t.Errorf("%s: %v USD, want %v", name, c.answer.CostUSD, c.usd)
		}
	}
}

// asked returns a judge's query to a model, with a limit on the answer.
func asked(limit int) *sdk.Query {
	return &sdk.Query{Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{{Kind: sdk.PartText, Text: strings.Repeat("Is it right? ", 30)}}}}, InputTokens: 100, MaxOutputTokens: limit}
}

// Under a cap, a judge cannot call a model if neither the model nor the call limits the answer.
func TestModelsOfJudgesNeedALongestAnswer(t *testing.T) {
	open := sdk.Model{Name: "open", Price: sdk.Price{Input: 1, Output: 10}}
	var refused, stated error
	verifier := step.Verifier{Name: "judge", CallsModels: true, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
		_, _, refused = step.ReserveCall(ctx, &open, &step.Request{Query: asked(0), PromptBytes: 400})
		_, _, stated = step.ReserveCall(ctx, &open, &step.Request{Query: asked(10), PromptBytes: 400})
		return &sdk.Verdict{Outcome: sdk.Passed, Score: 1}, nil
	})}
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Verifiers: []step.Verifier{verifier}, StepCapUSD: 1})
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(refused, sdk.ErrNoFeasibleModel) || stated != nil {
		t.Errorf("without a limit: %v; with one: %v", refused, stated)
	}
}

// Spending without a reservation is booked even if it exceeds the cap.
func TestSpendAboveACapIsBooked(t *testing.T) {
	ledger := step.NewMemory(step.Caps{RunUSD: 0.3, TenantUSD: 0.3})
	broken := step.Verifier{Name: "broken", Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) {
		return nil, spentError{}
	})}
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: index(t, 1), Ledger: ledger, Verifiers: []step.Verifier{broken, broken}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
	if err != nil {
		t.Fatal(err)
	}
	run, tenant := ledger.SpentUSD("r", "t")
	if math.Abs(run-res.Trace.CostUSD) > 1e-9 || run < 1 || tenant != run {
		t.Errorf("%v USD were spent, %v and %v booked", res.Trace.CostUSD, run, tenant)
	}
}

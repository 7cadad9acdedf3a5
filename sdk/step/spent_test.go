package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// spentError is an error of a call that has cost money.
type spentError struct{}

func (spentError) Error() string     { return "it broke after asking a model" }
func (spentError) SpentUSD() float64 { return 0.5 }

// What verifiers and estimators spend counts, also when they fail, and also
// towards the accounts when nothing was reserved for it.
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

// What nobody can have used or spent is not what is billed.
func TestAbsurdBillsAreNotBelieved(t *testing.T) {
	models := candidates()[:1]
	models[0].Model.ContextTokens = 1000
	honest := sdk.Usage{InputTokens: 100, OutputTokens: 100}
	for name, c := range map[string]struct {
		answer sdk.Answer
		failed *step.CallError
		tokens int // of output
	}{
		"honest":            {answer: sdk.Answer{Text: "12345678", Usage: honest}, tokens: 100},
		"much, by a tool":   {answer: sdk.Answer{Text: "12345678", Usage: sdk.Usage{InputTokens: 15_000, OutputTokens: 100}}, tokens: 100},
		"at most":           {answer: sdk.Answer{Text: "12345678", Usage: sdk.Usage{InputTokens: 20_000, OutputTokens: 100}}, tokens: 100},
		"one more":          {answer: sdk.Answer{Text: "12345678", Usage: sdk.Usage{InputTokens: 20_001, OutputTokens: 100}}, tokens: 2},
		"with its thoughts": {answer: sdk.Answer{Text: "12345678", Reasoning: "12345", Usage: sdk.Usage{InputTokens: -1}}, tokens: 4},
		"huge":              {answer: sdk.Answer{Text: "12345678", Usage: sdk.Usage{InputTokens: 100, OutputTokens: math.MaxInt}}, tokens: 2},
		"below zero":        {answer: sdk.Answer{Text: "12345678", Usage: sdk.Usage{InputTokens: 100, CachedInputTokens: -1, OutputTokens: 5}}, tokens: 2},
		"no number":         {answer: sdk.Answer{Text: "12345678", Usage: honest, CostUSD: math.NaN()}, tokens: 100},
		"infinite":          {answer: sdk.Answer{Text: "12345678", Usage: honest, CostUSD: math.Inf(1)}, tokens: 100},
		"owed":              {answer: sdk.Answer{Text: "12345678", Usage: honest, CostUSD: -5}, tokens: 100},
		"huge and failed":   {failed: &step.CallError{Err: errors.New("cut"), Usage: sdk.Usage{OutputTokens: math.MaxInt}}},
		"owed and failed":   {failed: &step.CallError{Err: errors.New("cut"), CostUSD: -1}},
		"many and failed":   {failed: &step.CallError{Err: errors.New("cut"), Billed: true, Usage: sdk.Usage{ReasoningTokens: -7}}, tokens: 500},
		"fine, and failed":  {failed: &step.CallError{Err: errors.New("cut"), Usage: honest}, tokens: 100},
	} {
		ledger := step.NewMemory(step.Caps{RunUSD: 100})
		e := engine(t, step.Config{Candidates: models, Strategy: index(t, 1), Ledger: ledger})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			if c.failed != nil {
				return nil, c.failed
			}
			return &c.answer, nil
		})})
		if (err != nil) != (c.failed != nil) {
			t.Errorf("%s: %v", name, err)
		}
		got := res.Trace.Usage
		if got.OutputTokens+got.ReasoningTokens != c.tokens || got.InputTokens < 0 || got.CachedInputTokens < 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if want := models[0].Model.Price.CostUSD(got); math.Abs(res.Trace.CostUSD-want) > 1e-12 {
			t.Errorf("%s: %v USD, want %v", name, res.Trace.CostUSD, want)
		}
		if booked, _ := ledger.SpentUSD("r", "t"); !(booked >= 0 && booked < 1) {
			t.Errorf("%s: %v USD are booked", name, booked)
		}
	}
}

// Of a model whose context nobody knows, as of a call of many completions, more is
// believed, but not all.
func TestBillsOfUnknownContexts(t *testing.T) {
	const unknown, many = 20_000_000, 1_000_000_000
	for _, c := range []struct {
		context, tokens int
		worst, believed bool
	}{
		{0, unknown, false, true}, {0, unknown + 1, false, false}, {0, unknown + 1, true, true}, {0, many, true, true}, {0, many + 1, true, false},
		{many / 20, many, false, true}, {many/20 + 1, unknown + 1, false, false},
	} {
		models := []step.Candidate{{Model: sdk.Model{Name: "m", ContextTokens: c.context}}}
		req := step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{Text: "1234", Usage: sdk.Usage{OutputTokens: c.tokens}}, nil
		})}
		if c.worst {
			req.WorstCostUSD = func(int) float64 { return 0 }
		}
		res, err := engine(t, step.Config{Candidates: models, Strategy: index(t, 1)}).Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if c.believed {
			want = c.tokens
		}
		if got := res.Trace.Usage.OutputTokens; got != want {
			t.Errorf("%+v: %d tokens, want %d", c, got, want)
		}
	}
}

// A verdict that is none says nothing, and costs nothing that it could not.
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

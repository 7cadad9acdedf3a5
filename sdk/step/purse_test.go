package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// each returns a model whose every request costs usd, whatever its length.
func each(name string, usd float64) sdk.Model {
	return sdk.Model{Name: name, Price: sdk.Price{RequestUSD: usd}, MaxOutputTokens: 1000}
}

// What a judge with a max_usd spends on model calls beyond it is reserved call by call, up to the cap exactly, and what
// it did not spend is free again afterwards.
func TestModelCallsBeyondMaxUSDFitTheCapExactly(t *testing.T) {
	const call, justBelow = 0.25, 1e-12 // US dollars
	judge := each("judge", call)
	for _, c := range []struct {
		capUSD, maxUSD float64
		failing        *step.CallError
		calls          int
		usd            float64 // of the step
		refusal        string
	}{
		{1.25, call, nil, 4, 1.25, "0.25 USD spent, 1 reserved, up to 0.25 more for the next call, cap 1.25"},
		{1.25 - justBelow, call, nil, 3, 1, "0.25 USD spent, 0.75 reserved, up to 0.25 more for the next call, cap 1.25"},
		{1.25, 0, nil, 4, 1.25, "0.25 USD spent, 1 reserved, up to 0.25 more for the next call, cap 1.25"},
		{1.25, 4 * call, nil, 4, 1.25, "0.25 USD spent, 1 reserved, up to 0.25 more for the next call, cap 1.25"},
		{1.25, call, &step.CallError{Err: errors.New("refused")}, 5, 0.25, ""},
		{1.25, call, &step.CallError{Err: errors.New("cut off"), Billed: true}, 4, 0.25, "0.25 USD spent, 1 reserved, up to 0.25 more for the next call, cap 1.25"},
	} {
		for _, isLedger := range []bool{false, true} {
			name := fmt.Sprintf("%+v, in a ledger %v", c, isLedger)
			calls, refusal := 0, error(nil)
			verifier := step.Verifier{Name: "judge", CallsModels: true, MaxCostUSD: c.maxUSD, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
				if budget := sdk.ModelBudgetOf(ctx); (budget != nil) != (c.maxUSD > 0) || budget != nil && budget.USD != c.maxUSD {
					t.Errorf("%s: a budget of %v", name, budget)
				}
				verdict := &sdk.Verdict{Outcome: sdk.Passed, Score: 1}
				for range 5 {
					_, book, err := step.ReserveCall(ctx, &judge, &step.Request{Query: asked(0), PromptBytes: 400})
					if err != nil {
						refusal = err
						break
					}
					calls++
					answer := &sdk.Answer{Text: "yes", Usage: sdk.Usage{InputTokens: 100, OutputTokens: 1}}
					if c.failing != nil {
						book(nil, c.failing)
						continue
					}
					book(answer, nil)
					verdict.CostUSD += answer.CostUSD
				}
				return verdict, nil
			})}
			ledger := step.NewMemory(step.Caps{RunUSD: c.capUSD})
			config := step.Config{Candidates: []step.Candidate{{Model: each("m", call)}}, Strategy: route(t), Verifiers: []step.Verifier{verifier}}
			if isLedger {
				config.Ledger = ledger
			} else {
				config.StepCapUSD = c.capUSD
			}
			res, err := engine(t, config).Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: says()})
			if err != nil {
				t.Fatal(name, err)
			}
			if calls != c.calls || !nearly(res.Trace.CostUSD, c.usd) || (refusal != nil) != (c.refusal != "") {
				t.Errorf("%s: %d calls, %v USD, then %v", name, calls, res.Trace.CostUSD, refusal)
			}
			if !isLedger {
				if refusal != nil && !strings.Contains(refusal.Error(), c.refusal) {
					t.Errorf("%s: %v", name, refusal)
				}
				continue
			}
			booked, _ := ledger.SpentUSD("r", "t")
			if want := c.usd; c.failing == nil && !nearly(booked, want) || c.failing != nil && booked < want {
				t.Errorf("%s: %v USD booked", name, booked)
			}
			if rest := c.capUSD - booked; rest > justBelow {
				if _, err := ledger.Reserve(t.Context(), query(), rest+2*justBelow); err == nil {
					t.Errorf("%s: more than the rest of %v USD can be reserved", name, rest)
				}
				if _, err := ledger.Reserve(t.Context(), query(), rest); err != nil {
					t.Errorf("%s: the rest of %v USD is still reserved: %v", name, rest, err)
				}
			}
		}
	}
}

// Model calls within what is already reserved need no further reservation.
func TestModelCallsWithinMaxUSDReserveNothing(t *testing.T) {
	judge := each("judge", 0.25)
	verifier := step.Verifier{Name: "judge", CallsModels: true, MaxCostUSD: 0.5, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
		for range 2 {
			_, book, err := step.ReserveCall(ctx, &judge, &step.Request{Query: asked(0), PromptBytes: 400})
			if err != nil {
				return nil, err
			}
			book(&sdk.Answer{Text: "yes", Usage: sdk.Usage{InputTokens: 100, OutputTokens: 1}}, nil)
		}
		return &sdk.Verdict{Outcome: sdk.Passed, CostUSD: 0.5}, nil
	})}
	ledger := &counting{}
	_, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: each("m", 1)}}, Strategy: route(t), Ledger: ledger, Verifiers: []step.Verifier{verifier}}).
		Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: says()})
	if got, want := strings.Join(ledger.log, ", "), "reserve 1.000, settle 1.000, reserve 0.500, settle 0.500"; err != nil || got != want {
		t.Errorf("%s; want %s (%v)", got, want, err)
	}
}

// Models whose answers cost nothing need no limit, even under a cap.
func TestFreeModelsOfJudgesNeedNoLongestAnswer(t *testing.T) {
	free := sdk.Model{Name: "free", Price: sdk.Price{Input: 1}}
	verifier := step.Verifier{Name: "judge", CallsModels: true, Verifier: sdk.VerifierFunc(func(ctx context.Context, _ *sdk.VerifyRequest) (*sdk.Verdict, error) {
		limit, _, err := step.ReserveCall(ctx, &free, &step.Request{Query: asked(0), PromptBytes: 400})
		if err != nil || limit != 0 {
			t.Errorf("limit %d, %v", limit, err)
		}
		return &sdk.Verdict{Outcome: sdk.Passed}, nil
	})}
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Verifiers: []step.Verifier{verifier}, StepCapUSD: 1})
	if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err != nil {
		t.Fatal(err)
	}
}

// A failed call costs what its error says, else its usage, else, if it may be billed, an answer of the expected length.
func TestCostsOfFailedCalls(t *testing.T) {
	e := engine(t, step.Config{Candidates: []step.Candidate{{Model: model("m", 1, 10), OutputTokens: 50}}, Strategy: route(t)})
	usage, down := sdk.Usage{InputTokens: 10, OutputTokens: 5}, errors.New("down")
	for _, c := range []struct {
		err  error
		want float64
	}{
		{down, 0},
		{&step.CallError{Err: down}, 0},
		{&step.CallError{Err: down, Usage: usage}, 60e-6},
		{&step.CallError{Err: down, Usage: usage, CostUSD: 0.5}, 0.5},
		{fmt.Errorf("step: %w", &step.CallError{Err: down, Billed: true}), 600e-6},
		{&step.CallError{Err: down, Billed: true, Usage: usage}, 60e-6},
		{&step.CallError{Err: down, Billed: true, CostUSD: 0.5}, 0.5},
	} {
		if got := e.FailedCallUSD(0, query(), c.err); !nearly(got, c.want) {
			t.Errorf("%#v: %v USD, want %v", c.err, got, c.want)
		}
	}
}

// uncertain is a ledger whose reservations tell known from possible spending.
type uncertain struct{ log []string }

func (u *uncertain) Reserve(context.Context, *sdk.Query, float64) (step.Reservation, error) {
	return u, nil
}

func (u *uncertain) Settle(_ context.Context, usd float64) error {
	u.log = append(u.log, fmt.Sprint("known ", usd))
	return nil
}

func (u *uncertain) SettleUncertain(_ context.Context, usd, most float64) error {
	u.log = append(u.log, fmt.Sprint("known ", usd, " of at most ", most))
	return nil
}

// A ledger is told the upper bound of a bill only if the bill is unknown.
func TestLedgersAreToldWhatIsUncertain(t *testing.T) {
	for want, failure := range map[string]*step.CallError{
		"known 0.25":                {Err: errors.New("cut off"), Billed: true, CostUSD: 0.25},
		"known 0":                   {Err: errors.New("refused")},
		"known 0.25 of at most 0.5": {Err: errors.New("cut off"), Billed: true, Usage: sdk.Usage{OutputTokens: 1, Estimated: true}},
	} {
		ledger := &uncertain{}
		m := sdk.Model{Name: "m", Price: sdk.Price{Output: 250_000}, MaxOutputTokens: 2}
		_, err := engine(t, step.Config{Candidates: []step.Candidate{{Model: m}}, Strategy: route(t), Ledger: ledger}).
			Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: fails(map[string]error{"m": failure})})
		if got := strings.Join(ledger.log, ", "); err == nil || got != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

// refusals is a ledger that refuses reservations of certain amounts.
type refusals map[float64]string

func (r refusals) Reserve(_ context.Context, q *sdk.Query, usd float64) (step.Reservation, error) {
	if why := r[usd]; why != "" {
		return nil, fmt.Errorf("%s: %w", why, sdk.ErrBudgetExhausted)
	}
	return step.NewMemory(step.Caps{}).Reserve(context.Background(), q, usd)
}

// A step at a cap reports the refusal of the model with the highest worst case, unless one at least as expensive has
// answered.
func TestWhichRefusalIsReported(t *testing.T) {
	const small, middle, large = 0.25, 0.5, 1.0
	for _, c := range []struct {
		usd    []float64 // of the models, in the order in which they are called
		refuse refusals
		want   string
	}{
		{[]float64{large, middle, small}, refusals{large: "the dear one", middle: "the other"}, "the dear one"},
		{[]float64{middle, large, small}, refusals{large: "the dear one", middle: "the other"}, "the dear one"},
		{[]float64{middle, small, large}, refusals{middle: "the other"}, ""},
		{[]float64{middle, large, small}, refusals{large: "the dear one"}, "the dear one"},
		{[]float64{large, large, small}, refusals{small: "the cheap one"}, ""},
		{[]float64{small, middle, large}, refusals{small: "a", middle: "b", large: "c"}, "c"},
	} {
		e := engine(t, step.Config{Candidates: priced(c.usd...), Strategy: threshold(t, 0, 1, 2), Ledger: c.refuse, FailAtCap: true, Verifiers: []step.Verifier{verdicts(nil)}})
		_, err := e.Run(t.Context(), step.Request{Query: query(), PromptBytes: 400, Caller: says()})
		if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, sdk.ErrBudgetExhausted) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v USD, refused %v: %v", c.usd, c.refuse, err)
		}
	}
}

// An answer that another step has paid for replaces the call of its model and the verifiers' verdict: it costs nothing
// and is not among the trace's calls, each of which keeps its own verdict.
func TestPaidAnswersAreNotBoughtAgain(t *testing.T) {
	var asked []string
	judge := finds("judge", sdk.Verdict{Outcome: sdk.Failed, Score: 0.5}, &asked)
	failed := &sdk.Verdict{Verifier: "before", Outcome: sdk.Failed, Score: 0.25}
	for name, c := range map[string]struct {
		calls  string
		chosen string
	}{"small": {"middle large", "large"}, "middle": {"small large", "large"}, "large": {"small middle", "middle"}, "nobody": {"small middle large", "large"}} {
		asked = nil
		paid := &sdk.Attempt{Answer: sdk.Answer{Text: "paid", Model: name, CostUSD: 8}, Verdict: failed}
		e := engine(t, step.Config{Candidates: candidates(), Strategy: threshold(t, 0, 1, 2), Verifiers: []step.Verifier{judge}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Paid: paid, Caller: step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
			return &sdk.Answer{Text: c.Model.Name, CostUSD: 1, Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}}, nil
		})})
		calls := strings.Fields(c.calls)
		if err != nil || called(res.Trace) != c.calls || res.Trace.Chosen != c.chosen || res.Trace.CostUSD != float64(len(calls)) || len(asked) != len(calls) {
			t.Fatalf("%s is paid: calls %q, chose %s, %v USD, %d verdicts, %v", name, called(res.Trace), res.Trace.Chosen, res.Trace.CostUSD, len(asked), err)
		}
		for _, call := range res.Trace.Calls {
			if call.Verdict == nil || call.Verdict.Verifier != "judge" || call.Tools != nil {
				t.Errorf("%s is paid: the call of %s has %+v and the tools %q", name, call.Model, call.Verdict, call.Tools)
			}
		}
		for _, a := range res.Attempts {
			if isPaid := a.Answer.Model == name; isPaid != (a.Answer.Text == "paid") || isPaid != (a.Verdict == failed) {
				t.Errorf("%s is paid: an answer of %s with %+v", name, a.Answer.Model, a.Verdict)
			}
		}
		if isNoted := strings.Contains(notes(res.Trace), "the answer of "+name+" is that of its own step, and is not paid for again"); isNoted != (name != "nobody") {
			t.Errorf("%s is paid: notes %q", name, notes(res.Trace))
		}
	}
}

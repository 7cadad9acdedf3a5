package step_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// Which calls may be cut off, and which answer the step then returns.
func TestCutOff(t *testing.T) {
	rejected := &sdk.Verdict{Verifier: "check:any", Evidence: "of no use"}
	for name, tt := range map[string]struct {
		cap       float64
		largeDown bool
		only      string
		chosen    string
		spares    []bool // of each call
	}{
		"the other answers":     {chosen: "large", spares: []bool{true, false}},
		"the other is down":     {chosen: "small", largeDown: true, spares: []bool{true, false, false}},
		"room for both":         {chosen: "large", cap: 0.03, spares: []bool{true, false}},
		"no room for the other": {chosen: "small", cap: 0.03 - 1e-12, spares: []bool{false}},
		"pinned":                {chosen: "small", only: "small", spares: []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			var spares []bool
			caller := step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
				spares = append(spares, c.Spare)
				answer := &sdk.Answer{Text: "whole", ToolCalls: []sdk.ToolCall{{Name: "find"}}, Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}}
				switch {
				case c.Model.Name == "large" && tt.largeDown:
					return nil, errors.New("down")
				case c.Spare && c.Model.Name == "small":
					c.Cut = rejected
					answer.Text, answer.Usage.Estimated = "who", true
				}
				return answer, nil
			})
			e, err := step.New(step.Config{
				Candidates: []step.Candidate{
					{Model: sdk.Model{Name: "small", MaxOutputTokens: 10, Price: sdk.Price{Output: 1000}}, Quality: sdk.Estimate{Mean: 0.6}},
					{Model: sdk.Model{Name: "large", MaxOutputTokens: 10, Price: sdk.Price{Output: 2000}}, Quality: sdk.Estimate{Mean: 0.5}},
				},
				Strategy: route(t), StepCapUSD: tt.cap,
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := e.Run(t.Context(), step.Request{Query: &sdk.Query{InputTokens: 1, MaxOutputTokens: 10}, Caller: caller, Only: tt.only, Cancel: true})
			if err != nil {
				t.Fatal(err)
			}
			if got.Answer.Text != "whole" || got.Trace.Chosen != tt.chosen || len(spares) != len(tt.spares) {
				t.Fatalf("%q of %s after %d calls", got.Answer.Text, got.Trace.Chosen, len(spares))
			}
			if last := got.Trace.Calls[len(got.Trace.Calls)-1]; last.Error == "" && len(last.Tools) != 1 {
				t.Errorf("the trace has the tools %q of the last answer", last.Tools)
			}
			for i, spare := range tt.spares {
				if spares[i] != spare {
					t.Errorf("call %d: spare %v", i, spares[i])
				}
			}
			if first := got.Trace.Calls[0]; tt.spares[0] && (first.StopReason != sdk.StopReasonCancelled || first.Verdict.Outcome != sdk.Failed || rejected.Outcome == sdk.Failed) {
				t.Errorf("the trace has %+v", first)
			}
		})
	}
}

// If an answer was cut off, no other model gave a better one and the call cannot be repeated, the step fails with the
// reason.
func TestACutOffAnswerThatCannotBeHadAgain(t *testing.T) {
	down, billed := errors.New("down"), &step.CallError{Err: errors.New("lost"), Billed: true}
	judge := step.Verifier{Name: "judge", OnUnavailable: step.UnavailableFail, Verifier: sdk.VerifierFunc(func(context.Context, *sdk.VerifyRequest) (*sdk.Verdict, error) { return nil, down })}
	for name, c := range map[string]struct {
		again, large error
		config       step.Config
		late         bool
		stop         sdk.StopReason
		want         error
	}{
		"it fails":            {again: down, large: errors.New("away"), stop: sdk.StopError, want: down},
		"a cap has no room":   {large: billed, config: step.Config{StepCapUSD: 0.03}, stop: sdk.StopBudget, want: sdk.ErrBudgetExhausted},
		"the deadline passed": {large: errors.New("away"), late: true, stop: sdk.StopDeadline, want: context.DeadlineExceeded},
		"no verdict":          {large: errors.New("away"), config: step.Config{Verifiers: []step.Verifier{judge}}, stop: sdk.StopError, want: step.ErrVerifierUnavailable},
	} {
		ended := &endedContext{Context: t.Context()}
		caller := step.CallerFunc(func(_ context.Context, call *step.Call) (*sdk.Answer, error) {
			switch {
			case call.Model.Name == "middle":
				ended.over = c.late
				return nil, c.large
			case call.Spare:
				call.Cut = &sdk.Verdict{Verifier: "check:any"}
				return &sdk.Answer{Text: "who", Usage: sdk.Usage{OutputTokens: 1, Estimated: true}}, nil
			}
			return &sdk.Answer{Text: "whole", Usage: sdk.Usage{InputTokens: 1, OutputTokens: 1}}, c.again
		})
		c.config.Candidates, c.config.Strategy = priced(0.01, 0.02), route(t)
		c.config.Candidates[0].Quality.Mean, c.config.Retry.MaxAttempts = 0.8, 1
		if c.again != nil {
			whole := caller
			caller = func(ctx context.Context, call *step.Call) (*sdk.Answer, error) {
				if call.Model.Name == "small" && !call.Spare {
					return nil, c.again
				}
				return whole(ctx, call)
			}
		}
		res, err := engine(t, c.config).Run(ended, step.Request{Query: query(), Caller: caller, Cancel: true})
		if !errors.Is(err, c.want) || res.Trace.Stop != c.stop || res.Index != -1 || res.Answer != nil {
			t.Errorf("%s: stop %s, candidate %d, %v; want %s, %v", name, res.Trace.Stop, res.Index, err, c.stop, c.want)
		}
	}
}

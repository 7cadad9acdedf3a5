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
		"no room for the other": {chosen: "small", cap: 0.02, spares: []bool{false}},
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
					{Model: sdk.Model{Name: "small", MaxOutputTokens: 10, Price: sdk.Price{Input: 1, Output: 1000}}, Quality: sdk.Estimate{Mean: 0.6}},
					{Model: sdk.Model{Name: "large", MaxOutputTokens: 10, Price: sdk.Price{Input: 1, Output: 2000}}, Quality: sdk.Estimate{Mean: 0.5}},
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

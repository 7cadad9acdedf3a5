package step_test

import (
	"context"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/step"
)

func TestAnswersAreMeasured(t *testing.T) {
	texts := map[string]string{"small": "The answer: 42", "middle": "It is 41.", "large": "answer: 42."}
	var seen []map[string]float64
	e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{{Name: "no",
		Verifier: sdk.VerifierFunc(func(_ context.Context, r *sdk.VerifyRequest) (*sdk.Verdict, error) {
			seen = append(seen, r.Answer.Signals)
			return &sdk.Verdict{Outcome: sdk.Failed}, nil
		})}}})
	res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
		a := &sdk.Answer{Text: texts[c.Model.Name]}
		if c.Model.Name == "large" {
			a.Signals = map[string]float64{"mine": 7}
			a.LogProbs = []sdk.TokenLogProb{{Token: "42", LogProb: math.Log(0.5)}}
		}
		if c.Model.Name == "middle" {
			a.LogProbs = []sdk.TokenLogProb{{Token: "say(", LogProb: 0}, {Token: "42", LogProb: math.Log(0.25)}}
			a.ToolCalls = []sdk.ToolCall{{Name: "say", Arguments: "42"}}
		}
		return a, nil
	})})
	if err != nil || len(seen) != 3 {
		t.Fatalf("%v, %d verifications", err, len(seen))
	}
	if seen[0] != nil || seen[1][feature.SignalAgreement] != 0 || seen[2][feature.SignalAgreement] != 0.5 {
		t.Errorf("signals %v", seen)
	}
	if k := [3]string{res.Trace.Calls[0].Key, res.Trace.Calls[1].Key, res.Trace.Calls[2].Key}; k[0] == "" || k[0] != k[2] || k[0] == k[1] {
		t.Errorf("keys %q of which the first and the last should be equal", k)
	}
	if seen[2]["mine"] != 7 || math.Abs(seen[2]["mean_log_prob"]-math.Log(0.5)) > 1e-12 {
		t.Errorf("signals of the last answer: %v", seen[2])
	}
	if res.Trace.Calls[2].Signals["mine"] != 7 {
		t.Error("the trace has no signals")
	}
	if got := res.Trace.Calls[1].Signals; math.Abs(got["args_mean_log_prob"]-math.Log(0.25)) > 1e-12 || math.Abs(got["mean_log_prob"]-math.Log(0.5)) > 1e-12 {
		t.Errorf("signals of a tool call in the trace: %v", got)
	}
}

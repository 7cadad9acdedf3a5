package fit

import (
	"fmt"
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk"
)

// The blame for failed runs lands on the model that answered their hard steps. That is no drift as long as runs are right as
// often as forecast; if they are not, it is one.
func TestAssessDoesNotBlameTheModelOfHardSteps(t *testing.T) {
	p := &Profile{Models: []Model{{Name: "mini"}, {Name: "large"}}, Data: Data{Queries: 400, StepsPerRun: 4}, Usual: []Offset{
		{"quality of large", 200, 0, 0.02}, {"quality of mini", 200, 0, 0.1}, {"quality in group ", 200, 0, 0.1},
	}}
	believed := func(model string, mean float64) sdk.Decision {
		return sdk.Decision{Run: model, Models: []sdk.Belief{{Model: model, Quality: sdk.Estimate{Mean: mean}}}}
	}
	for failed, want := range map[int]bool{30: true, 60: false} {
		var traces []*sdk.Trace
		for n := range 100 {
			run, outcome := fmt.Sprint(n), sdk.Passed
			if n < failed {
				outcome = sdk.Failed
			}
			traces = append(traces, &sdk.Trace{ID: "end" + run, Run: run, Mode: sdk.ModeVerdict, Verdict: &sdk.Verdict{Outcome: outcome}})
			for step := range 4 {
				s := &sdk.Trace{ID: fmt.Sprint(run, "-", step), Run: run, Mode: "enforce", Profile: "p.json", Chosen: "mini", Decisions: []sdk.Decision{believed("mini", 0.9)}}
				s.Calls = []sdk.Call{{Model: "mini", Key: "x", Quality: sdk.Estimate{Mean: math.Pow(0.7, 0.25)}}}
				if step == 3 { // hard
					s.Chosen, s.Decisions = "large", append(s.Decisions, believed("large", 0.97))
					s.Calls = append(s.Calls, sdk.Call{Model: "large", Key: "y", Quality: s.Calls[0].Quality})
				}
				traces = append(traces, s)
			}
		}
		a, err := Assess(p, traces)
		if err != nil || a.Holds() != want || a.Runs.Holds != want || !want && a.Drifts[0].Of != "quality of large" {
			t.Errorf("%d of 100 runs failed: %v %+v", failed, err, a)
		}
	}
}

package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/step"
)

// limited returns a caller whose models are rate limited: each fails once per wait listed
// for it, and then answers.
func limited(waits map[string][]time.Duration) (step.Caller, *[]string) {
	asked := map[string]int{}
	order := &[]string{}
	began := time.Now()
	return step.CallerFunc(func(_ context.Context, c *step.Call) (*sdk.Answer, error) {
		name := c.Model.Name
		*order = append(*order, fmt.Sprintf("%s %d %v", name, c.Attempt, time.Since(began)))
		n := asked[name]
		asked[name]++
		if n < len(waits[name]) {
			return nil, &step.CallError{Err: errors.New("slow down, " + name), Retry: true, After: waits[name][n]}
		}
		return &sdk.Answer{Text: name, Usage: sdk.Usage{InputTokens: 100, OutputTokens: 10}}, nil
	}), order
}

// A model with a long wait is postponed while another can be called, and is waited for if
// none is left.
func TestAModelThatHasToBeWaitedForStandsAside(t *testing.T) {
	const s = time.Second
	rejects := func(name string) step.Check {
		return step.Check{Name: "fault", Fault: func(_ *sdk.Query, a *sdk.Answer, _ []sdk.Attempt) string {
			if a.Text == name {
				return "wrong"
			}
			return ""
		}}
	}
	for what, c := range map[string]struct {
		waits  map[string][]time.Duration
		retry  step.Retry
		only   string
		reject string
		late   map[string]time.Duration // what servers have asked for in earlier steps
		order  string                   // "" for what failed
		chosen string
		out    int
	}{
		"a short wait is no reason":       {waits: map[string][]time.Duration{"small": {2 * s}}, order: "small 1 0s, small 2 2s", chosen: "small"},
		"a long one is":                   {waits: map[string][]time.Duration{"small": {7 * s}}, order: "small 1 0s, mid 1 0s", chosen: "mid", out: 1},
		"unless told otherwise":           {waits: map[string][]time.Duration{"small": {7 * s}}, retry: step.Retry{SwitchAfter: 10 * s}, order: "small 1 0s, small 2 7s", chosen: "small"},
		"pinned":                          {waits: map[string][]time.Duration{"small": {7 * s}}, only: "small", order: "small 1 0s, small 2 7s", chosen: "small"},
		"all at once":                     {waits: map[string][]time.Duration{"small": {7 * s}, "mid": {7 * s}, "large": {7 * s}}, order: "small 1 0s, mid 1 0s, large 1 0s, small 2 7s", chosen: "small"},
		"the nearest first":               {waits: map[string][]time.Duration{"small": {9 * s}, "mid": {8 * s}, "large": {3 * s}}, order: "small 1 0s, mid 1 0s, large 1 0s, large 2 3s", chosen: "large", out: 2},
		"the other's answer is none":      {waits: map[string][]time.Duration{"small": {7 * s}, "large": {time.Hour}}, reject: "mid", order: "small 1 0s, mid 1 0s, large 1 0s, small 2 7s", chosen: "small", out: 1},
		"known before":                    {late: map[string]time.Duration{"small": 7 * s}, order: "mid 1 0s", chosen: "mid", out: 1},
		"known, and the other is wrong":   {late: map[string]time.Duration{"small": 7 * s, "large": time.Hour}, reject: "mid", order: "mid 1 0s, small 1 7s", chosen: "small", out: 1},
		"known for soon":                  {late: map[string]time.Duration{"small": 2 * s}, order: "small 1 0s", chosen: "small"},
		"known of all":                    {late: map[string]time.Duration{"small": 7 * s, "mid": 5 * s, "large": 9 * s}, order: "small 1 0s", chosen: "small"},
		"known and pinned":                {late: map[string]time.Duration{"small": 7 * s}, only: "small", order: "small 1 0s", chosen: "small"},
		"known for longer than one waits": {late: map[string]time.Duration{"small": time.Hour, "large": 2 * time.Hour}, reject: "mid", order: "mid 1 0s, small 1 0s", chosen: "small", out: 1},
		"known for as long as one waits":  {late: map[string]time.Duration{"small": 10 * s, "large": time.Hour}, reject: "mid", order: "mid 1 0s, small 1 10s", chosen: "small", out: 1},
		"over by then": {waits: map[string][]time.Duration{"small": {4 * s}, "mid": {2 * s, 2 * s}, "large": {time.Hour}}, retry: step.Retry{MaxAttempts: 3}, reject: "mid",
			order: "small 1 0s, mid 1 0s, mid 2 2s, mid 3 4s, large 1 4s, small 2 4s", chosen: "small", out: 1},
		"all for ever": {waits: map[string][]time.Duration{"small": {7 * s, 7 * s}, "mid": {5 * s, 5 * s}, "large": {6 * s, 6 * s}},
			order: "small 1 0s, mid 1 0s, large 1 0s, small 2 7s, mid 2 7s, large 2 7s"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				models := []step.Candidate{
					{Model: model("small", 0.1, 0.5), Quality: sdk.Estimate{Mean: 0.9}},
					{Model: model("mid", 1, 5), Quality: sdk.Estimate{Mean: 0.8}},
					{Model: model("large", 10, 50), Quality: sdk.Estimate{Mean: 0.7}},
				}
				config := step.Config{Candidates: models, Strategy: route(t), Retry: c.retry}
				if c.reject != "" {
					config.Checks = []step.Check{rejects(c.reject)}
				}
				caller, order := limited(c.waits)
				res, err := engine(t, config).Run(t.Context(), step.Request{Query: query(), Caller: caller, Only: c.only, NotBefore: func(i int) time.Time {
					if wait := c.late[models[i].Model.Name]; wait > 0 {
						return time.Now().Add(wait)
					}
					return time.Time{}
				}})
				if got := strings.Join(*order, ", "); got != c.order {
					t.Errorf("asked %s, want %s", got, c.order)
				}
				if note := notes(res.Trace); strings.Contains(note, "waited 0s") || c.only != "" && len(res.Trace.Decisions) != 1 {
					t.Errorf("%d decisions, %q", len(res.Trace.Decisions), note)
				}
				if res.Trace.Chosen != c.chosen || (err != nil) != (c.chosen == "") || len(res.Trace.Infeasible) != c.out && c.chosen != "" {
					t.Errorf("chose %q, out %v, %v", res.Trace.Chosen, res.Trace.Infeasible, err)
				}
				if c.chosen == "" && (!strings.Contains(err.Error(), "small") || !strings.Contains(err.Error(), "mid") || !strings.Contains(err.Error(), "large")) {
					t.Errorf("the error does not name all: %v", err)
				}
			})
		})
	}
}

// If the strategy would stop while a model has to be waited for, it decides again with that model, and the trace has
// the second decision with the notes of the first.
func TestAStrategyThatStopsDecidesAgainWithWhoStoodAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		firstOnly := scripted(func(s *cascade.State) cascade.Decision {
			if len(s.Ran) > 0 || s.Infeasible[0] {
				return cascade.Decision{Run: cascade.Stop, Answer: cascade.None}
			}
			return cascade.Decision{Run: 0, Answer: cascade.None}
		})
		asked := 0
		broken := step.Estimator{Name: "broken", Estimator: sdk.QualityEstimatorFunc(func(_ context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
			if asked++; asked == 2 {
				return nil, errors.New("gone")
			}
			return &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(r.Models))}, nil
		})}
		caller, order := limited(map[string][]time.Duration{"small": {7 * time.Second}})
		res, err := engine(t, step.Config{Candidates: candidates(), Strategy: firstOnly, Estimators: []step.Estimator{broken}}).Run(t.Context(), step.Request{Query: query(), Caller: caller})
		if got := strings.Join(*order, ", "); got != "small 1 0s, small 2 7s" || len(res.Trace.Decisions) != 3 || !strings.Contains(res.Trace.Decisions[1].Note, "broken unavailable") || res.Trace.Chosen != "small" {
			t.Errorf("asked %s in %+v, %v", got, res.Trace.Decisions, err)
		}
	})
}

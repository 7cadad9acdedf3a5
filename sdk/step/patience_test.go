package step_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// sluggish is an estimator that answers when its deadline has passed.
type sluggish struct {
	asked int
	quick bool
}

func (s *sluggish) EstimateQuality(ctx context.Context, r *sdk.QualityRequest) (*sdk.QualityResponse, error) {
	s.asked++
	if !s.quick {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp := &sdk.QualityResponse{Estimates: make([]sdk.Estimate, len(r.Models))}
	for i := range resp.Estimates {
		resp.Estimates[i] = sdk.Estimate{Mean: 0.5}
	}
	return resp, nil
}

// A slow estimator does not cost its timeout in every step: after three missed deadlines
// it is left alone, asked again after a while, and forgiven when it answers.
func TestSlowEstimatorsAreLeftAlone(t *testing.T) {
	now, slow := time.Unix(0, 0), &sluggish{}
	c := step.Config{
		Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(map[string]bool{"small": true})},
		Estimators: []step.Estimator{{Name: "slow", Estimator: slow, Timeout: time.Millisecond}}, Now: func() time.Time { return now },
	}
	run := func(e *step.Engine) *sdk.Trace {
		t.Helper()
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()})
		if err != nil {
			t.Fatal(err)
		}
		return res.Trace
	}
	notes := func(trace *sdk.Trace) string {
		var b strings.Builder
		for _, d := range trace.Decisions {
			b.WriteString(d.Note + "\n")
		}
		return b.String()
	}
	e := engine(t, c)
	for range 5 {
		run(e)
	}
	if slow.asked != 3 {
		t.Errorf("asked %d times in five steps, want 3", slow.asked)
	}
	if got := notes(run(e)); !strings.Contains(got, "estimator slow is left alone for 30s: it missed its deadline 3 times in a row") {
		t.Errorf("notes %q", got)
	}
	// One more miss doubles the pause; one answer ends it.
	now = now.Add(31 * time.Second)
	run(e)
	if got := notes(run(e)); slow.asked != 4 || !strings.Contains(got, "left alone for 1m0s") {
		t.Errorf("asked %d times, notes %q", slow.asked, got)
	}
	now, slow.quick = now.Add(61*time.Second), true
	run(e)
	if before := slow.asked; strings.Contains(notes(run(e)), "left alone") || slow.asked == before {
		t.Errorf("an estimator that answers again is not asked")
	}
	// Where a step fails without the estimator it is asked each time.
	slow.quick, slow.asked = false, 0
	c.Estimators[0].OnUnavailable = step.UnavailableFail
	e = engine(t, c)
	for range 5 {
		if _, err := e.Run(t.Context(), step.Request{Query: query(), Caller: says()}); err == nil {
			t.Fatal("no error")
		}
	}
	if slow.asked != 5 {
		t.Errorf("asked %d times, want 5", slow.asked)
	}
}

package step_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/step"
)

// A request that a model refuses is sent to the next one, and the refusal is not hidden by
// a rejected answer. After other failures the best answer so far is returned.
func TestRefusedRequests(t *testing.T) {
	refused := &step.CallError{Err: errors.New("unknown parameter"), Refused: true}
	down := &step.CallError{Err: errors.New("down")}
	for _, tt := range []struct {
		name     string
		fail     map[string]error
		pass     map[string]bool
		chosen   string
		stop     sdk.StopReason
		fault    error
		refusals int
	}{
		{"the next model takes it", map[string]error{"middle": refused}, map[string]bool{"large": true}, "large", sdk.StopExhausted, nil, 1},
		{"the first model refuses", map[string]error{"small": refused}, map[string]bool{"middle": true}, "middle", sdk.StopNotWorth, nil, 1},
		{"only a rejected answer is left", map[string]error{"middle": refused, "large": refused}, nil, "", sdk.StopRefused, sdk.ErrRequestRefused, 2},
		{"one refuses, one is down", map[string]error{"middle": refused, "large": down}, nil, "", sdk.StopRefused, sdk.ErrRequestRefused, 1},
		{"two answers are rejected", map[string]error{"middle": refused}, nil, "", sdk.StopRefused, sdk.ErrRequestRefused, 1},
		{"the others are down", map[string]error{"middle": down, "large": down}, nil, "small", sdk.StopExhausted, nil, 0},
		{"all refuse", map[string]error{"small": refused, "middle": refused, "large": refused}, nil, "", sdk.StopRefused, refused, 3},
		{"one refuses, the others are down", map[string]error{"small": refused, "middle": down, "large": down}, nil, "", sdk.StopError, down, 1},
	} {
		e := engine(t, step.Config{Candidates: candidates(), Strategy: index(t, 1), Verifiers: []step.Verifier{verdicts(tt.pass)}, Retry: step.Retry{MaxAttempts: 3}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(ctx context.Context, c *step.Call) (*sdk.Answer, error) {
			if err := tt.fail[c.Model.Name]; err != nil {
				return nil, err
			}
			return says().Call(ctx, c)
		})})
		if !errors.Is(err, tt.fault) || (err == nil) != (tt.fault == nil) || res.Trace.Stop != tt.stop || res.Trace.Chosen != tt.chosen || (res.Answer == nil) != (tt.chosen == "") {
			t.Errorf("%s: chosen %q, stop %s, error %v; want %q, %s, %v", tt.name, res.Trace.Chosen, res.Trace.Stop, err, tt.chosen, tt.stop, tt.fault)
		}
		found := 0
		for _, c := range res.Trace.Calls {
			if c.StopReason == sdk.StopReasonRefused {
				found++
			}
		}
		if found != tt.refusals {
			t.Errorf("%s: %d calls are named as refused, want %d", tt.name, found, tt.refusals)
		}
	}
}

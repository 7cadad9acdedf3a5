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
	"github.com/stepfall/stepfall/sdk/step"
)

// waits runs a step whose only model always fails that way, and returns how long the
// engine waited before each further try.
func waits(t *testing.T, limits step.Retry, failure step.CallError) []time.Duration {
	t.Helper()
	failure.Err = errors.New("overloaded")
	var list []time.Duration
	synctest.Test(t, func(t *testing.T) {
		last := time.Time{}
		e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Retry: limits})
		_, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
			if !last.IsZero() {
				list = append(list, time.Since(last))
			}
			last = time.Now()
			return nil, &failure
		})})
		if !errors.Is(err, failure.Err) {
			t.Errorf("the error does not say why: %v", err)
		}
	})
	return list
}

// Delays double up to MaxDelay, each minus a random part of up to half.
func TestDelaysDoubleUpToTheLongest(t *testing.T) {
	for _, c := range []struct {
		limits  step.Retry
		longest []time.Duration
	}{
		{step.Retry{}, []time.Duration{500 * time.Millisecond}},
		{step.Retry{MaxAttempts: 1}, nil},
		{step.Retry{MaxAttempts: 7}, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second}},
		{step.Retry{MaxAttempts: 4, BaseDelay: 3 * time.Second, MaxDelay: 7 * time.Second}, []time.Duration{3 * time.Second, 6 * time.Second, 7 * time.Second}},
		{step.Retry{MaxAttempts: 3, BaseDelay: time.Minute, MaxDelay: time.Second}, []time.Duration{time.Second, time.Second}},
	} {
		sum, most := time.Duration(0), time.Duration(0)
		for range 20 {
			got := waits(t, c.limits, step.CallError{Retry: true})
			if len(got) != len(c.longest) {
				t.Fatalf("%+v: waited %v, want %d times", c.limits, got, len(c.longest))
			}
			for i, wait := range got {
				if wait < c.longest[i]/2 || wait > c.longest[i] {
					t.Errorf("%+v: waited %v before try %d, want between half of %v and all of it", c.limits, wait, i+2, c.longest[i])
				}
				sum, most = sum+wait, most+c.longest[i]
			}
		}
		if most > 0 && (sum > most*9/10 || sum < most*6/10) {
			t.Errorf("%+v: waited %v of at most %v, which is not spread over the upper half", c.limits, sum, most)
		}
	}
	// A thousand tries do not wear the delay out, and the shortest one is one.
	if got := waits(t, step.Retry{MaxAttempts: 1000, BaseDelay: time.Nanosecond, MaxDelay: time.Nanosecond}, step.CallError{Retry: true}); len(got) != 999 {
		t.Errorf("%d tries, want 1000", len(got)+1)
	}
	for i, wait := range waits(t, step.Retry{MaxAttempts: 100, BaseDelay: 20 * time.Second, MaxDelay: time.Minute}, step.CallError{Retry: true}) {
		if wait < 10*time.Second || wait > time.Minute {
			t.Errorf("waited %v before try %d", wait, i+2)
		}
	}
}

// A delay that the server asks for is kept exactly, up to MaxDelay; for a longer one the
// model is given up at once.
func TestRetryAfterIsKeptUpToTheLongest(t *testing.T) {
	limits := step.Retry{MaxAttempts: 2, MaxDelay: 10 * time.Second}
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{time.Millisecond, "[1ms]"}, {3 * time.Second, "[3s]"}, {10 * time.Second, "[10s]"}, {10*time.Second + time.Nanosecond, "[]"}, {time.Hour, "[]"},
	} {
		if got := fmt.Sprint(waits(t, limits, step.CallError{Retry: true, After: c.after})); got != c.want {
			t.Errorf("told to come back after %v: waited %s, want %s", c.after, got, c.want)
		}
	}
	if got := waits(t, step.Retry{MaxAttempts: 9}, step.CallError{After: time.Second}); len(got) != 0 {
		t.Errorf("an error that allows no retry was retried after %v", got)
	}
}

// Other deployments are called at once and do not count against MaxAttempts, up to a
// hundred calls; none is called once the context has ended.
func TestElsewhereIsAskedAtOnce(t *testing.T) {
	got := waits(t, step.Retry{MaxAttempts: 1}, step.CallError{Elsewhere: true})
	if len(got) != 99 {
		t.Errorf("%d calls of a model that is always said to be elsewhere, want 100", len(got)+1)
	}
	for _, wait := range got {
		if wait != 0 {
			t.Fatalf("waited %v for another deployment", wait)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t)})
	_, err := e.Run(ctx, step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
		asked++
		cancel()
		return nil, &step.CallError{Err: errors.New("reset"), Elsewhere: true, Retry: true}
	})})
	if asked != 1 || err == nil {
		t.Errorf("%d calls for a caller that has gone, %v", asked, err)
	}
}

// A wait ends with its context.
func TestAWaitEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t), Retry: step.Retry{MaxAttempts: 5, MaxDelay: time.Minute}})
		_, err := e.Run(ctx, step.Request{Query: query(), Caller: fails(map[string]error{"small": &step.CallError{Err: errors.New("busy"), Retry: true, After: time.Minute}})})
		if waited := time.Since(began); waited != time.Second || err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("waited %v, %v", waited, err)
		}
	})
}

// A call whose bill is unknown counts at its expected cost in the trace, and at its worst
// case under the step's cap.
func TestACallWhoseBillIsNotKnown(t *testing.T) {
	worst := (400*0.1 + 1000*0.5) / 1e6 // of one call of small
	expected := sdk.Usage{InputTokens: 100, OutputTokens: 500, Estimated: true}
	expectedUSD := (100*0.1 + 500*0.5) / 1e6
	part := sdk.Usage{OutputTokens: 3, Estimated: true}
	same := func() []step.Candidate {
		list := []step.Candidate{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			list = append(list, step.Candidate{Model: model(name, 0.1, 0.5)})
		}
		return list
	}
	for what, c := range map[string]struct {
		failure step.CallError
		usage   sdk.Usage
		usd     float64
		calls   int // under a cap of three worst cases and a half
		note    bool
	}{
		"nothing was seen":  {step.CallError{Billed: true}, expected, expectedUSD, 3, true},
		"a part was seen":   {step.CallError{Billed: true, Usage: part}, part, 3 * 0.5 / 1e6, 3, true},
		"only the prompt":   {step.CallError{Billed: true, Usage: sdk.Usage{InputTokens: 90, ReasoningTokens: 30, Estimated: true}}, sdk.Usage{InputTokens: 90, OutputTokens: 470, ReasoningTokens: 30, Estimated: true}, (90*0.1 + 500*0.5) / 1e6, 3, true},
		"the cost is told":  {step.CallError{Billed: true, CostUSD: worst}, sdk.Usage{}, worst, 3, false},
		"the usage is told": {step.CallError{Billed: true, Usage: sdk.Usage{InputTokens: 5400}}, sdk.Usage{InputTokens: 5400}, worst, 3, false},
		"for nothing":       {step.CallError{}, sdk.Usage{}, 0, 5, false},
	} {
		c.failure.Err = errors.New("cut off")
		e := engine(t, step.Config{Candidates: same(), Strategy: route(t), StepCapUSD: 3.5 * worst, Retry: step.Retry{MaxAttempts: 1}})
		res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) { return nil, &c.failure })})
		if err == nil || len(res.Trace.Calls) != c.calls {
			t.Errorf("%s: %d calls, want %d; %v", what, len(res.Trace.Calls), c.calls, err)
			continue
		}
		call := res.Trace.Calls[0]
		if call.Usage != c.usage || !nearly(call.CostUSD, c.usd) || !nearly(res.Trace.CostUSD, float64(c.calls)*c.usd) {
			t.Errorf("%s: call %+v of %v USD, step %v USD; want %+v, %v", what, call.Usage, call.CostUSD, res.Trace.CostUSD, c.usage, c.usd)
		}
		if doubt := c.failure.Usage.Estimated; (call.UsageDoubt != "") != doubt {
			t.Errorf("%s: doubt %q", what, call.UsageDoubt)
		}
		if noted := strings.Contains(res.Trace.Decisions[1].Note, "the cost of a is unknown"); noted != c.note {
			t.Errorf("%s: note %q", what, res.Trace.Decisions[1].Note)
		}
		if c.calls == 3 {
			spent := 3 * c.usd
			if want := fmt.Sprintf("%.6g USD spent, %.6g reserved, up to %.6g more for the next call, cap %.6g", spent, 3*worst-spent, worst, 3.5*worst); !strings.Contains(err.Error(), want) && !strings.Contains(fmt.Sprint(res.Trace.Infeasible), want) {
				t.Errorf("%s: nothing says %q: %v, %v", what, want, err, res.Trace.Infeasible)
			}
		}
	}
}

// Fields of an answer that the caller has set are kept; empty ones are filled in.
func TestWhatACallerLeavesOpenIsFilledIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, own := range []bool{false, true} {
			e := engine(t, step.Config{Candidates: candidates()[:1], Strategy: route(t)})
			res, err := e.Run(t.Context(), step.Request{Query: query(), Caller: step.CallerFunc(func(context.Context, *step.Call) (*sdk.Answer, error) {
				time.Sleep(3 * time.Second)
				a := &sdk.Answer{Text: "x", Usage: sdk.Usage{InputTokens: 100, OutputTokens: 10}}
				if own {
					a.Latency, a.CostUSD = time.Second, 0.5
				}
				return a, nil
			})})
			if err != nil {
				t.Fatal(err)
			}
			latency, usd := 3*time.Second, (100*0.1+10*0.5)/1e6
			if own {
				latency, usd = time.Second, 0.5
			}
			if a := res.Answer; a.Latency != latency || !nearly(a.CostUSD, usd) || a.Model != "small" || !nearly(res.Trace.CostUSD, usd) {
				t.Errorf("own %v: answer of %s after %v for %v USD, want %v, %v", own, a.Model, a.Latency, a.CostUSD, latency, usd)
			}
			if tr := res.Trace; tr.Duration != 3*time.Second || tr.Overhead != 0 || tr.Calls[0].Latency != 3*time.Second {
				t.Errorf("the step took %v, %v of it overhead, the call %v", tr.Duration, tr.Overhead, tr.Calls[0].Latency)
			}
		}
	})
}

package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// earlyCall is the first call of a model that callPair started before the loop chose the model. Its
// goroutine writes latency, answer and err before it closes done.
type earlyCall struct {
	most   demand
	held   Reservation
	cancel context.CancelFunc
	done   chan struct{}

	start   time.Time
	latency time.Duration
	answer  *sdk.Answer
	err     error
}

// callPair starts the call of candidate i together with that of the model that the strategy would call
// next even if i's answer turned out unusually good. Both worst cases are reserved first. If there is no
// room for both, or i's answer alone can end the step, it starts neither.
func (r *run) callPair(ctx context.Context, i int) {
	if !r.isParallel() || r.earlyCalls != nil || len(r.state.Ran) > 0 || r.req.Paid != nil || r.only >= 0 || r.judged[i] || r.req.Commit && r.isFinal(i) {
		return
	}
	next := r.decideAfter(i, r.state.Beliefs[i].Mean)
	if next.Run == cascade.Stop || next.Look || next.Run == i || r.decideAfter(i, r.bestAlone(i)).Run != next.Run {
		return
	}
	first, second := r.demandOf(i), r.demandOf(next.Run)
	other, err := r.reserveMore(ctx, first.usd, second.usd)
	if err != nil {
		return
	}
	held, err := r.reserve(ctx, first.usd)
	if err != nil {
		r.noteSettling(r.settle(ctx, other, 0, 0))
		return
	}
	r.earlyCalls = map[int]*earlyCall{i: r.beginCall(ctx, i, first, held), next.Run: r.beginCall(ctx, next.Run, second, other)}
	last := &r.t.Decisions[len(r.t.Decisions)-1]
	last.Note = strings.TrimPrefix(last.Note+"; asked in parallel with "+r.e.names[next.Run]+", which would be next", "; ")
}

// bestAlone returns a quality that candidate i's answer is unlikely to exceed while it is the only one:
// two deviations above the mean, or the mean if only agreement with other answers changes the belief.
func (r *run) bestAlone(i int) float64 {
	b := r.state.Beliefs[i]
	if b.Unseen || r.compared[i] {
		return b.Mean
	}
	return min(1, b.Mean+2*b.StdDev)
}

func (r *run) isParallel() bool {
	if r.req.Strategy != nil {
		return r.req.Parallel
	}
	return r.e.c.Parallel
}

func (r *run) beginCall(ctx context.Context, i int, most demand, held Reservation) *earlyCall {
	ctx, cancel := context.WithCancel(ctx)
	e := &earlyCall{most: most, held: held, cancel: cancel, done: make(chan struct{}), start: r.e.c.Now()}
	c := &Call{Query: r.q, Model: &r.e.models[i], Index: i, Attempt: 1, MaxOutputTokens: most.limit}
	caller, now := r.req.Caller, r.e.c.Now
	go func() {
		defer close(e.done)
		e.answer, e.err = guard(func() (*sdk.Answer, error) { return caller.Call(ctx, c) })
		if e.err == nil && e.answer == nil {
			e.err = errors.New("the caller returned neither an answer nor an error")
		}
		e.latency = now().Sub(e.start)
	}()
	return e
}

// cancelEarlyCalls cancels the calls that the step no longer needs, and books their cost.
func (r *run) cancelEarlyCalls(ctx context.Context) {
	for i, e := range r.earlyCalls {
		e.cancel()
		<-e.done
		r.cut = nil
		rec := r.newCall(i, 1)
		rec.Start, rec.Latency = e.start, e.latency
		if e.err != nil && errors.Is(e.err, context.Canceled) && ctx.Err() == nil {
			rec.StopReason = sdk.StopReasonCancelled
		}
		r.book(ctx, &rec, i, e.answer, e.err, &e.most, e.held)
	}
	r.earlyCalls = nil
}

// hasSpare reports whether another model will be called if a check rejects candidate i's answer, and
// fits under the step's cap even if the bill of this call stays unknown and worst remains booked for it.
func (r *run) hasSpare(i int, worst float64) bool {
	if !r.req.Cancel || r.only >= 0 || r.explores {
		return false
	}
	next := r.decideAfter(i, 0).Run
	if next == cascade.Stop {
		next = r.routeWithout(append(slices.Clip(r.state.Ran), i))
	}
	return next != cascade.Stop && !r.state.Infeasible[next] && !r.exceedsStepCap(worst, r.demandOf(next).usd)
}

// repeatCutCall calls candidate i again, since its answer was cut off and no other model gave a better one.
func (r *run) repeatCutCall(ctx context.Context, stop sdk.StopReason, i int) (sdk.StopReason, int, error) {
	if err := ctx.Err(); err != nil {
		return sdk.StopDeadline, -1, r.stopFailed(err)
	}
	r.req.Cancel = false
	answer, err := r.call(ctx, i, false)
	if err != nil {
		if errors.Is(err, sdk.ErrBudgetExhausted) {
			return sdk.StopBudget, -1, r.stopFailed(err)
		}
		return sdk.StopError, -1, r.stopFailed(err)
	}
	r.rejected[i] = false
	verdict, err := r.assess(ctx, i, answer)
	record(&r.t.Calls[len(r.t.Calls)-1], answer, verdict)
	k := slices.Index(r.state.Ran, i)
	r.callOf[k], r.attempts[k] = len(r.t.Calls)-1, sdk.Attempt{Answer: *answer, Verdict: verdict}
	if err != nil {
		return sdk.StopError, -1, err
	}
	r.settleBeliefs(ctx)
	return stop, i, nil
}

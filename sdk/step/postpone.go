package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// postponedCall is the retry state of a model that is set aside while others can be called.
type postponedCall struct {
	attempt, round int       // of the next try; round counts only tries subject to backoff
	until          time.Time // the model is not called before this time
	err            error     // of the last try; nil if there was none
	isWaiting      bool      // still set aside: recall has not readmitted it
}

// hasAlternative reports whether the step can go on without candidate i.
func (r *run) hasAlternative(i int) bool {
	if r.only >= 0 || r.isExploring || r.hasRun(i) {
		return false
	}
	return r.hasPostponed() || r.hasOtherOpen(i)
}

func (r *run) hasPostponed() bool {
	for _, a := range r.postponed {
		if a.isWaiting {
			return true
		}
	}
	return false
}

// postpone makes candidate i infeasible until recall readmits it.
func (r *run) postpone(i int, a postponedCall) {
	if r.postponed == nil {
		r.postponed = map[int]postponedCall{}
	}
	a.isWaiting = true
	r.postponed[i] = a
	r.drop(i, "must be waited for")
}

// postponeThrottled postpones the candidates whose servers asked for a pause longer than
// Retry.SwitchAfter, unless that is all of them.
func (r *run) postponeThrottled(now time.Time) {
	soon := now.Add(r.e.c.Retry.SwitchAfter)
	late := func(i int) bool { return r.req.NotBefore(i).After(soon) }
	prompt := false
	for i, out := range r.state.Infeasible {
		prompt = prompt || !out && !late(i)
	}
	for i, out := range r.state.Infeasible {
		if prompt && !out && late(i) {
			r.postpone(i, postponedCall{attempt: 1, round: 1, until: r.req.NotBefore(i)})
		}
	}
}

// recall readmits the postponed candidate with the shortest wait, and those due within
// Retry.SwitchAfter of it, and reports whether there was one. It readmits none if an answer passed the
// checks and nothing else judges it: that answer ends the step.
func (r *run) recall() bool {
	if !r.hasPostponed() {
		return false
	}
	for _, i := range r.state.Ran {
		if !r.rejected[i] && !r.hasEstimator(i) && !r.judged[i] {
			return false
		}
	}
	var first time.Time
	for _, a := range r.postponed {
		if a.isWaiting && (first.IsZero() || a.until.Before(first)) {
			first = a.until
		}
	}
	for i, a := range r.postponed {
		if a.isWaiting && !a.until.After(first.Add(r.e.c.Retry.SwitchAfter)) {
			a.isWaiting = false
			r.postponed[i], r.state.Infeasible[i] = a, false
			r.t.Infeasible = slices.DeleteFunc(r.t.Infeasible, func(out sdk.Infeasible) bool { return out.Model == r.e.names[i] })
		}
	}
	return true
}

// resume waits until candidate i may be asked again, and returns the numbers of its next try and
// round. It does not wait longer than a retry would.
func (r *run) resume(ctx context.Context, i int) (attempt, round int) {
	a, stood := r.postponed[i]
	if !stood {
		return 1, 1
	}
	delete(r.postponed, i)
	if wait := a.until.Sub(r.e.c.Now()); wait > 0 && wait <= r.e.c.Retry.MaxDelay {
		r.addNote(fmt.Sprintf("waited %v for %s", wait.Round(time.Millisecond), r.e.names[i]))
		r.pause(ctx, wait)
	}
	return a.attempt, a.round
}

package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// postponedCall is where the tries at a model stand that another one was asked in place of, since
// it had to be waited for.
type postponedCall struct {
	attempt, round int       // of the next try
	until          time.Time // before which it is not asked
	err            error     // of the last try; nil when there was none
	out            bool      // it has not been recalled
}

// hasAlternative reports whether the step can go on without candidate i.
func (r *run) hasAlternative(i int) bool {
	if r.only >= 0 || r.explores && len(r.attempts) > 0 || r.ran(i) {
		return false
	}
	if r.waiting() {
		return true
	}
	for k, out := range r.state.Infeasible {
		if k != i && !out && !r.ran(k) {
			return true
		}
	}
	return false
}

func (r *run) waiting() bool {
	for _, a := range r.asides {
		if a.out {
			return true
		}
	}
	return false
}

// stepAside takes candidate i out of the step until it is recalled.
func (r *run) stepAside(i int, a postponedCall) {
	if r.asides == nil {
		r.asides = map[int]postponedCall{}
	}
	a.out = true
	r.asides[i] = a
	r.drop(i, "has to be waited for")
}

// putAside has those candidates stand aside from the start that servers asked to wait for,
// if there are others.
func (r *run) putAside(now time.Time) {
	soon := now.Add(r.e.c.Retry.SwitchAfter)
	late := func(i int) bool { return r.req.NotBefore(i).After(soon) }
	prompt := false
	for i, out := range r.state.Infeasible {
		prompt = prompt || !out && !late(i)
	}
	for i, out := range r.state.Infeasible {
		if prompt && !out && late(i) {
			r.stepAside(i, postponedCall{attempt: 1, round: 1, until: r.req.NotBefore(i)})
		}
	}
}

// recall takes back the candidate that has to be waited for least, and those that take
// hardly longer. It reports whether there was one. Where nothing would look at answers,
// one in which no check finds a fault is not paid for a second time.
func (r *run) recall() bool {
	if !r.waiting() {
		return false
	}
	for _, i := range r.state.Ran {
		if !r.rejected[i] && !r.isLookedAt(i) && !r.judged[i] {
			return false
		}
	}
	var first time.Time
	for _, a := range r.asides {
		if a.out && (first.IsZero() || a.until.Before(first)) {
			first = a.until
		}
	}
	for i, a := range r.asides {
		if a.out && !a.until.After(first.Add(r.e.c.Retry.SwitchAfter)) {
			a.out = false
			r.asides[i], r.state.Infeasible[i] = a, false
			r.t.Infeasible = slices.DeleteFunc(r.t.Infeasible, func(out sdk.Infeasible) bool { return out.Model == r.e.names[i] })
		}
	}
	return true
}

// comeBack returns the numbers of the next try at candidate i and of its round, when its
// time has come. What no retry would wait for is asked at once.
func (r *run) comeBack(ctx context.Context, i int) (attempt, round int) {
	a, stood := r.asides[i]
	if !stood {
		return 1, 1
	}
	delete(r.asides, i)
	if wait := a.until.Sub(r.e.c.Now()); wait > 0 && wait <= r.e.c.Retry.MaxDelay {
		r.addNote(fmt.Sprintf("waited %v for %s", wait.Round(time.Millisecond), r.e.names[i]))
		r.pause(ctx, wait)
	}
	return a.attempt, a.round
}

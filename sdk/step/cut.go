package step

import (
	"context"
	"errors"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

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

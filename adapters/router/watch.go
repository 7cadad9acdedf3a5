package router

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/savings"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/step"
)

// watch monitors a policy in operation. It assigns the holdout, and warns once each if the policy does
// harm, if it costs more than its baseline, and if costs have drifted from its profile.
type watch struct {
	policy *policies.Policy
	log    *onceLogger
	spent  savings.Account
	pacer  *fit.Pacer // nil if no budget is paced
	// harmful is set when the holdout shows harm. It triggers the policy's fallback.
	harmful atomic.Bool

	mu    sync.Mutex
	steps int
}

// stepsBetweenChecks is the number of steps or verdicts between two checks of the account.
const stepsBetweenChecks = 20

// assignHoldout draws whether a query is sent to the baseline: once for all queries of a run or else of a session
// or conversation, and separately for a query without any of these.
func (w *watch) assignHoldout(q *sdk.Query) *sdk.Holdout {
	h := &sdk.Holdout{Share: w.policy.Holdout.Share}
	if w.harmful.Load() && w.policy.Holdout.Fallback {
		h.Baseline, h.Fallback = true, true
		return h
	}
	if q.Run == "" && q.Session == "" && q.Conversation == "" {
		h.Baseline = rand.Float64() < h.Share
	} else {
		h.Baseline = holdout.Assign(holdout.Unit(q.Tenant, q.Run, cmp.Or(q.Session, q.Conversation), ""), uint64(w.policy.Holdout.Seed), h.Share)
	}
	return h
}

func (w *watch) record(ctx context.Context, t *sdk.Trace) {
	w.spent.Record(ctx, t)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps++; w.steps%stepsBetweenChecks != 0 {
		return
	}
	r := w.spent.Result()
	if r.Holdout != nil {
		if harm := r.Holdout.Harm(); harm != "" {
			w.harmful.Store(true)
			detail := r.Holdout.String()
			if w.policy.Holdout.Fallback {
				detail += " All further runs use " + w.policy.Baseline + " alone, until the process restarts (fallback in the holdout block)."
			}
			w.warn("the holdout shows that the policy "+harm, detail)
		}
	}
	if text := r.Excess(); text != "" {
		w.warn("the policy costs more than its baseline", text)
	}
	if w.pacer == nil {
		return
	}
	if ratio, hasDrifted := w.pacer.Drift(); hasDrifted {
		w.warn("budget exceeded: queries cost far more than the profile expects",
			fmt.Sprintf("%.1f times as much; fit again to the current costs. Until then the budget's operating point is kept", ratio))
	}
}

func (w *watch) warn(what, detail string) {
	w.log.warn(what, what+"; logged once", "policy", w.policy.Path, "detail", detail)
}

// Report records the outcome of a run, as determined later by its program, its user or a check. run is a
// name in [middleware.Info]; the tenant is that of the context's Info, and it is an error if the steps
// of a known run have a tenant and the context has none. The verdict is sent to the trace
// sinks and joined to the run's steps by the name. It can be reported at any time until the router is
// closed. The last verdict counts, and an inconclusive one withdraws earlier ones. A verdict on a run
// without known steps counts once there is one; this is logged once. The zero Verdict is an error.
func (r *Router) Report(ctx context.Context, run string, v sdk.Verdict) error {
	s, done, err := r.use()
	if err != nil {
		return fmt.Errorf("reporting a verdict on run %s: %w", run, err)
	}
	defer done()
	run = s.config.Redact.Text(run) // recorded steps have the redacted name
	t, err := step.VerdictTrace(run, middleware.InfoFrom(ctx).Tenant, &v)
	if err != nil {
		return err
	}
	if tenants := r.tenantsOf(ctx, s, t.Tenant, run); !slices.Contains(tenants, t.Tenant) {
		if len(tenants) > 0 {
			return fmt.Errorf("reporting a verdict on run %s: its steps have a tenant, which the context must name: middleware.WithInfo(ctx, middleware.Info{Tenant: ...})", run)
		}
		s.watch.log.warn("unknown run", "verdict on a run without known steps, which counts once there is one; logged once", "run", run)
	}
	t.Policy = s.config.Step.Policy
	s.config.Step.Traces(ctx, t)
	return nil
}

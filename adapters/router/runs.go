package router

import (
	"context"
	"sync"

	"github.com/stepfall/stepfall/adapters/internal/lookup"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// recentRuns remembers the runs of which this process has recorded a step.
type recentRuns struct {
	mu   sync.Mutex
	seen map[runName]bool
}

type runName struct{ tenant, run string }

const maxRuns = 100_000

func (r *recentRuns) record(_ context.Context, t *sdk.Trace) {
	if t.Run == "" || !sdk.IsStep(t.Mode) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	lookup.MakeRoom(&r.seen, maxRuns)
	r.seen[runName{t.Tenant, t.Run}] = true
}

// isOfTenant reports whether a tenant has had a step of a run of this name.
func (r *recentRuns) isOfTenant(run string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.seen {
		if name.run == run {
			return true
		}
	}
	return false
}

// HasRun reports whether a run of the tenant in the context's Info has had a step, as far as this process
// remembers or its stores know.
func (r *Router) HasRun(ctx context.Context, run string) bool {
	tenant := middleware.InfoFrom(ctx).Tenant
	s, done, err := r.use()
	if err != nil {
		return false
	}
	defer done()
	run = s.config.Redact.Text(run) // recorded steps have the redacted name
	r.runs.mu.Lock()
	isSeen := r.runs.seen[runName{tenant, run}]
	r.runs.mu.Unlock()
	if isSeen {
		return true
	}
	for _, one := range append([]Store{r.o.Store}, s.stores...) {
		if runs, ok := one.(interface {
			HasRun(ctx context.Context, tenant, run string) bool
		}); ok && runs.HasRun(ctx, tenant, run) {
			return true
		}
	}
	return false
}

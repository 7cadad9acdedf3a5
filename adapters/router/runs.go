package router

import (
	"context"
	"slices"
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

// tenantsOf returns the tenant if it has had a step of a run of this name or, if it is "", all tenants that had one.
func (r *recentRuns) tenantsOf(tenant, run string) (tenants []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[runName{tenant, run}] {
		return []string{tenant}
	}
	if tenant == "" {
		for name := range r.seen {
			if name.run == run {
				tenants = append(tenants, name.tenant)
			}
		}
	}
	return tenants
}

// HasRun reports whether a run of the tenant in the context's Info has had a step, as far as this process
// remembers or its stores know.
func (r *Router) HasRun(ctx context.Context, run string) bool {
	s, done, err := r.use()
	if err != nil {
		return false
	}
	defer done()
	tenant := middleware.InfoFrom(ctx).Tenant
	return slices.Contains(r.tenantsOf(ctx, s, tenant, s.config.Redact.Text(run)), tenant) // recorded steps have the redacted name
}

// tenantsOf is recentRuns.tenantsOf, also for runs that only the stores know.
func (r *Router) tenantsOf(ctx context.Context, s *setup, tenant, run string) []string {
	tenants := r.runs.tenantsOf(tenant, run)
	for _, one := range append([]Store{r.o.Store}, s.stores...) {
		if runs, ok := one.(interface {
			TenantsOf(ctx context.Context, tenant, run string) []string
		}); ok && len(tenants) == 0 {
			tenants = runs.TenantsOf(ctx, tenant, run)
		}
	}
	return tenants
}

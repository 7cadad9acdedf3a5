package router

import (
	"context"
	"slices"

	"github.com/stepfall/stepfall/middleware"
)

// Ready returns what keeps requests from being answered: a store that accounts or traces are
// kept in and that does not answer. Stores say so by a method Ready of the same form.
func (r *Router) Ready(ctx context.Context) error {
	s, done := r.use()
	defer done()
	stores := s.stores
	if r.o.Store != nil {
		stores = append(slices.Clip(stores), r.o.Store)
	}
	for _, one := range stores {
		if asked, ok := one.(interface {
			Ready(ctx context.Context) error
		}); ok {
			if err := asked.Ready(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// OpenCircuits returns the names of the models, or their deployments where there are
// several, that are not asked now because they failed.
func (r *Router) OpenCircuits() []string {
	s, done := r.use()
	defer done()
	return s.model.OpenCircuits()
}

// Unsupported returns what the models' servers said in the last hour that they do not support.
func (r *Router) Unsupported() []middleware.Unsupported {
	s, done := r.use()
	defer done()
	return s.model.Unsupported()
}

// PluginHost returns the host that runs the plugins of the policy at work; nil when it
// has none, or when they are the program's own.
func (r *Router) PluginHost() PluginHost {
	s, done := r.use()
	defer done()
	return s.host
}

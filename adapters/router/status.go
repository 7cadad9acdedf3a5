package router

import (
	"context"
	"slices"

	"github.com/stepfall/stepfall/middleware"
)

// Ready returns an error if requests cannot be served because a store of accounts or traces does not respond.
// A store reports this by a method Ready of the same signature.
func (r *Router) Ready(ctx context.Context) error {
	s, done, err := r.use()
	if err != nil {
		return err
	}
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

// OpenCircuits returns the names of the models, or of their deployments if there are several, that are
// currently not called because their circuit is open.
func (r *Router) OpenCircuits() []string { return r.current().model.OpenCircuits() }

// Unsupported returns the parameters that the models' servers reported as unsupported in the last hour.
func (r *Router) Unsupported() []middleware.Unsupported { return r.current().model.Unsupported() }

// PluginHost returns the host of the current policy's plugins, or nil if it has none or if the program
// provides its own.
func (r *Router) PluginHost() PluginHost { return r.current().host }

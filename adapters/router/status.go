package router

import (
	"context"
	"slices"

	"github.com/stepfall/stepfall/middleware"
)

// Ready returns why requests cannot be answered now: the store of accounts or traces does not respond.
// A store reports this with a method Ready of the same signature.
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
// not asked at the moment because they failed.
func (r *Router) OpenCircuits() []string { return r.current().model.OpenCircuits() }

// Unsupported returns the parameters that the models' servers reported in the last hour as not
// supported.
func (r *Router) Unsupported() []middleware.Unsupported { return r.current().model.Unsupported() }

// PluginHost returns the host of the current policy's plugins; nil if it has none, or if the program
// provides its own.
func (r *Router) PluginHost() PluginHost { return r.current().host }

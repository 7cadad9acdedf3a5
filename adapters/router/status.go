package router

import "github.com/stepfall/stepfall/middleware"

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

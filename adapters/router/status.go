package router

import "github.com/stepfall/stepfall/plugins/host"

// OpenCircuits returns the names of the models, or their deployments where there are
// several, that are not asked now because they failed.
func (r *Router) OpenCircuits() []string {
	s, done := r.use()
	defer done()
	return s.model.OpenCircuits()
}

// PluginStats returns how the policy's plugins fare; nil when it has none, or when
// they are the caller's.
func (r *Router) PluginStats() []host.Stats {
	s, done := r.use()
	defer done()
	if s.stats == nil {
		return nil
	}
	return s.stats()
}

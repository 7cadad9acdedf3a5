package middleware

import "slices"

// OpenCircuits returns the names of the models, or their deployments where there are
// several, that are not asked now because they failed, in the order of the candidates.
func (m *Model) OpenCircuits() []string {
	var open []string
	targets, models := m.targets, m.c.Models
	if m.embedder != nil {
		targets, models = slices.Concat(targets, m.embedder.targets), slices.Concat(models, m.c.Embedders)
	}
	for i := range targets {
		name := models[i].Model.Name
		for _, d := range targets[i].deployments {
			if !d.breaker.open() {
				continue
			}
			if len(targets[i].deployments) > 1 {
				open = append(open, name+" ("+d.Name+")")
			} else {
				open = append(open, name)
			}
		}
	}
	return open
}

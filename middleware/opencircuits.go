package middleware

// OpenCircuits returns the names of the models, or their deployments where there are
// several, that are not asked now because they failed, in the order of the candidates.
func (m *Model) OpenCircuits() []string {
	var open []string
	for i := range m.targets {
		name := m.c.Models[i].Model.Name
		for _, d := range m.targets[i].deployments {
			if !d.breaker.open() {
				continue
			}
			if len(m.targets[i].deployments) > 1 {
				open = append(open, name+" ("+d.Name+")")
			} else {
				open = append(open, name)
			}
		}
	}
	return open
}

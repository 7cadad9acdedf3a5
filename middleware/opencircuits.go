package middleware

import (
	"slices"
	"time"
)

// Unsupported is a request parameter that a server reported its model does not support. It is not sent
// again before the time Until.
type Unsupported struct {
	// Model is the candidate, followed by its deployment if it has several.
	Model, Parameter string
	// Value is the only unsupported value, as JSON; "" means that the parameter is unsupported as a whole.
	Value string
	Until time.Time
}

// unsupportedReporter is an optional interface of models that remember what their server does not support.
type unsupportedReporter interface {
	Unsupported() []Unsupported
}

// Unsupported returns the parameters that the models' servers have reported as unsupported.
func (m *Model) Unsupported() (list []Unsupported) {
	for i := range m.targets {
		if m.targets[i].sample > 0 || m.targets[i].isLaterArm {
			continue // shares the deployments of a model that is already listed
		}
		for _, d := range m.targets[i].deployments {
			reporter, ok := d.llm.(unsupportedReporter)
			if !ok {
				continue
			}
			for _, one := range reporter.Unsupported() {
				one.Model = m.targets[i].deploymentName(m.c.Models[i].Model.Name, d)
				list = append(list, one)
			}
		}
	}
	return list
}

func (t *target) deploymentName(model string, d *deployment) string {
	if len(t.deployments) > 1 {
		return model + " (" + d.Name + ")"
	}
	return model
}

// OpenCircuits returns the names of the models, or of their deployments if there are several, that are
// currently not called because their circuit is open, in the order of the candidates.
func (m *Model) OpenCircuits() []string {
	var open []string
	targets, models := m.targets, m.c.Models
	if m.embedder != nil {
		targets, models = slices.Concat(targets, m.embedder.targets), slices.Concat(models, m.c.Embedders)
	}
	for i := range targets {
		for _, d := range targets[i].deployments {
			if d.breaker.isOpen() {
				open = append(open, targets[i].deploymentName(models[i].Model.Name, d))
			}
		}
	}
	return open
}

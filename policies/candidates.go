package policies

import (
	"cmp"
	"fmt"
)

// arms returns the model's arms as candidates, or the model itself if it has none.
func (m *Model) arms() []Model {
	m.label = m.Name
	if len(m.Arms) == 0 {
		return []Model{*m}
	}
	list := make([]Model, len(m.Arms))
	for i, arm := range m.Arms {
		list[i] = *m
		list[i].Name, list[i].arm = m.Name+"@"+arm.Name, i+1
		list[i].ExpectedOutputTokens = cmp.Or(arm.ExpectedOutputTokens, m.ExpectedOutputTokens)
		list[i].Quality.Mean = cmp.Or(arm.Quality, m.Quality.Mean)
	}
	return list
}

func (m *Model) withSamples() []Model {
	list := []Model{*m}
	for k := 2; k <= m.Samples; k++ {
		again := *m
		again.Name, again.sample = fmt.Sprintf("%s#%d", m.Name, k), k
		// A further sample is requested if the model's earlier answer failed, so its expected quality is lower; a
		// profile knows by how much.
		again.Quality.Mean /= float64(k)
		list = append(list, again)
	}
	return list
}

func (p *Policy) expandedModels() (models []Model) {
	for i := range p.Models {
		for _, m := range p.Models[i].arms() {
			models = append(models, m.withSamples()...)
		}
	}
	return models
}

// expandCandidates replaces each model, wherever it is named, by its candidates, one for every arm and further
// sample: NAME@ARM, NAME#2 and so on.
func (p *Policy) expandCandidates() {
	named, baseline := map[string][]string{}, p.Baseline
	for i := range p.Models {
		label := p.Models[i].Name
		for _, m := range p.Models[i].arms() {
			own := modelNames(&Policy{Models: m.withSamples()})
			if m.Name != label {
				named[m.Name] = own
			}
			named[label] = append(named[label], own...)
			if baseline == label {
				p.Baseline = m.Name
			}
		}
	}
	p.Models = p.expandedModels()
	expand := func(names *[]string) {
		if *names == nil {
			return
		}
		var all []string
		for _, name := range *names {
			all = append(all, named[name]...)
		}
		*names = all
	}
	for i := range p.Estimators {
		expand(&p.Estimators[i].Models)
	}
	for i := range p.Verifiers {
		expand(&p.Verifiers[i].Models)
	}
	expand(&p.Strategy.Order)
	for i := range p.Matches {
		expand(&p.Matches[i].Models)
		if s := p.Matches[i].Strategy; s != nil {
			expand(&s.Order)
		}
	}
}

// candidateNames returns the names that a policy can refer to: those of models and of arms.
func (p *Policy) candidateNames() []string {
	names := modelNames(p)
	for i := range p.Models {
		if m := &p.Models[i]; len(m.Arms) > 0 {
			for _, arm := range m.arms() {
				names = append(names, arm.Name)
			}
		}
	}
	return names
}

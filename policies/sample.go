package policies

import "fmt"

// expandSamples makes a candidate of every further answer that a model may be asked
// for: NAME#2 and so on, right behind NAME, wherever that is named.
func (p *Policy) expandSamples() {
	further := map[string][]string{}
	var models []Model
	for _, m := range p.Models {
		models = append(models, m)
		for k := 2; k <= m.Samples; k++ {
			again := m
			again.Name, again.sample = fmt.Sprintf("%s#%d", m.Name, k), k
			// Of an answer that comes after others that were not good enough less is
			// hoped for; a profile knows how much.
			again.Quality.Mean /= float64(k)
			further[m.Name] = append(further[m.Name], again.Name)
			models = append(models, again)
		}
	}
	if len(further) == 0 {
		return
	}
	expand := func(names *[]string) {
		if *names == nil {
			return
		}
		var all []string
		for _, name := range *names {
			all = append(append(all, name), further[name]...)
		}
		*names = all
	}
	p.Models = models
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

// candidates is how many answers can be asked for.
func (p *Policy) candidates() int {
	n := 0
	for i := range p.Models {
		n += max(1, p.Models[i].Samples)
	}
	return n
}

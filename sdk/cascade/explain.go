package cascade

import (
	"cmp"
	"math"
	"slices"
)

// Explainer is a strategy that can explain its decisions. Every strategy of this
// package is one. Explain allocates, and takes many times as long as Decide.
type Explainer interface {
	Strategy
	Explain(s *State) Explanation
}

// Explanation is a decision and its basis.
type Explanation struct {
	Decision Decision
	// Lambda is the price of cost in quality at this depth; Threshold is what the
	// threshold strategy compares the last post-hoc estimate with.
	Lambda    float64
	Threshold float64
	// Alternatives are ranked, best first. For index they are single models ranked
	// by Reservation, for the others supermodels ranked by Tau. Those of
	// cascade_route are the chosen supermodel, stopping, each model on its own and
	// the chosen supermodel with one model more or less: neighbours, not all.
	Alternatives []alternative
	// Options has one entry for each model that could be run now.
	Options []Option
}

// alternative is a supermodel that was or could have been chosen.
type alternative struct {
	// Models are the models of the supermodel, those that have run first.
	Models []int
	// ExpectedMax is the expected quality of its best answer, -Inf for none.
	ExpectedMax float64
	// Cost is the predicted cost of its models that have not run.
	Cost float64
	// Tau is ExpectedMax less lambda times Cost.
	Tau float64
	// Reservation is the reservation value of the model; index only.
	Reservation float64
}

// Option is a model that could be run now.
type Option struct {
	Model int
	// Price is lambda times the cost.
	Price float64
	// Gain is what the model adds to the E[max] of the chosen supermodel or, if
	// Chosen, what the supermodel would lose without it.
	Gain   float64
	Chosen bool
	// Pruned says that no optimal supermodel contains the model, which was proved
	// without a search.
	Pruned bool
}

// maxAlternatives is the maximum number of alternatives in an explanation.
const maxAlternatives = 16

// weigh returns the alternative that adds the models to what has run.
func (c *common) weigh(s *State, lambda float64, added []int) alternative {
	_, floor := s.best()
	a := alternative{Models: slices.Concat(s.Ran, added)}
	var ls laws
	for _, i := range added {
		ls = append(ls, s.Beliefs[i].law(c.params.Scale))
		a.Cost += s.Costs[i]
	}
	a.ExpectedMax = ls.expectedMax(floor)
	a.Tau = a.ExpectedMax - price(lambda, a.Cost)
	return a
}

func byTau(a, b alternative) int {
	return cmp.Or(cmp.Compare(b.Tau, a.Tau), cmp.Compare(a.Cost, b.Cost))
}

// Explain implements [Explainer]: the alternatives are the single models.
func (r *Route) Explain(s *State) Explanation {
	e := Explanation{Decision: r.Decide(s), Lambda: r.lambda(0)}
	for i, b := range s.Beliefs {
		if len(s.Ran) > 0 || !s.open(i) {
			continue
		}
		p := price(e.Lambda, s.Costs[i])
		e.Alternatives = append(e.Alternatives, alternative{Models: []int{i}, ExpectedMax: b.Mean, Cost: s.Costs[i], Tau: b.Mean - p})
		e.Options = append(e.Options, Option{Model: i, Price: p, Gain: b.Mean, Chosen: i == e.Decision.Run})
	}
	return e.sortBy(byTau)
}

// Explain implements [Explainer]: there is only the threshold to show.
func (t *Threshold) Explain(s *State) Explanation {
	e := Explanation{Decision: t.Decide(s)}
	if len(s.Ran) > 0 {
		e.Threshold = at(t.params.Thresholds, len(s.Ran)-1)
	}
	return e
}

// Explain implements [Explainer]: the alternatives are stopping and each number of
// further models.
func (c *Cascade) Explain(s *State) Explanation {
	e := Explanation{Decision: c.Decide(s), Lambda: c.lambda(len(s.Ran))}
	if len(s.Ran) > 0 {
		e.Alternatives = append(e.Alternatives, c.value(s, e.Lambda, nil))
	}
	c.continuations(s, func(added []int) {
		last := len(added) - 1
		i, before := added[last], c.value(s, e.Lambda, added[:last]).ExpectedMax
		a := c.value(s, e.Lambda, added)
		e.Alternatives = append(e.Alternatives, a)
		e.Options = append(e.Options, Option{Model: i, Price: price(e.Lambda, s.Costs[i]), Gain: a.ExpectedMax - before, Chosen: i == e.Decision.Run})
	})
	return e.sortBy(byTau)
}

// value returns the alternative that adds the models, valued by the answer rule.
func (c *Cascade) value(s *State, lambda float64, added []int) alternative {
	a := c.weigh(s, lambda, added)
	if c.params.Answer == Last && len(a.Models) > 0 {
		a.ExpectedMax = s.Beliefs[a.Models[len(a.Models)-1]].Mean
		a.Tau = a.ExpectedMax - price(lambda, a.Cost)
	}
	return a
}

// Explain implements [Explainer].
func (r *CascadeRoute) Explain(s *State) Explanation {
	e := Explanation{Decision: r.Decide(s), Lambda: r.lambda(len(s.Ran))}
	_, floor := s.best()
	if r.DepthReached(s) {
		return e
	}
	q := newSearch()
	q.choose(r, s, floor)
	var chosen []int
	for _, k := range q.best {
		chosen = append(chosen, q.items[k].model)
	}
	slices.SortFunc(chosen, func(i, j int) int { return cmp.Or(cmp.Compare(s.Costs[i], s.Costs[j]), cmp.Compare(i, j)) })
	left := make([]bool, len(s.Beliefs))
	for k := range q.items {
		left[q.items[k].model] = true
	}
	q.collect(r, s)
	best := r.weigh(s, e.Lambda, chosen)
	sets := [][]int{chosen}
	if len(s.Ran) > 0 && len(chosen) > 0 {
		sets = append(sets, nil)
	}
	for k := range q.items {
		i := q.items[k].model
		o := Option{Model: i, Price: q.items[k].price, Chosen: slices.Contains(chosen, i), Pruned: !left[i]}
		other := slices.DeleteFunc(slices.Clone(chosen), func(j int) bool { return j == i })
		if !o.Chosen {
			other = append(other, i)
		}
		o.Gain = math.Abs(r.weigh(s, e.Lambda, other).ExpectedMax - best.ExpectedMax)
		e.Options = append(e.Options, o)
		if len(chosen) != 1 || !o.Chosen {
			sets = append(sets, []int{i})
		}
		if len(other) > 1 && len(other) <= r.room(s) {
			sets = append(sets, other)
		}
	}
	for _, set := range sets {
		e.Alternatives = append(e.Alternatives, r.weigh(s, e.Lambda, set))
	}
	return e.sortBy(byTau)
}

// Explain implements [Explainer]: the alternatives are the single models with
// their reservation values.
func (x *Index) Explain(s *State) Explanation {
	e := Explanation{Decision: x.Decide(s), Lambda: x.lambda(len(s.Ran))}
	_, floor := s.best()
	for i := range s.Beliefs {
		if !s.open(i) || x.DepthReached(s) {
			continue
		}
		a := x.weigh(s, e.Lambda, []int{i})
		var l law
		l, a.Reservation = x.box(s.Beliefs[i], s.Costs[i], e.Lambda)
		e.Alternatives = append(e.Alternatives, a)
		gain := l.mean
		if len(s.Ran) > 0 {
			gain = l.excess(floor)
		}
		e.Options = append(e.Options, Option{Model: i, Price: price(e.Lambda, s.Costs[i]), Gain: gain, Chosen: i == e.Decision.Run})
	}
	return e.sortBy(func(a, b alternative) int {
		return cmp.Or(cmp.Compare(b.Reservation, a.Reservation), cmp.Compare(a.Cost, b.Cost))
	})
}

func (e Explanation) sortBy(order func(a, b alternative) int) Explanation {
	slices.SortStableFunc(e.Alternatives, order)
	e.Alternatives = e.Alternatives[:min(len(e.Alternatives), maxAlternatives)]
	return e
}

package cascade

import (
	"math"
)

// searchRule says how CascadeRoute looks for the best supermodel.
type searchRule int

// The search rules.
const (
	// exactSearch finds the best supermodel by branch and bound.
	exactSearch searchRule = iota
	// slowSearch evaluates every supermodel within the depth limit: the same decisions
	// as exactSearch in exponential time, for comparison.
	slowSearch
	// greedySearch considers single further models only.
	greedySearch
)

// defaultNodeLimit replaces a NodeLimit of 0.
const defaultNodeLimit = 50000

// CascadeRoute chooses at each turn, among all supermodels that contain what has
// run, the one with the greatest
//
//	tau(S) = E[max over S] - lambda·(cost of what has not run),
//
// and runs its cheapest model, or stops if there is nothing to add. It is the
// paper's theorem 3 and algorithm 3: routing and cascading in one.
type CascadeRoute struct {
	common
	search     searchRule
	relaxFrom  int
	relaxAfter int
}

// newCascadeRoute returns a CascadeRoute; it reads Lambdas, Gamma, MaxDepth,
// Scale, NoExpect, Order and NodeLimit.
func newCascadeRoute(p Params, search searchRule) (*CascadeRoute, error) {
	name := [...]string{exactSearch: NameCascadeRoute, slowSearch: NameCascadeRouteSlow, greedySearch: NameCascadeRouteGreedy}[search]
	if search == exactSearch && p.NoExpect {
		name = NameCascadeRouteNoExpect
	}
	c, err := newCommon(name, p)
	switch {
	case p.NodeLimit == 0:
		c.params.NodeLimit = defaultNodeLimit
	case p.NodeLimit < 0:
		c.params.NodeLimit = math.MaxInt
	}
	return &CascadeRoute{common: c, search: search, relaxFrom: relaxFrom, relaxAfter: relaxAfter}, err
}

// Tune implements [Tunable].
func (r *CascadeRoute) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *r
	return wrap(&t, t.tune(lambdas, gamma))
}

// Decide implements [Strategy].
func (r *CascadeRoute) Decide(s *State) Decision { return r.decide(s, nil) }

// Plan is Decide that also appends to plan the models of the chosen supermodel that have not run. A
// supermodel that is chosen at two lambdas is chosen at every lambda between them, since its value is
// linear in lambda.
func (r *CascadeRoute) Plan(s *State, plan []int) (Decision, []int) {
	d := r.decide(s, &plan)
	return d, plan
}

func (r *CascadeRoute) decide(s *State, plan *[]int) Decision {
	s.check()
	answer, floor := s.best()
	d := Decision{Run: Stop, Answer: answer}
	if r.DepthReached(s) {
		return d
	}
	q := searches.Get().(*search)
	defer searches.Put(q)
	d.Run, d.Approximate = q.choose(r, s, floor)
	if plan != nil && d.Run != Stop {
		for _, k := range q.best {
			*plan = append(*plan, q.items[k].model)
		}
	}
	return d
}

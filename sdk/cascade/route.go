package cascade

// Route runs exactly one model: the one with the highest Mean - lambda·cost.
//
// It is the optimal way to choose one model per query under an expected budget
// (the paper's theorem 1): for every budget there are a lambda and a gamma for
// which mixing the cheapest and the most expensive maximiser spends it exactly.
type Route struct{ common }

// newRoute returns a Route; it reads Lambdas (the first) and Gamma.
func newRoute(p Params) (*Route, error) {
	c, err := newCommon(NameRoute, p)
	return &Route{c}, err
}

// Tune implements [Tunable].
func (r *Route) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *r
	return wrap(&t, t.tune(lambdas, gamma))
}

// Decide implements [Strategy].
func (r *Route) Decide(s *State) Decision {
	s.check()
	if len(s.Ran) > 0 {
		return Decision{Run: Stop, Answer: s.answer(Best)}
	}
	lambda, cheap := r.lambda(0), r.cheap(s)
	run, top := Stop, s.bestNet(lambda)
	for i, b := range s.Beliefs {
		if !s.open(i) || b.Mean-price(lambda, s.Costs[i]) < top-tieTolerance {
			continue
		}
		if run == Stop || isPreferred(cheap, s.Costs[i], s.Costs[run]) {
			run = i
		}
	}
	return Decision{Run: run, Answer: None}
}

// bestNet returns the greatest mean less lambda·cost of the models that can run.
func (s *State) bestNet(lambda float64) float64 {
	top := negInf
	for i := range s.Beliefs {
		if s.open(i) {
			top = max(top, s.Beliefs[i].Mean-price(lambda, s.Costs[i]))
		}
	}
	return top
}

// isPreferred reports whether cost wins over than among ties: the lower one if cheap, else the higher.
func isPreferred(cheap bool, cost, than float64) bool {
	if cheap {
		return cost < than
	}
	return cost > than
}

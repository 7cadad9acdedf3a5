package cascade

import (
	"math"
	"sort"
)

// Index runs the model with the highest reservation value while that exceeds the
// best post-hoc estimate. The reservation value r of a model is the certain quality
// that is worth as much as the option to run it:
//
//	E[(X - r)^+] = lambda·cost.
//
// Weitzman (1979, "Optimal search for the best alternative") proved the rule
// optimal among all adaptive policies if the X are independent. It needs no search,
// unlike CascadeRoute, which plans a set and ignores that it can stop half way.
type Index struct {
	common
	curve *curve
}

// newIndex returns an Index; it reads Lambdas, Gamma, MaxDepth, Scale and
// NoExpect.
func newIndex(p Params) (*Index, error) {
	c, err := newCommon(NameIndex, p)
	return &Index{c, sharedCurve()}, err
}

// Tune implements [Tunable].
func (x *Index) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *x
	return wrap(&t, t.tune(lambdas, gamma))
}

// Decide implements [Strategy].
func (x *Index) Decide(s *State) Decision {
	s.check()
	answer, v := s.best()
	lambda := x.lambda(len(s.Ran))
	run, top := Stop, negInf
	if !x.DepthReached(s) {
		run, top = x.highest(s, lambda, v)
	}
	if answer == None {
		return Decision{Run: run, Answer: answer}
	}
	if look := x.look(s, lambda, answer); look != None {
		return Decision{Run: look, Answer: answer, Look: true}
	}
	if top < v-tieTolerance || top <= v+tieTolerance && x.cheap(s) {
		run = Stop
	}
	return Decision{Run: run, Answer: answer}
}

// highest returns the model with the highest reservation value, given the best answer's estimate.
func (x *Index) highest(s *State, lambda, v float64) (run int, top float64) {
	// A reservation value is at least the mean less the price, so the greatest of
	// these bounds the greatest reservation value from below. That rules out most
	// models without computing theirs.
	least := max(v, s.bestNet(lambda)) - tieTolerance
	run, top = Stop, negInf
	cost, cheap := 0.0, x.cheap(s)
	for i := range s.Beliefs {
		if !s.open(i) || s.cannotImprove(i, v) {
			continue
		}
		p := price(lambda, s.Costs[i])
		l := s.Beliefs[i].law(x.params.Scale)
		var r float64
		switch {
		case s.Beliefs[i].Look.isOffered():
			_, r = x.box(s.Beliefs[i], s.Costs[i], lambda)
		case x.curve.below(&l, least, p):
			continue
		default:
			r = x.curve.reservation(&l, p)
		}
		switch {
		case run == Stop, r > top+tieTolerance, r >= top-tieTolerance && isPreferred(cheap, s.Costs[i], cost):
			run, top, cost = i, max(r, top), s.Costs[i]
		}
		least = max(least, r-tieTolerance)
	}
	return run, top
}

// below reports whether the reservation value of a law at a price is certainly
// below t, since E[(X - t)^+] is below the price.
func (c *curve) below(l *law, t, price float64) bool {
	if l.dev == 0 {
		return l.excess(t) < price
	}
	return max(l.mean-t, 0)+0.4*l.dev < price || l.dev*(c.excess((l.mean-t)/l.dev)+3e-9) < price
}

// ReservationValue returns the r for which E[(X - r)^+] = price: the certain quality
// that is worth as much as the option to run the model at that price. It decreases
// in the price and is at least Mean - price. At the price 0 it is the highest
// possible value, which is +Inf for a normal. For a negative price or an invalid
// belief it is NaN.
func ReservationValue(b Belief, price float64) float64 {
	if !(price >= 0) || b.validate() != nil {
		return math.NaN()
	}
	l := b.law(1)
	return sharedCurve().reservation(&l, price)
}

// reservation is ReservationValue for a law.
func (c *curve) reservation(l *law, price float64) float64 {
	switch {
	case l.isTwoPoint:
		if r := l.hi - price/l.p; r >= l.lo {
			return r
		}
		return l.mean - price
	case l.dev == 0:
		return l.mean - price
	case price == 0:
		return math.Inf(1)
	}
	return l.mean - l.dev*c.inverseExcess(price/l.dev)
}

// inverseExcess returns the z for which E[(Z + z)^+] = y > 0, by two steps of
// Halley's method from the curve.
func (c *curve) inverseExcess(y float64) float64 {
	switch {
	case y > 8:
		return y // the difference is below 1e-16
	case y < 1e-5:
		return inverseExcessTail(y)
	}
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].excess > y }) - 1
	z := float64(i)/curveSteps - curveEnd
	z += (y - c.points[i].excess) / c.points[i].cdf
	for range 2 {
		pdf, cdf := normalPDF(z), normalCDF(z)
		step := (pdf + z*cdf - y) / cdf
		step /= 1 - 0.5*step*pdf/cdf
		z -= step
	}
	return z
}

// inverseExcessTail is inverseExcess in the far tail, by Newton's method on the
// logarithm: that is concave and increasing, so any starting point converges.
func inverseExcessTail(y float64) float64 {
	z := y - 0.4/(1+y)
	if y < 0.2 {
		z = -math.Sqrt(-2 * math.Log(y))
	}
	for range 60 {
		f := normalExcess(z)
		if f == 0 {
			z *= 0.9
			continue
		}
		step := f * math.Log(f/y) / normalCDF(z)
		z -= step
		if math.Abs(step) <= 1e-14*(1+math.Abs(z)) {
			break
		}
	}
	return z
}

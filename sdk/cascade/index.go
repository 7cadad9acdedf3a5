package cascade

import "math"

// Index runs the model with the highest reservation value while that exceeds the
// best post-hoc estimate. The reservation value r of a model is the sure quality
// that is worth as much as having the chance to run it:
//
//	E[(X - r)^+] = lambda·cost.
//
// Weitzman (1979, "Optimal search for the best alternative") proved the rule
// optimal among all adaptive policies when the X are independent. Unlike
// CascadeRoute, which plans a set and ignores that it may stop half way, it needs
// no search.
type Index struct{ common }

// NewIndex returns an Index; it reads Lambdas, Gamma, MaxDepth, Scale and
// NoExpect.
func NewIndex(p Params) (*Index, error) {
	c, err := newCommon(p)
	if err != nil {
		return nil, err
	}
	return &Index{c}, nil
}

// Tune implements [Tunable].
func (x *Index) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	c, err := x.tuned(lambdas, gamma)
	if err != nil {
		return nil, err
	}
	return &Index{c}, nil
}

// Decide implements [Strategy].
func (x *Index) Decide(s *State) Decision {
	s.check()
	answer, v := s.best()
	d := Decision{Run: Stop, Answer: answer}
	if x.spent(s) {
		return d
	}
	lambda, cheap := x.lambda(len(s.Ran)), x.cheap(s)
	top, cost := negInf, 0.0
	for i := range s.Beliefs {
		if !s.open(i) {
			continue
		}
		l := s.Beliefs[i].law(x.scale)
		r := l.reservation(price(lambda, s.Costs[i]))
		switch {
		case d.Run == Stop || r > top+tieTolerance:
			d.Run, top, cost = i, r, s.Costs[i]
		case r >= top-tieTolerance && preferred(cheap, s.Costs[i], cost):
			d.Run, top, cost = i, max(r, top), s.Costs[i]
		}
	}
	if d.Run == Stop || answer == None {
		return d
	}
	if top < v-tieTolerance || top <= v+tieTolerance && cheap {
		d.Run = Stop
	}
	return d
}

// ReservationValue returns the r for which E[(X - r)^+] = price: the sure quality
// that is worth as much as the chance to run the model and pay the price for it.
// It decreases in the price, lies above Mean - price, and is the highest possible
// value, +Inf for a normal, at the price 0. A price below 0 or a belief that is not
// a number gives NaN.
func ReservationValue(b Belief, price float64) float64 {
	if !(price >= 0) || b.validate() != nil {
		return math.NaN()
	}
	l := b.law(1)
	return l.reservation(price)
}

func (l *law) reservation(price float64) float64 {
	switch {
	case l.two:
		if r := l.hi - price/l.p; r >= l.lo {
			return r
		}
		return l.mean - price
	case l.dev == 0:
		return l.mean - price
	case price == 0:
		return math.Inf(1)
	}
	return l.mean - l.dev*inverseExcess(price/l.dev)
}

// inverseExcess returns the z for which normalExcess(z) = y > 0, by Newton's
// method on the logarithm, where the function is concave and increasing.
func inverseExcess(y float64) float64 {
	if y > 30 {
		return y
	}
	z := y - 0.4/(1+y)
	if y < 0.2 {
		z = -math.Sqrt(-2 * math.Log(y))
	}
	for range 60 {
		f := normalExcess(z)
		step := (f - y) / normalCDF(z)
		if f < y || f > 2*y {
			step = f * math.Log(f/y) / normalCDF(z)
		}
		z -= step
		if math.Abs(step) <= 1e-14*(1+math.Abs(z)) {
			break
		}
	}
	return z
}

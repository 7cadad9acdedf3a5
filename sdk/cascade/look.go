package cascade

import "math"

// A Look is something more that can be bought about an answer, such as the score of a
// judge. The zero Look is none.
//
// [Index] buys it where that is expected to gain more than its price. The other
// strategies buy nothing.
type Look struct {
	// StdDev is the standard deviation of the change that the look makes in the estimate
	// of the answer. Of a model that has not run it comes on top of Belief.StdDev.
	StdDev float64
	// CostUSD is what it costs, in the unit of State.Costs.
	CostUSD float64
}

// Mark returns how what d asks for is called in a list of what a step has seen so far, of n
// models: model m's run is m, and the k-th look at its answer n·k + m.
func (d Decision) Mark(seen []int, n int) int {
	if !d.Look {
		return d.Run
	}
	mark := d.Run
	for _, m := range seen {
		if m%n == d.Run {
			mark += n
		}
	}
	return mark
}

// isOffered reports whether there is something to buy.
func (l *Look) isOffered() bool { return l.StdDev > 0 }

// box returns the law of a model that has not run, and its reservation value: with the
// look if that is worth its price when it is bought at once, else without.
func (x *Index) box(s *State, i int, lambda float64) (law, float64) {
	b := &s.Beliefs[i]
	plain := b.law(x.scale)
	r := x.curve.reservation(&plain, price(lambda, s.Costs[i]))
	if !b.Look.isOffered() || b.Unseen || b.Bernoulli {
		return plain, r
	}
	looked := plain
	looked.dev = math.Hypot(plain.dev, x.scale*b.Look.StdDev)
	if with := x.curve.reservation(&looked, price(lambda, s.Costs[i]+b.Look.CostUSD)); with > r {
		return looked, with
	}
	return plain, r
}

// look returns the model that has run of whose answer a look gains most beyond its
// price, None where none does.
//
// What a state is worth where the best answer is estimated at v and the boxes of models
// that have not run are closed is, under Weitzman's rule, the expected maximum of v and
// the min(X_i, r_i) of the boxes. That grows with v at the rate
//
//	C(v) = P(min(X_i, r_i) <= v for all i),
//
// so that replacing an estimate μ by one distributed as X around it, beside another
// answer at w, gains
//
//	integral from w to Inf of C(t)·(P(X > t) - [t < μ]) dt:
//
// nothing where nothing else could be answered or run, and most where the estimate lies
// near what else there is. It is what one look gains if none follows.
func (x *Index) look(s *State, lambda float64) int {
	best, most := None, tieTolerance
	var closed []box
	for n, i := range s.Ran {
		look := s.Beliefs[i].Look
		dev := x.scale * look.StdDev
		p := price(lambda, look.CostUSD)
		// The gain is at most half the mean distance of X from its mean.
		if !look.isOffered() || dev*invSqrt2Pi <= p+most {
			continue
		}
		if closed == nil {
			closed = x.closedBoxes(s, lambda)
		}
		beside := negInf
		for m, j := range s.Ran {
			if m != n {
				beside = max(beside, s.Beliefs[j].Mean)
			}
		}
		if gain := x.lookGain(s.Beliefs[i].Mean, dev, beside, closed) - p; gain > most {
			best, most = i, gain
		}
	}
	return best
}

// box is a model that has not run: what its estimate will be, and its reservation value.
type box struct {
	law         law
	reservation float64
}

// closedBoxes returns the boxes of the models that may still be run.
func (x *Index) closedBoxes(s *State, lambda float64) []box {
	list := []box{}
	if x.DepthReached(s) {
		return list
	}
	for i := range s.Beliefs {
		if s.open(i) {
			l, r := x.box(s, i, lambda)
			list = append(list, box{l, r})
		}
	}
	return list
}

// lookReach is how many deviations a look may move an estimate.
const lookReach = 4.5

// lookGain returns what replacing an estimate by one that is normal around it gains.
func (x *Index) lookGain(mean, dev, beside float64, closed []box) float64 {
	lo, hi := max(mean-lookReach*dev, beside), mean+lookReach*dev
	gain := 0.0
	for a := lo; a < hi; {
		// No part goes over a point where something jumps.
		b := min(hi, a+dev)
		cut := func(at float64) {
			if at > a && at < b {
				b = at
			}
		}
		cut(mean)
		for k := range closed {
			cut(closed[k].reservation)
			if l := &closed[k].law; l.two {
				cut(l.lo)
				cut(l.hi)
			} else if l.dev == 0 {
				cut(l.mean)
			}
		}
		c, h := 0.5*(a+b), 0.5*(b-a)
		for _, g := range gauss12 {
			for _, t := range [...]float64{c - h*g.x, c + h*g.x} {
				f := x.curve.upper((t - mean) / dev)
				if t < mean {
					f--
				}
				for k := range closed {
					if t < closed[k].reservation {
						f *= 1 - x.curve.upperAt(&closed[k].law, t)
					}
				}
				gain += h * g.w * f
			}
		}
		a = b
	}
	return gain
}

package cascade

import (
	"fmt"
	"math"
)

// A Look is additional information about an answer that can be bought, such as the score of a judge.
// The zero Look is none.
//
// [Index] buys it if that is expected to gain more than its price. The other strategies buy nothing.
type Look struct {
	// StdDev is the standard deviation of the change that the look makes in the estimate of the answer;
	// for a model that has not run, in addition to Belief.StdDev.
	StdDev float64
	// CostUSD is its price, in the unit of State.Costs.
	CostUSD float64
	// Bernoulli says that the look is a verdict, and Judge holds its error rates: the estimate becomes one
	// of two, by [Rates.Look]. StdDev is not used then, unless something besides the look tells about the
	// answer.
	Bernoulli bool
	Judge     Rates
}

// LookOf returns a look: a verdict if judge, its error rates, is not nil.
func LookOf(stdDev, costUSD float64, judge *Rates) Look {
	l := Look{StdDev: stdDev, CostUSD: costUSD}
	if judge != nil {
		l.Bernoulli, l.Judge = true, *judge
	}
	return l
}

// law returns the distribution of an estimate after the look, before which it is mean.
func (l *Look) law(mean, scale float64) law {
	if l.Bernoulli {
		b := Belief{Mean: min(max(mean, 0), 1), Judge: l.Judge}
		return b.judgedLaw(scale)
	}
	return law{mean: mean, dev: scale * l.StdDev}
}

func (l *Look) validate() error {
	if !(l.StdDev >= 0 && finite(l.StdDev) && l.CostUSD >= 0 && finite(l.CostUSD)) {
		return fmt.Errorf("a look of deviation %v for %v", l.StdDev, l.CostUSD)
	}
	return l.Judge.Validate()
}

// Buys reports whether s decides which looks are worth their price.
func Buys(s Strategy) bool { return Describe(s).Name == NameIndex }

// Mark returns the number of what d asks for in a list of what a step has seen so far, of n models: m
// for the run of model m, and n·k + m for the k-th look at its answer.
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
func (l *Look) isOffered() bool { return l.StdDev > 0 || l.Bernoulli }

// box returns the law of a model that has not run, and its reservation value: with the
// look if that is worth its price when it is bought at once, else without.
func (x *Index) box(s *State, i int, lambda float64) (law, float64) {
	b := s.Beliefs[i]
	b.Bernoulli = b.Bernoulli && !b.Look.Bernoulli
	plain := b.law(x.scale)
	r := x.curve.reservation(&plain, price(lambda, s.Costs[i]))
	if !b.Look.isOffered() || b.Unseen || b.Bernoulli {
		return plain, r
	}
	looked := b.Look.law(b.Mean, x.scale*(1-b.Shared))
	if plain.dev > 0 {
		looked = law{mean: b.Mean, dev: math.Hypot(plain.dev, x.scale*b.Look.StdDev)}
	}
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
		look := &s.Beliefs[i].Look
		p := price(lambda, look.CostUSD)
		if !look.isOffered() {
			continue
		}
		after := look.law(s.Beliefs[i].Mean, x.scale)
		// The gain is at most half the mean distance of X from its mean.
		if after.excess(after.mean) <= p+most {
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
		if gain := x.lookGain(&after, beside, closed) - p; gain > most {
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

// lookGain returns what replacing an estimate by one that is distributed around it gains.
func (x *Index) lookGain(after *law, beside float64, closed []box) float64 {
	mean, width := after.mean, after.dev
	lo, hi := mean-lookReach*width, mean+lookReach*width
	if after.two {
		lo, hi, width = after.lo, after.hi, (after.hi-after.lo)/4
	}
	gain := 0.0
	for a := max(lo, beside); a < hi; {
		// No part goes over a point where something jumps.
		b := min(hi, a+width)
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
				f := x.curve.upperAt(after, t)
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

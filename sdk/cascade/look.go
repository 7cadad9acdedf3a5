package cascade

import (
	"fmt"
	"math"
)

// A Look is additional information about an answer that can be bought, such as the score of a judge.
// The zero Look means that there is none.
//
// [Index] buys it if that is expected to gain more than its price. The other strategies buy nothing.
type Look struct {
	// StdDev is the standard deviation of the change that the look makes to the estimate of the answer;
	// for a model that has not run, in addition to Belief.StdDev.
	StdDev float64
	// CostUSD is its price, in the unit of State.Costs.
	CostUSD float64
	// Bernoulli says that the look is a verdict, and Judge holds its error rates: the estimate becomes one
	// of two values, by [Rates.Look]. StdDev is then ignored unless running the model reveals more than
	// the verdict.
	Bernoulli bool
	Judge     Rates
}

// LookOf returns a look, which is a verdict if judge is not nil.
func LookOf(stdDev, costUSD float64, judge *Rates) Look {
	l := Look{StdDev: stdDev, CostUSD: costUSD}
	if judge != nil {
		l.Bernoulli, l.Judge = true, *judge
	}
	return l
}

// law returns the distribution of an estimate after the look, given that it is mean before.
func (l *Look) law(mean, scale float64) law {
	if l.Bernoulli {
		b := Belief{Mean: min(max(mean, 0), 1), Judge: l.Judge}
		return b.judgedLaw(scale)
	}
	return law{mean: mean, dev: scale * l.StdDev}
}

func (l *Look) validate() error {
	if !isAmount(l.StdDev) || !isAmount(l.CostUSD) {
		return fmt.Errorf("a look of deviation %v for %v", l.StdDev, l.CostUSD)
	}
	return l.Judge.Validate()
}

// Buys reports whether s decides which looks to buy.
func Buys(s Strategy) bool { return Describe(s).Name == NameIndex }

// Mark encodes d as a number for the list of what a step has seen, given that list so far and the number
// n of models: m is the run of model m, and n·k + m the k-th look at its answer.
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

func (l *Look) isOffered() bool { return l.StdDev > 0 || l.Bernoulli }

// box returns the law and the reservation value of a model that has not run: with its look
// if buying that at once raises the reservation value, else without.
func (x *Index) box(b Belief, cost, lambda float64) (law, float64) {
	b.Bernoulli = b.Bernoulli && !b.Look.Bernoulli
	plain := b.law(x.params.Scale)
	r := x.curve.reservation(&plain, price(lambda, cost))
	if !b.Look.isOffered() || b.Unseen || b.Bernoulli {
		return plain, r
	}
	looked := b.Look.law(b.Mean, x.params.Scale*(1-b.Shared))
	if plain.dev > 0 {
		looked = law{mean: b.Mean, dev: math.Hypot(plain.dev, x.params.Scale*b.Look.StdDev)}
	}
	if with := x.curve.reservation(&looked, price(lambda, cost+b.Look.CostUSD)); with > r {
		return looked, with
	}
	return plain, r
}

// look returns the model that has run for whose answer a look gains most beyond its
// price, or None if no look is worth its price; answer is the best answer so far.
//
// Call a model that has not run a closed box. Under Weitzman's rule, a state whose best
// answer is estimated at v is worth the expected maximum of v and of min(X_i, r_i) over
// the closed boxes i. That grows with v at the rate
//
//	C(v) = P(min(X_i, r_i) <= v for all i),
//
// so replacing an estimate μ by one distributed as X around it, while another answer is
// estimated at w, gains
//
//	integral from w to Inf of C(t)·(P(X > t) - [t < μ]) dt.
//
// That is 0 if there is no other answer or model, and greatest if the estimate is close to
// the alternatives. It is the gain of one look if no other follows.
//
// A verdict on the best answer b is also evidence about the closed boxes, since failures
// are correlated: if it changes the mean of b, it changes that of model i by
// Cov(b, i) / Var(b) times as much.
func (x *Index) look(s *State, lambda float64, answer int) int {
	best, most := None, tieTolerance
	var closed []box
	for n, i := range s.Ran {
		look := &s.Beliefs[i].Look
		p := price(lambda, look.CostUSD)
		if !look.isOffered() {
			continue
		}
		isBest := look.Bernoulli && i == answer
		after, bound := x.lookLaw(look, s.Beliefs[i].Mean, isBest)
		if bound <= p+most {
			continue
		}
		if closed == nil {
			closed = x.closedBoxes(s, lambda, 0)
		}
		beside := s.bestOther(n)
		var gain float64
		if isBest {
			change := func(to float64) float64 { return (to - after.mean) / (after.mean * (1 - after.mean)) }
			passed, failed := x.closedBoxes(s, lambda, change(after.hi)), x.closedBoxes(s, lambda, change(after.lo))
			gain = x.verdictGain(&after, beside, closed, passed, failed) - p
		} else {
			gain = x.lookGain(&after, beside, closed) - p
		}
		if gain > most {
			best, most = i, gain
		}
	}
	return best
}

// lookLaw returns the distribution of the estimate of an answer after a look at it, and an upper bound on
// the gain.
func (x *Index) lookLaw(look *Look, mean float64, isBest bool) (after law, bound float64) {
	if !isBest {
		after = look.law(mean, x.params.Scale)
		return after, after.excess(after.mean) // half the mean distance of X from its mean
	}
	scale := x.params.Scale
	if scale > 0 {
		scale = 1 // a smaller scale makes up for ignored dependence, which is modelled here
	}
	after = look.law(mean, scale)
	return after, after.p * (1 - after.mean) // the boxes change too: bounded by the gain after a pass
}

func (s *State) bestOther(n int) float64 {
	beside := negInf
	for m, j := range s.Ran {
		if m != n {
			beside = max(beside, s.Beliefs[j].Mean)
		}
	}
	return beside
}

// box is a model that has not run: the distribution of its estimate, and its reservation value.
type box struct {
	law         law
	reservation float64
}

// closedBoxes returns the boxes of the models that can still be run. Each mean is shifted by
// change times its covariance with the best answer so far, which is its variance times
// [Belief].Shared.
func (x *Index) closedBoxes(s *State, lambda, change float64) []box {
	list := []box{}
	if x.DepthReached(s) {
		return list
	}
	for i, b := range s.Beliefs {
		if s.open(i) {
			if change != 0 {
				b.Mean = min(max(b.Mean+change*b.Shared*b.Mean*(1-b.Mean), 0), 1)
			}
			l, r := x.box(b, s.Costs[i], lambda)
			list = append(list, box{l, r})
		}
	}
	return list
}

// verdictGain returns the gain of a verdict that turns an estimate into one of two values: the
// expected value of the state afterwards, less its value now. The boxes after a pass and after
// a fail differ from those now, since failures are correlated.
func (x *Index) verdictGain(after *law, beside float64, now, passed, failed []box) float64 {
	pass, fail := x.worth(max(after.hi, beside), passed), x.worth(max(after.lo, beside), failed)
	return after.p*pass + (1-after.p)*fail - x.worth(max(after.mean, beside), now)
}

// worth returns the value of a state whose best answer is estimated at v.
func (x *Index) worth(v float64, closed []box) float64 {
	top, width := v, math.Inf(1)
	for k := range closed {
		l, end := &closed[k].law, closed[k].law.mean
		switch {
		case l.isTwoPoint:
			end = l.hi
		case l.dev > 0:
			end += lookReach * l.dev
			width = min(width, l.dev)
		}
		top = max(top, min(end, closed[k].reservation))
	}
	return top - x.below(v, top, width, closed, func(float64) float64 { return 1 })
}

// lookReach is the greatest change of an estimate by a look that counts, in deviations.
const lookReach = 4.5

// lookGain returns the gain of replacing an estimate by one that is distributed around it,
// if that does not change the boxes.
func (x *Index) lookGain(after *law, beside float64, closed []box) float64 {
	if after.isTwoPoint {
		return x.verdictGain(after, beside, closed, closed, closed)
	}
	mean, width := after.mean, after.dev
	lo, hi := max(mean-lookReach*width, beside), mean+lookReach*width
	gain := x.below(lo, mean, width, closed, func(t float64) float64 { return x.curve.upperAt(after, t) - 1 })
	return gain + x.below(max(lo, mean), hi, width, closed, func(t float64) float64 { return x.curve.upperAt(after, t) })
}

// below returns the integral of C·f between two points, in parts no wider than width. If width
// is infinite, C is constant between jumps and f is constant.
func (x *Index) below(from, to, width float64, closed []box, f func(t float64) float64) float64 {
	at := func(t float64) float64 {
		y := f(t)
		for k := range closed {
			if t < closed[k].reservation {
				y *= 1 - x.curve.upperAt(&closed[k].law, t)
			}
		}
		return y
	}
	sum := 0.0
	for a := from; a < to; {
		b := min(to, a+width)
		for k := range closed { // no part spans a jump of C
			b = closed[k].law.jump(a, cut(a, b, closed[k].reservation))
		}
		c, h := 0.5*(a+b), 0.5*(b-a)
		if math.IsInf(width, 1) {
			sum += 2 * h * at(c)
		} else {
			for _, g := range gauss12 {
				sum += h * g.w * (at(c-h*g.x) + at(c+h*g.x))
			}
		}
		a = b
	}
	return sum
}

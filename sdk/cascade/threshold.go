package cascade

import (
	"math"
	"slices"
)

// Threshold runs the models in a fixed order and stops once the post-hoc estimate
// of the model that ran last reaches its threshold. It is the cascade of earlier
// work, and the baseline for all others. An estimate equal to the threshold is a
// tie: the step stops with probability gamma, or always if gamma is 0.
type Threshold struct{ common }

// newThreshold returns a Threshold; it reads Order, Thresholds, MaxDepth and
// Answer.
func newThreshold(p Params) (*Threshold, error) {
	c, err := newCommon(NameThreshold, p)
	return &Threshold{c}, err
}

// Tune implements [Tunable]: the values are thresholds.
func (t *Threshold) Tune(thresholds []float64, gamma float64) (Strategy, error) {
	given, err := newCommon(NameThreshold, Params{Thresholds: thresholds, Gamma: gamma})
	u := *t
	u.params.Thresholds, u.params.Gamma = given.params.Thresholds, gamma
	return wrap(&u, err)
}

// Decide implements [Strategy].
func (t *Threshold) Decide(s *State) Decision {
	s.check()
	d := Decision{Run: Stop, Answer: s.answer(t.params.Answer)}
	if t.DepthReached(s) {
		return d
	}
	if n := len(s.Ran); n > 0 {
		over := s.Beliefs[s.Ran[n-1]].Mean - at(t.params.Thresholds, n-1)
		if over > tieTolerance || over >= -tieTolerance && (t.params.Gamma == 0 || t.cheap(s)) {
			return d
		}
	}
	d.Run = t.next(s, d.Answer)
	return d
}

// next returns the next model of the order to run. It skips models whose answers
// nothing will judge and whose mean would not end the step. If only such are left, it
// returns the one that improves most on the answer, or Stop.
func (t *Threshold) next(s *State, answer int) int {
	fallback, least := Stop, negInf
	if answer != None && t.params.Answer != Last {
		least = math.Nextafter(s.Beliefs[answer].Mean, math.Inf(1))
	}
	for k, n := s.after(t.params.Order), s.length(t.params.Order); k < n; k++ {
		i := s.nth(t.params.Order, k)
		switch b := &s.Beliefs[i]; {
		case !s.open(i):
		case !b.Unseen, b.Mean >= at(t.params.Thresholds, len(s.Ran))-tieTolerance:
			return i
		case t.params.Answer == Last, b.Mean >= least:
			fallback, least = i, b.Mean
		}
	}
	return fallback
}

// length returns the number of models in an order; nil is the order 0, 1, 2, ...
func (s *State) length(order []int) int {
	if order == nil {
		return len(s.Beliefs)
	}
	return len(order)
}

func (s *State) nth(order []int, place int) int {
	if order == nil {
		return place
	}
	return order[place]
}

// after returns the first place in an order, after every model that has run, that
// holds a model that can run, or the order's length.
func (s *State) after(order []int) int {
	n := s.length(order)
	first := 0
	for k := range n {
		if slices.Contains(s.Ran, s.nth(order, k)) {
			first = k + 1
		}
	}
	for k := first; k < n; k++ {
		if s.open(s.nth(order, k)) {
			return k
		}
	}
	return n
}

package cascade

import (
	"math"
	"slices"
	"sync"
)

// Cascade runs the models in a fixed order. Before each it compares all the ways
// to go on: stop, run the next one, the next two, ..., each a supermodel with the
// value
//
//	tau = E[max] - lambda·(cost of what has not run),
//
// and stops when stopping is best. It is the optimal strategy among those that
// keep to an order (the paper's theorem 2); with equal estimates of everything
// that is to come for all queries, it is Threshold (the corollary).
type Cascade struct {
	common
	order  []int
	answer AnswerRule
	pool   *sync.Pool
}

// NewCascade returns a Cascade; it reads Lambdas, Gamma, MaxDepth, Scale,
// NoExpect, Order and Answer.
func NewCascade(p Params) (*Cascade, error) {
	c, err := newCommon(p)
	if err != nil {
		return nil, err
	}
	return &Cascade{common: c, order: slices.Clone(p.Order), answer: p.Answer, pool: newPool()}, nil
}

// Tune implements [Tunable].
func (c *Cascade) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *c
	var err error
	if t.common, err = c.tuned(lambdas, gamma); err != nil {
		return nil, err
	}
	return &t, nil
}

// Decide implements [Strategy].
func (c *Cascade) Decide(s *State) Decision {
	s.check()
	d := Decision{Run: Stop, Answer: s.answer(c.answer)}
	next := s.after(c.order)
	n := s.length(c.order)
	if next == n || c.spent(s) {
		return d
	}
	if len(s.Ran) == 0 {
		d.Run = s.nth(c.order, next)
		return d
	}
	w := c.pool.Get().(*work)
	defer c.pool.Put(w)

	lambda, room := c.lambda(len(s.Ran)), c.room(s)
	floor := s.Beliefs[d.Answer].Mean
	stop, top := floor, negInf
	cost := 0.0
	w.laws = w.laws[:0]
	for k := next; k < n && room > 0; k++ {
		i := s.nth(c.order, k)
		if !s.open(i) {
			continue
		}
		room--
		cost += s.Costs[i]
		quality := s.Beliefs[i].Mean
		if c.answer == Best {
			w.laws = append(w.laws, s.Beliefs[i].law(c.scale))
			quality = w.laws.expectedMax(floor)
		}
		top = max(top, quality-price(lambda, cost))
	}
	if top > stop+tieTolerance || top >= stop-tieTolerance && !c.cheap(s) && !math.IsInf(top, -1) {
		d.Run = s.nth(c.order, next)
	}
	return d
}

// work is the memory that a decision works in; strategies pool it.
type work struct {
	laws laws
	search
}

func newPool() *sync.Pool { return &sync.Pool{New: func() any { return new(work) }} }

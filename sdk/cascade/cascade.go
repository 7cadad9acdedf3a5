package cascade

import (
	"sync"
)

// Cascade runs the models in a fixed order. Before each it compares all ways to continue: stop, run
// the next model, the next two, ..., each a supermodel with the value
//
//	tau = E[max] - lambda·(cost of what has not run),
//
// and stops if stopping is best. It is the optimal strategy with a fixed order (the paper's theorem
// 2). If the estimates of all later models are equal for all queries, it is Threshold (the corollary).
type Cascade struct{ common }

// newCascade returns a Cascade; it reads Lambdas, Gamma, MaxDepth, Scale,
// NoExpect, Order and Answer.
func newCascade(p Params) (*Cascade, error) {
	c, err := newCommon(NameCascade, p)
	return &Cascade{c}, err
}

// Tune implements [Tunable].
func (c *Cascade) Tune(lambdas []float64, gamma float64) (Strategy, error) {
	t := *c
	return wrap(&t, t.tune(lambdas, gamma))
}

// Decide implements [Strategy].
func (c *Cascade) Decide(s *State) Decision {
	s.check()
	d := Decision{Run: Stop, Answer: s.answer(c.params.Answer)}
	next := s.after(c.params.Order)
	if next == s.length(c.params.Order) || c.DepthReached(s) {
		return d
	}
	if s.anyUnseen() {
		d.Run = c.chooseUnseen(s)
		return d
	}
	if len(s.Ran) == 0 {
		d.Run = s.nth(c.params.Order, next)
		return d
	}
	if c.params.Answer == Last {
		if c.better(s, c.last(s, c.lambda(len(s.Ran)), next)) {
			d.Run = s.nth(c.params.Order, next)
		}
		return d
	}
	q := searches.Get().(*search)
	defer searches.Put(q)
	q.floor = s.Beliefs[d.Answer].Mean
	c.fill(q, s, next)
	if c.better(s, q.along()) {
		d.Run = s.nth(c.params.Order, next)
	}
	return d
}

// fill sets q.items to the models that can run, from place next of the order on.
func (c *Cascade) fill(q *search, s *State, next int) {
	lambda := c.lambda(len(s.Ran))
	q.items = q.items[:0]
	for k, room := next, c.room(s); k < s.length(c.params.Order) && room > 0; k++ {
		if i := s.nth(c.params.Order, k); s.open(i) {
			q.items = append(q.items, item{law: s.Beliefs[i].law(c.params.Scale), price: price(lambda, s.Costs[i]), model: i})
			room--
		}
	}
}

// anyUnseen reports whether some model that can run has an answer that nothing will
// judge.
func (s *State) anyUnseen() bool {
	for i := range s.Beliefs {
		if s.Beliefs[i].Unseen && s.open(i) {
			return true
		}
	}
	return false
}

// continuations calls yield with each way to continue: the models of the order up to some place, without
// earlier ones whose answers nothing will judge. The slice is reused.
func (c *Cascade) continuations(s *State, yield func(added []int)) {
	var seen []int
	_, floor := s.best()
	room := c.room(s)
	for k, n := s.after(c.params.Order), s.length(c.params.Order); k < n && len(seen) < room; k++ {
		i := s.nth(c.params.Order, k)
		if !s.open(i) || s.cannotImprove(i, floor) {
			continue
		}
		yield(append(seen, i))
		if !s.Beliefs[i].Unseen {
			seen = append(seen, i)
		}
	}
}

// chooseUnseen returns the first model of the best continuation, or Stop, if nothing will judge
// the answers of some models.
func (c *Cascade) chooseUnseen(s *State) int {
	run, lambda, cheap := Stop, c.lambda(len(s.Ran)), c.cheap(s)
	best := c.value(s, lambda, nil)
	c.continuations(s, func(added []int) {
		a := c.value(s, lambda, added)
		if a.Tau > best.Tau+tieTolerance || a.Tau >= best.Tau-tieTolerance && isPreferred(cheap, a.Cost, best.Cost) {
			run, best = added[0], a
		}
	})
	return run
}

// better reports whether to continue, given by how much the best continuation beats
// stopping.
func (c *Cascade) better(s *State, by float64) bool {
	return by > tieTolerance || by >= -tieTolerance && !c.cheap(s)
}

// last returns by how much the best continuation beats stopping if a supermodel is
// worth what its last model is.
func (c *Cascade) last(s *State, lambda float64, next int) float64 {
	by, cost := negInf, 0.0
	for k, room := next, c.room(s); k < s.length(c.params.Order) && room > 0; k++ {
		if i := s.nth(c.params.Order, k); s.open(i) {
			cost += s.Costs[i]
			by = max(by, s.Beliefs[i].Mean-price(lambda, cost))
			room--
		}
	}
	return by - s.Beliefs[s.Ran[len(s.Ran)-1]].Mean
}

// along returns by how much the best prefix of the items beats the floor. If closed
// forms already prove the sign, the result is only some number of that sign, well
// beyond the tie tolerance.
func (q *search) along() float64 {
	// The gain of a set lies between the greatest single gain of its items and their sum.
	least, sum, greatest, paid := negInf, 0.0, 0.0, 0.0
	most := negInf
	for i := range q.items {
		it := &q.items[i]
		gain := q.curve.excessOver(&it.law, q.floor)
		paid += it.price
		sum += gain
		greatest = max(greatest, gain)
		least, most = max(least, greatest-paid), max(most, sum-paid)
	}
	if least > slack || most < -slack || len(q.items) == 1 {
		return least
	}
	q.tabulate()
	k := len(q.node)
	row := q.rows[:k]
	by := negInf
	paid = 0
	for i := range q.items {
		tail := q.tail[i*k:][:k]
		below := 0.0
		for j := range row {
			row[j] -= row[j] * tail[j]
			below += row[j]
		}
		paid += q.items[i].price
		by = max(by, q.upper-below-q.floor-paid)
	}
	return by
}

func newSearch() *search { return &search{curve: sharedCurve()} }

// searches has searches whose buffers decisions reuse.
var searches = sync.Pool{New: func() any { return newSearch() }}

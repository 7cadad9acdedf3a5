package cascade

import (
	"cmp"
	"math"
	"slices"
)

// slack is the margin by which an item must fall short to be dropped: the tie
// tolerance plus the error of the curve, so that no supermodel within the tolerance
// of the best is lost.
const slack = 2e-8

// settled is how close to the best value the result of the search is proved to be.
const settled = 1e-10

type item struct {
	law
	price    float64 // lambda·cost
	cost     float64
	model    int
	isUnseen bool // nothing will judge the answer
}

// search finds the set S of items with the greatest
//
//	tau(S) = E[max(floor, X_i of S)] - sum of the prices of S.
//
// See docs/design/0010-supermodel-search.md for why each step is exact.
type search struct {
	curve      *curve
	items      []item
	laws       laws
	floor      float64
	mustRun    bool // the empty set is not allowed
	cheap      bool // take the cheapest of tied sets, not the most expensive
	bare       bool // the nodes start above the floor, so the first item gains more than they show
	room       int  // greatest size of a set
	prune      bool
	relaxAfter int // number of supermodels after which the search turns to the relaxation
	relaxFrom  int // number of items from which the relaxation is always used

	// The quadrature: tau(S) = upper - sum over nodes of weight·prod(1 - tail) - prices.
	upper  float64
	weight []float64
	node   []float64
	tail   []float64 // P(X_i > node), one row for each item
	rows   []float64 // weight·prod(1 - tail) over the set, one row for each depth
	nets   []float64
	cands  []int

	base    []int // items that every branch starts from
	open    []int // items that a branch can add
	rounded []int // the set that reaches the bar, if the relaxation found it
	set     []int // of the current branch, without the base
	best    []int
	top     float64
	bar     float64 // a value that some set is known to reach
	rival   float64 // upper bound on the values of skipped sets
	nodes   int
	gaveUp  bool
	limit   int

	relaxation

	breaksTies bool    // the pass that breaks ties
	least      float64 // in the second pass, the value to reach
	pick       float64 // in the second pass, the cost of best
}

// choose returns the model to run, or Stop, and whether the search hit its limit
// before it proved that this is best.
func (q *search) choose(r *CascadeRoute, s *State, floor float64) (run int, approximate bool) {
	q.gaveUp = false
	q.floor, q.mustRun, q.cheap = floor, len(s.Ran) == 0, r.cheap(s)
	q.room, q.prune, q.limit = r.room(s), r.search != slowSearch, r.params.NodeLimit
	q.relaxFrom, q.relaxAfter = r.relaxFrom, r.relaxAfter
	q.collect(r, s)
	if len(q.items) == 0 {
		return Stop, false
	}
	lambda := r.lambda(len(s.Ran))
	switch {
	case r.search == greedySearch:
		q.greedy()
	case lambda == 0 && !q.cheap && q.room >= len(q.items):
		// Every gain is free: the most expensive optimum is all items.
		q.best = q.appendAll(q.best[:0])
	default:
		q.solve()
	}
	return q.first(r.params.Order != nil), q.gaveUp
}

func (q *search) collect(r *CascadeRoute, s *State) {
	q.items = q.items[:0]
	lambda := r.lambda(len(s.Ran))
	add := func(i int) {
		if s.open(i) && !s.cannotImprove(i, q.floor) {
			b := &s.Beliefs[i]
			q.items = append(q.items, item{law: b.law(r.params.Scale), price: price(lambda, s.Costs[i]), cost: s.Costs[i], model: i, isUnseen: b.Unseen})
		}
	}
	if r.params.Order == nil {
		for i := range s.Beliefs {
			add(i)
		}
		return
	}
	for k := s.after(r.params.Order); k < len(r.params.Order); k++ {
		add(r.params.Order[k])
	}
}

// first returns the model of the best set to run first: the cheapest, or with a
// forced order the first of the order; Stop for the empty set. Models whose answers
// nothing will judge come last, the one with the highest mean first: once that has
// run, the others cannot improve the answer.
func (q *search) first(forced bool) int {
	if len(q.best) == 0 {
		return Stop
	}
	return q.items[slices.MinFunc(q.best, func(k, l int) int {
		a, b := &q.items[k], &q.items[l]
		switch {
		case a.isUnseen != b.isUnseen && b.isUnseen:
			return -1
		case a.isUnseen != b.isUnseen:
			return 1
		case a.isUnseen && a.mean != b.mean:
			return cmp.Compare(b.mean, a.mean)
		case forced:
			return k - l
		}
		return cmp.Or(cmp.Compare(a.cost, b.cost), k-l)
	})].model
}

func (q *search) appendAll(list []int) []int {
	for i := range q.items {
		list = append(list, i)
	}
	return list
}

// solve leaves the best set in q.best.
func (q *search) solve() {
	q.ceiling, q.bar, q.set = math.Inf(1), negInf, q.set[:0]
	q.reset()
	if q.prune {
		q.reduce()
		if q.solveInClosedForm() {
			return
		}
	}
	q.tabulate()
	q.open, q.base, q.rounded, q.relaxed = q.appendAll(q.open[:0]), q.base[:0], q.rounded[:0], false
	limit := q.limit
	if q.prune {
		if len(q.items) >= q.relaxFrom {
			q.core()
		}
		if !q.relaxed {
			q.limit = min(limit, q.relaxAfter)
		}
	}
	q.branch()
	q.limit = limit
	if q.prune {
		q.fallBack()
	}
	if q.rival >= q.top-tieTolerance {
		q.settle()
	}
}

// reset discards the results of an earlier search.
func (q *search) reset() {
	q.gaveUp, q.best, q.top, q.rival = false, q.best[:0], negInf, negInf
	if !q.mustRun {
		q.top = q.floor
	}
}

// fallBack repeats the search with the relaxation if it hit the limit without it. If it hits
// the limit with it, the result is the better of the search's set and the rounded one.
func (q *search) fallBack() {
	if q.gaveUp && !q.relaxed {
		q.core()
		q.reset()
		q.branch()
	}
	if q.gaveUp && q.bar > q.top && len(q.rounded) > 0 {
		q.top = q.bar
		q.best = append(q.best[:0], q.rounded...)
	}
}

// tabulate prepares the quadrature for the remaining items.
func (q *search) tabulate() {
	q.laws = q.laws[:0]
	lo, hi := math.Inf(1), q.floor
	for i := range q.items {
		l := q.items[i].law
		q.laws = append(q.laws, l)
		a, b := l.mean-4.75*l.dev, l.mean+5.5*l.dev
		if l.isTwoPoint {
			a, b = l.lo, l.hi
		}
		lo, hi = min(lo, a), max(hi, b)
	}
	q.bare = q.mustRun || lo > q.floor
	lo = max(lo, q.floor)
	q.upper = hi
	q.node, q.weight = q.node[:0], q.weight[:0]
	q.laws.panels(lo, hi, 5, func(a, b float64, flat bool) {
		c, h := 0.5*(a+b), 0.5*(b-a)
		if flat {
			q.node, q.weight = append(q.node, c), append(q.weight, b-a)
			return
		}
		for _, g := range gauss12 {
			q.node = append(q.node, c-h*g.x, c+h*g.x)
			q.weight = append(q.weight, h*g.w, h*g.w)
		}
	})
	m, k := len(q.items), len(q.node)
	q.tail = slices.Grow(q.tail[:0], m*k)[:m*k]
	for i := range q.items {
		q.curve.uppers(&q.items[i].law, q.node, q.tail[i*k:(i+1)*k])
	}
	q.rows = slices.Grow(q.rows[:0], (m+1)*k)[:(m+1)*k]
	q.reduced = slices.Grow(q.reduced[:0], m)[:m]
	clear(q.reduced)
	q.nets = slices.Grow(q.nets[:0], (m+2)*(m+1))[:(m+2)*(m+1)]
	q.cands = slices.Grow(q.cands[:0], (m+2)*(m+1))[:(m+2)*(m+1)]
	copy(q.rows, q.weight)
	// The bar so far comes from closed forms, from which the quadrature can differ
	// by more than the slack.
	q.bar = q.floor
}

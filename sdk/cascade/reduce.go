package cascade

import (
	"math"
	"slices"
)

// pairwise is the number of items up to which comparing all pairs pays.
const pairwise = 40

// reduce drops items that are in no set within the tie tolerance of the best, as
// far as that can be proved without a quadrature, and leaves in q.bar a value that
// some set reaches.
func (q *search) reduce() {
	pivot := q.singles()
	q.removeDominated(&pivot)
	if len(q.items) > 2 {
		q.thresholds()
	}
	if len(q.items) <= pairwise {
		q.dominators()
	}
}

// singles drops the items that are not worth their price over the floor alone,
// since by submodularity they gain no more over a larger set. It returns the best
// single item.
func (q *search) singles() item {
	var pivot item
	keep := q.items[:0]
	if !q.mustRun {
		q.bar = q.floor
	}
	single := negInf
	for i := range q.items {
		it := q.items[i]
		value := it.mean - it.price
		if !q.mustRun {
			value = q.floor + q.curve.excessOver(&it.law, q.floor) - it.price
			if value < q.floor-slack {
				continue
			}
		}
		if value > single {
			single, pivot = value, it
		}
		keep = append(keep, it)
	}
	q.items = keep
	q.bar = max(q.bar, single)
	return pivot
}

// covers reports whether a is at least as good as b in the increasing convex order,
// which determines E[max], and cheaper by more than the tolerance. Replacing b by a
// then improves every set with b and without a by more than the tolerance.
func covers(a, b *item) bool {
	if b.price-a.price < slack || a.isTwoPoint != b.isTwoPoint {
		return false
	}
	if a.isTwoPoint {
		return a.p >= b.p && a.lo >= b.lo && a.hi >= b.hi
	}
	return a.mean >= b.mean && a.dev >= b.dev
}

// removeDominated drops the items that are not worth their price in addition to the pivot.
func (q *search) removeDominated(pivot *item) {
	q.items = slices.DeleteFunc(q.items, func(it item) bool { return q.dominates(pivot, &it) })
}

// thresholds drops items by the bound, which holds for any t not below the floor,
//
//	tau(S) <= t + sum over S of (E[(X_i - t)^+] - price_i).
//
// Its maximum over the sets with item i is that over all sets less the shortfall of
// i at t. Here t is a value that some set reaches.
func (q *search) thresholds() {
	t := max(q.bar, q.floor)
	net := func(it *item) float64 { return q.curve.excessOver(&it.law, t) - it.price }
	bound := t
	for i := range q.items {
		bound += max(net(&q.items[i]), 0)
	}
	q.items = slices.DeleteFunc(q.items, func(it item) bool { return bound+min(net(&it), 0) < q.bar-slack })
}

// dominators drops the items that are not worth their price in addition to some item
// that covers them. A dropped item still counts: what covers it covers them too.
func (q *search) dominators() {
	q.items = slices.DeleteFunc(q.items, func(it item) bool {
		for i := range q.items {
			if q.dominates(&q.items[i], &it) {
				return true
			}
		}
		return false
	})
}

// dominates reports whether a covers b, and b is not worth its price in addition to a.
func (q *search) dominates(a, b *item) bool {
	return covers(a, b) && q.curve.pairExcess(&b.law, &a.law) < b.price-slack
}

// solveInClosedForm solves the cases that need no quadrature, up to one item, or two if nothing has run.
// It reports whether it did.
func (q *search) solveInClosedForm() bool {
	switch {
	case len(q.items) == 0:
	case len(q.items) == 1:
		if q.mustRun || q.pays(&q.items[0]) {
			q.best = append(q.best, 0)
		}
	case len(q.items) == 2 && q.mustRun && q.room >= 2:
		q.solvePair()
	default:
		return false
	}
	return true
}

// pays reports whether an item is worth its price over the floor.
func (q *search) pays(it *item) bool {
	net := q.curve.excessOver(&it.law, q.floor) - it.price
	return net > tieTolerance || net >= -tieTolerance && !q.cheap
}

// solvePair solves the case of two items, at least one of which must run.
func (q *search) solvePair() {
	a, b := &q.items[0], &q.items[1]
	tau := [...]float64{a.mean - a.price, b.mean - b.price, 0}
	tau[2] = tau[0] + q.curve.pairExcess(&b.law, &a.law) - b.price
	cost := [...]float64{a.cost, b.cost, a.cost + b.cost}
	least, pick := max(tau[0], tau[1], tau[2])-tieTolerance, -1
	for k := range tau {
		if tau[k] >= least && (pick < 0 || isPreferred(q.cheap, cost[k], cost[pick])) {
			pick = k
		}
	}
	if pick == 2 {
		q.best = append(q.best, 0)
		pick = 1
	}
	q.best = append(q.best, pick)
}

// greedy leaves in q.best the single item of the highest value, or nothing if
// stopping is better.
func (q *search) greedy() {
	q.best = q.best[:0]
	q.top = negInf
	if !q.mustRun {
		q.top = q.floor
	}
	value := func(it *item) float64 {
		if q.mustRun {
			return it.mean - it.price
		}
		return q.floor + q.curve.excessOver(&it.law, q.floor) - it.price
	}
	for i := range q.items {
		q.top = max(q.top, value(&q.items[i]))
	}
	q.breaksTies, q.least = true, q.top-tieTolerance
	q.pick = math.Inf(1)
	if !q.cheap {
		q.pick = -1
	}
	if !q.mustRun && q.floor >= q.least {
		q.pick = 0
	}
	q.base = q.base[:0]
	for i := range q.items {
		q.set = append(q.set[:0], i)
		q.offer(value(&q.items[i]), q.items[i].cost)
	}
	q.breaksTies = false
}

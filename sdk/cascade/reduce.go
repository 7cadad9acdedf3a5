package cascade

import "math"

// pairwise is the number of items up to which comparing all pairs pays.
const pairwise = 40

// reduce drops the items that are in no set within the tie tolerance of the best,
// as far as can be seen without a quadrature, and leaves in q.bar a value that some
// set reaches.
func (q *search) reduce() {
	pivot := q.singles()
	if pivot >= 0 {
		q.removeDominated(pivot)
	}
	if len(q.items) > 2 {
		q.thresholds()
	}
	if n := len(q.items); n > 2 && n <= pairwise {
		q.dominators()
	}
}

// singles drops what is not worth its price over the floor alone, since by
// submodularity its gain over any larger set is no greater. It returns the item
// that is the best on its own, or -1.
func (q *search) singles() int {
	pivot, keep := -1, q.items[:0]
	if !q.must {
		q.bar = q.floor
	}
	single := math.Inf(-1)
	for i := range q.items {
		it := q.items[i]
		value := it.mean - it.price
		if !q.must {
			if !it.two && max(it.mean-q.floor, 0)+0.4*it.dev < it.price-slack {
				continue
			}
			value = q.floor + q.curve.excessOver(&it.law, q.floor) - it.price
			if value < q.floor-slack {
				continue
			}
		}
		if value > single {
			single, pivot = value, len(keep)
		}
		keep = append(keep, it)
	}
	q.items = keep
	q.bar = max(q.bar, single)
	return pivot
}

// covers reports whether a is at least as good as b in the increasing convex order,
// which is all that E[max] asks, and cheaper by more than the tolerance. A set with
// b and without a gets better by more than the tolerance when b gives way to a.
func covers(a, b *item) bool {
	if a.price > b.price-slack || a.two != b.two {
		return false
	}
	if a.two {
		return a.p >= b.p && a.lo >= b.lo && a.hi >= b.hi
	}
	return a.mean >= b.mean && a.dev >= b.dev
}

// removeDominated drops the items that the pivot covers and that are not worth their
// price beside it, and raises the bar by pairs with the pivot.
func (q *search) removeDominated(pivot int) {
	p := q.items[pivot]
	keep := q.items[:0]
	for i := range q.items {
		it := q.items[i]
		if i == pivot {
			keep = append(keep, it)
			continue
		}
		if q.must {
			gain := q.curve.pairExcess(&it.law, &p.law) - it.price
			q.bar = max(q.bar, p.mean-p.price+gain)
			if gain < -slack && covers(&p, &it) {
				continue
			}
		} else if covers(&p, &it) && q.curve.pairExcess(&it.law, &p.law) < it.price-slack {
			continue
		}
		keep = append(keep, it)
	}
	q.items = keep
}

// thresholds drops items by the bound, for any t from the floor up,
//
//	tau(S) <= t + sum over S of (E[(X_i - t)^+] - price_i),
//
// whose greatest value over the sets with item i is that over all sets less what i
// falls short at t.
func (q *search) thresholds() {
	t := max(q.bar, q.floor)
	for range 3 {
		bound, slope := t, 1.0
		for i := range q.items {
			it := &q.items[i]
			if net := q.curve.excessOver(&it.law, t) - it.price; net > 0 {
				bound += net
				slope -= q.curve.upperAt(&it.law, t)
			}
		}
		keep := q.items[:0]
		for i := range q.items {
			it := q.items[i]
			if net := q.curve.excessOver(&it.law, t) - it.price; net > 0 || bound+net >= q.bar-slack {
				keep = append(keep, it)
			}
		}
		q.items = keep
		if slope >= 0 {
			break
		}
		t += 0.5 * (bound - t)
	}
}

// dominators drops the items that are not worth their price beside any one item
// that covers them. One that has left still counts: what covers it covers them too.
func (q *search) dominators() {
	keep := q.items[:0]
	for i := range q.items {
		it := q.items[i]
		worth := true
		for j := 0; worth && j < len(q.items); j++ {
			o := &q.items[j]
			if covers(o, &it) && q.curve.pairExcess(&it.law, &o.law) < it.price-slack {
				worth = false
			}
		}
		if worth {
			keep = append(keep, it)
		}
	}
	q.items = keep
}

// solveInClosedForm solves by closed forms what needs no quadrature: one item, or two and nothing
// that has run. It reports whether it has.
func (q *search) solveInClosedForm() bool {
	switch {
	case len(q.items) == 0:
		return true
	case len(q.items) == 1:
		it := &q.items[0]
		if !q.must {
			net := q.curve.excessOver(&it.law, q.floor) - it.price
			if net < -tieTolerance || net <= tieTolerance && q.cheap {
				return true
			}
		}
		q.best = append(q.best, 0)
		return true
	case len(q.items) == 2 && q.must && q.room >= 2:
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
		switch pick {
		case 2:
			q.best = append(q.best, 0, 1)
		default:
			q.best = append(q.best, pick)
		}
		return true
	}
	return false
}

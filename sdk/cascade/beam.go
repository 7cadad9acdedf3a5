package cascade

import (
	"math"
	"slices"
)

// greedy leaves in q.best the one item, or nothing, that is worth most.
func (q *search) greedy() {
	q.best = q.best[:0]
	q.top = math.Inf(-1)
	if !q.must {
		q.top = q.floor
	}
	value := func(it *item) float64 {
		if q.must {
			return it.mean - it.price
		}
		return q.floor + q.curve.excessOver(&it.law, q.floor) - it.price
	}
	for i := range q.items {
		q.top = max(q.top, value(&q.items[i]))
	}
	q.second, q.least = true, q.top-tieTolerance
	q.pick = math.Inf(1)
	if !q.cheap {
		q.pick = -1
	}
	if !q.must && q.floor >= q.least {
		q.pick = 0
	}
	q.base = q.base[:0]
	for i := range q.items {
		q.set = append(q.set[:0], i)
		q.offer(value(&q.items[i]), q.items[i].cost)
	}
	q.second = false
}

// beams are the sets of one size that a beam search keeps, best first.
type beams struct {
	sets []beam
	row  []float64 // weight·prod(1 - tail), one row for each set
}

type beam struct {
	tau, cost float64
	from, add int // the set of the size below, and the item added to it
	items     []int
}

// beam looks, size by size, at the sets that add one item to one of the width best
// sets of the size below, as long as a gain is worth its price.
func (q *search) beam(width int) {
	k := len(q.node)
	var level, next beams
	level.row = append(level.row, q.rows[:k]...)
	root := q.upper
	for _, w := range level.row {
		root -= w
	}
	level.sets = append(level.sets, beam{tau: root})
	for size := 0; size < q.room && len(level.sets) > 0; size++ {
		next.sets = next.sets[:0]
		for from := range level.sets {
			b := &level.sets[from]
			row := level.row[from*k : (from+1)*k]
			for i := range q.items {
				if slices.Contains(b.items, i) {
					continue
				}
				net := dot(row, q.tail[i*k:][:k]) - q.items[i].price
				if net < 0 && (size != 0 || !q.bare) {
					continue
				}
				next.sets = append(next.sets, beam{tau: b.tau + net, cost: b.cost + q.items[i].cost, from: from, add: i})
			}
		}
		slices.SortStableFunc(next.sets, func(a, b beam) int {
			switch {
			case a.tau > b.tau:
				return -1
			case a.tau < b.tau:
				return 1
			}
			return 0
		})
		kept := next.sets[:0]
		next.row = next.row[:0]
		for _, b := range next.sets {
			b.items = append(slices.Clone(level.sets[b.from].items), b.add)
			slices.Sort(b.items)
			if slices.ContainsFunc(kept, func(o beam) bool { return slices.Equal(o.items, b.items) }) {
				continue
			}
			if len(kept) == width {
				q.gaveUp = true // something was left out
				break
			}
			q.set = append(q.set[:0], b.items...)
			q.offer(b.tau, b.cost)
			row, tail := level.row[b.from*k:][:k], q.tail[b.add*k:][:k]
			for j := range row {
				next.row = append(next.row, row[j]*(1-tail[j]))
			}
			kept = append(kept, b)
		}
		next.sets = kept
		level, next = next, level
	}
	q.set = q.set[:0]
}

package cascade

import "math"

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

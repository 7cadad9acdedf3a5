package cascade

import (
	"math"
	"slices"
)

// With relaxFrom items or more, the relaxation always pays; with fewer, only once the
// plain search has evaluated relaxAfter sets.
const (
	relaxFrom  = 14
	relaxAfter = 200
)

// core fixes items by the relaxation: those in every set within the tolerance of the
// best move to the base, and those in none are dropped. Nearly always at most a
// handful is left for branch.
func (q *search) core() {
	q.logarithms()
	for range 4 {
		q.relax()
		q.ceiling = q.bound()
		q.round()
		before, left := len(q.open), q.open[:0]
		for _, i := range q.open {
			switch r := q.reduced[i]; {
			case q.ceiling-math.Abs(r) >= q.bar-slack:
				left = append(left, i)
			case math.Signbit(r):
				q.force(i)
			}
		}
		q.open = left
		if len(left) == before {
			break
		}
	}
	// The bound of the last round still holds, since items were fixed by the signs
	// of their reduced costs.
	q.relaxed = true
}

func (q *search) force(i int) {
	q.addTo(q.rows[:len(q.node)], i)
	q.base = append(q.base, i)
	q.bare = false
	q.room--
}

// addTo turns the row of a set into that of the set with item i.
func (q *search) addTo(row []float64, i int) {
	tail := q.tail[i*len(row):][:len(row)]
	for j := range row {
		row[j] -= row[j] * tail[j]
	}
}

// round raises the bar to the value of an integral set near the fractional one: the
// nearest, or the nearest with one of its fractional items rounded the other way.
func (q *search) round() {
	q.try(q.cutoff(), -1)
	flips := 0
	for _, i := range q.open {
		if y := q.share[i]; y > 0 && y < 1 && flips < 6 {
			q.try(q.cutoff(), i)
			flips++
		}
	}
}

// cutoff returns the share above which an item belongs to the nearest integral set:
// one half, or more if that set exceeds the room.
func (q *search) cutoff() float64 {
	least := 0.5
	for {
		size, next := 0, 1.0
		for _, i := range q.open {
			if y := q.share[i]; y > least {
				size++
				next = min(next, y)
			}
		}
		if size <= q.room {
			return least
		}
		least = next
	}
}

// try considers the set of the base and the open items whose share is above least, with
// item flip the other way round.
func (q *search) try(least float64, flip int) {
	tau := q.roundedValue(least, flip)
	if tau <= q.bar {
		return
	}
	q.bar = tau
	q.rounded = append(q.rounded[:0], q.base...)
	for _, i := range q.open {
		if (q.share[i] > least) != (i == flip) {
			q.rounded = append(q.rounded, i)
		}
	}
}

// roundedValue returns the value of the set that try considers, or -Inf if it is empty or too large.
func (q *search) roundedValue(least float64, flip int) float64 {
	row := append(q.mass[:0], q.rows[:len(q.node)]...)
	size, spent := 0, 0.0
	for _, i := range q.open {
		if (q.share[i] > least) != (i == flip) {
			q.addTo(row, i)
			spent += q.items[i].price
			size++
		}
	}
	q.mass = row
	if size > q.room || size == 0 && len(q.base) == 0 {
		return negInf
	}
	for _, i := range q.base {
		spent += q.items[i].price
	}
	tau := q.upper - spent
	for _, m := range row {
		tau -= m
	}
	return tau
}

// relaxation bounds tau over all sets at once. See relax and bound.
type relaxation struct {
	relaxed bool
	ceiling float64   // upper bound on tau over all sets
	size    float64   // price per item that keeps the set within the room
	logs    []float64 // -log(1 - tail), one row for each item
	mass    []float64 // weight·prod(1 - tail)^share for each node
	share   []float64 // the fractional set
	reduced []float64 // by how much the ceiling falls for a set with the item (positive) or without (negative), 0 until it is known
}

// longest replaces -log 0, and sliver that 0.
const (
	longest = 36
	sliver  = 2.3e-16
)

func (q *search) logarithms() {
	q.logs = slices.Grow(q.logs[:0], len(q.tail))[:len(q.tail)]
	for j, t := range q.tail {
		q.logs[j] = q.curve.minusLog1m(t)
	}
	n := len(q.items)
	q.share = slices.Grow(q.share[:0], n)[:n]
	clear(q.share)
	q.size = 0
}

// relax minimises over the fractional sets y, 0 <= y_i <= 1, the convex function
//
//	f(y) = sum over nodes of weight·exp(-sum of y_i a_i(node)) + sum of y_i price_i,
//
// where a_i = -log(1 - tail_i); for integral sets f is upper - tau. If the solution
// exceeds the room, relax searches for a price on size that makes it fit.
func (q *search) relax() {
	if q.descend() <= float64(q.room)+1e-6 {
		return
	}
	low, high := 0.0, 1.0
	for range 6 {
		q.size = 0.5 * (low + high)
		if q.descend() > float64(q.room) {
			low = q.size
		} else {
			high = q.size
		}
	}
	q.size = high
	q.descend()
}

// descend minimises f with the given price on size by coordinate descent, and
// returns the size of the solution.
func (q *search) descend() float64 {
	q.mass = append(q.mass[:0], q.rows[:len(q.node)]...)
	for _, i := range q.open {
		if y := q.share[i]; y > 0 {
			q.scale(i, -y)
		}
	}
	for range 50 {
		if q.adjustShares() < 1e-8 {
			break
		}
	}
	size := 0.0
	for _, i := range q.open {
		size += q.share[i]
	}
	return size
}

// adjustShares minimises f in each share in turn, and returns approximately how much it fell.
func (q *search) adjustShares() (moved float64) {
	k := len(q.node)
	for _, i := range q.open {
		a := q.logs[i*k:][:k]
		y := q.share[i]
		gain, bend := moments(q.mass, a)
		slope := q.items[i].price + q.size - gain
		q.share[i] = min(max(y-slope/max(bend, math.SmallestNonzeroFloat64), 0), 1)
		if step := q.share[i] - y; step != 0 {
			q.scale(i, -step)
			moved += math.Abs(slope * step)
		}
	}
	return moved
}

// moments returns the sums of mass·a and mass·a².
func moments(mass, a []float64) (first, second float64) {
	for j, m := range mass {
		first, second = first+m*a[j], second+m*a[j]*a[j]
	}
	return first, second
}

// scale multiplies the mass by (1 - tail_i)^-by.
func (q *search) scale(i int, by float64) {
	k := len(q.node)
	a := q.logs[i*k:][:k]
	if by == -1 {
		tail := q.tail[i*k:][:k]
		for j := range q.mass {
			q.mass[j] *= max(1-tail[j], sliver)
		}
		return
	}
	for j := range q.mass {
		q.mass[j] *= roughExp(by * a[j])
	}
}

// minusLog1m returns -log(1 - t) for t in [0, 1], to 2e-13 and at most longest.
func (c *curve) minusLog1m(t float64) float64 { return min(-c.log(max(1-t, 0)), longest) }

// roughExp returns exp(x) to a relative 2e-5, with x clamped to |x| <= 700. That
// suffices for the relaxation, whose bound holds at any point.
func roughExp(x float64) float64 {
	x = min(max(x, -700), 700) * math.Log2E
	whole := math.Floor(x)
	f := x - whole
	// The polynomial of fourth degree that is 2^f at five Chebyshev nodes of [0, 1].
	scale := math.Float64frombits(uint64(int64(whole)+1023) << 52)
	return scale * (1.0000034929076982 + f*(0.6929729221730485+f*(0.2416043572701053+f*(0.05174499776408733+f*(0.013670309453365028)))))
}

// bound returns an upper bound on tau over the base with any open items, from the
// mass at the end of relax.
//
// For any p in (0, 1] at a node, with alpha = p(1 - log p), and any set T,
//
//	prod over T of (1 - tail_i) >= alpha - sum over T of beta_i,
//	beta_i = p a_i if 1 - tail_i > p, else alpha - (1 - tail_i).
//
// Summed over the nodes, the right side is linear in T. The first case alone is the
// tangent of exp at log p; the second makes p = 1 the bound by submodularity.
func (q *search) bound() float64 {
	k := len(q.node)
	row := q.rows[:k]
	total := -q.size * float64(q.room)
	for _, i := range q.base {
		total += q.items[i].price
	}
	for _, i := range q.open {
		q.reduced[i] = q.items[i].price + q.size
	}
	for j, w := range row {
		p := min(max(q.mass[j]/max(w, 1e-300), 1e-100), 1)
		alpha := p * (1 - q.curve.log(p))
		total += w * alpha
		for _, i := range q.open {
			if rest := 1 - q.tail[i*k+j]; rest > p {
				q.reduced[i] -= w * p * q.logs[i*k+j]
			} else {
				q.reduced[i] -= w * (alpha - rest)
			}
		}
	}
	for _, i := range q.open {
		total += min(q.reduced[i], 0)
	}
	return q.upper - total
}

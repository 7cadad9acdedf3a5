package cascade

import "math"

// branch looks at all sets that could beat q.top by more than settled, and leaves
// the best in q.best, and in q.rival a bound on all others.
func (q *search) branch() {
	q.nodes = 0
	value, spent := q.upper, 0.0
	for _, w := range q.rows[:len(q.node)] {
		value -= w
	}
	for _, i := range q.base {
		value -= q.items[i].price
		spent += q.items[i].cost
	}
	if len(q.base) > 0 {
		q.offer(value, spent)
	}
	copy(q.cands, q.open)
	q.walk(0, q.cands[:len(q.open)], value, spent, q.ceiling)
	q.gaveUp = q.gaveUp || q.nodes >= q.limit
}

// settle chooses, among all sets within the tie tolerance of the best, the
// cheapest or the dearest.
func (q *search) settle() {
	q.second, q.least, q.pick = true, q.top-tieTolerance, 0
	for _, i := range q.best {
		q.pick += q.items[i].cost
	}
	if !q.must && q.floor >= q.least && isPreferred(q.cheap, 0, q.pick) {
		q.best, q.pick = q.best[:0], 0
	}
	q.branch()
	q.second = false
}

// offer considers the set of the branch under way.
func (q *search) offer(tau, cost float64) {
	switch {
	case q.second:
		if tau < q.least || !isPreferred(q.cheap, cost, q.pick) {
			return
		}
		q.pick = cost
	case tau > q.top:
		q.rival = max(q.rival, q.top)
		q.top = tau
	default:
		q.rival = max(q.rival, tau)
		return
	}
	q.best = append(append(q.best[:0], q.base...), q.set...)
}

// idle reports whether no set with at most this value, at a cost between least and
// most, needs to be looked at, and keeps account of what is passed over.
func (q *search) idle(bound, least, most float64) bool {
	if q.second {
		return bound < q.least || q.cheap && least >= q.pick || !q.cheap && most <= q.pick
	}
	if bound > max(q.top+settled, q.bar-slack) {
		return false
	}
	q.rival = max(q.rival, bound)
	return true
}

// walk looks at the sets that add some of the candidates to the set of the branch
// under way, whose value of E[max] and cost are given; depth is its size.
//
// The gain of an item never grows with the set it is added to (E[max] is
// submodular), so the value of the set plus the positive gains of all candidates
// bounds every set below. The candidates are taken by falling gain: the first
// branch is the greedy set, and the bound falls as they are passed by.
func (q *search) walk(depth int, cands []int, value, spent, ceiling float64) {
	if depth >= q.room || len(cands) == 0 || q.nodes >= q.limit {
		return
	}
	k, n := len(q.node), len(q.items)
	row := q.rows[depth*k : (depth+1)*k]
	nets := q.nets[(depth+1)*(n+1):][: 0 : n+1]
	next := q.cands[(depth+1)*(n+1):][: 0 : n+1]
	bare := depth == 0 && q.bare
	cut := q.prune && !bare

	bound, dropped, most := value, math.Inf(-1), spent
	for _, i := range cands {
		tail := q.tail[i*k:][:k]
		net := dot(row, tail) - q.items[i].price
		q.nodes++
		if cut && net <= 0 && (!q.second || net < -tieTolerance) {
			if net >= -tieTolerance {
				dropped = max(dropped, net) // it may be in a tied set
			}
			continue
		}
		bound += max(net, 0)
		most += q.items[i].cost
		nets, next = append(nets, net), append(next, i)
		for l := len(next) - 1; l > 0 && nets[l-1] < net; l-- {
			nets[l], next[l] = nets[l-1], next[l-1]
			nets[l-1], next[l-1] = net, i
		}
	}
	if !q.second && cut {
		q.rival = max(q.rival, bound+dropped)
	}
	for l, i := range next {
		it := &q.items[i]
		if cut && q.idle(min(bound, ceiling), spent+it.cost, most) {
			return
		}
		bound -= max(nets[l], 0)
		q.set = append(q.set, i)
		q.offer(value+nets[l], spent+it.cost)
		if l+1 < len(next) {
			tail := q.tail[i*k:][:k]
			sub := q.rows[(depth+1)*k:][:k]
			for j, p := range row {
				sub[j] = p - p*tail[j]
			}
			q.walk(depth+1, next[l+1:], value+nets[l], spent+it.cost, ceiling-max(q.fall(i), 0))
		}
		q.set = q.set[:len(q.set)-1]
		most -= it.cost
		ceiling += min(q.fall(i), 0)
	}
}

// fall returns what the ceiling falls by for sets with the item, or, negative, for
// sets without it.
func (q *search) fall(i int) float64 {
	if !q.relaxed {
		return 0
	}
	return q.reduced[i]
}

// dot returns the inner product of two rows of the same length.
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for j := range a {
		s0 += a[j] * b[j]
	}
	return s0 + s1 + (s2 + s3)
}

package cascade

// branch searches all sets that could beat q.top by more than settled. It leaves
// the best in q.best, and an upper bound on all others in q.rival.
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
}

// settle breaks ties: it chooses the cheapest or the most expensive of all sets
// within the tie tolerance of the best.
func (q *search) settle() {
	q.breaksTies, q.least, q.pick = true, q.top-tieTolerance, 0
	for _, i := range q.best {
		q.pick += q.items[i].cost
	}
	if !q.mustRun && q.floor >= q.least && isPreferred(q.cheap, 0, q.pick) {
		q.best, q.pick = q.best[:0], 0
	}
	q.branch()
	q.breaksTies = false
}

// offer considers the set of the current branch as the best.
func (q *search) offer(tau, cost float64) {
	switch {
	case q.breaksTies:
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

// canSkip reports whether sets with values of at most bound and costs between least
// and most can be skipped. If so, q.rival accounts for them.
func (q *search) canSkip(bound, least, most float64) bool {
	if q.breaksTies {
		cost := most
		if q.cheap {
			cost = least
		}
		return bound < q.least || !isPreferred(q.cheap, cost, q.pick)
	}
	if bound > max(q.top+settled, q.bar-slack) {
		return false
	}
	q.rival = max(q.rival, bound)
	return true
}

// walk searches the sets that add some of the candidates to the set of the current
// branch, which has depth items, the value tau and the cost spent.
//
// The gain of an item never grows with the set it is added to (E[max] is
// submodular), so the value of the set plus the positive gains of all candidates
// bounds every larger set. Candidates are taken in order of decreasing gain: the
// first branch is the greedy set, and the bound falls with each candidate passed.
func (q *search) walk(depth int, cands []int, value, spent, ceiling float64) {
	switch {
	case depth >= q.room, len(cands) == 0:
		return
	case q.nodes >= q.limit:
		q.gaveUp = true
		return
	}
	cut := q.prune && (depth > 0 || !q.bare)
	next, nets, bound, most := q.rank(depth, cands, value, spent, cut)
	for l, i := range next {
		it := &q.items[i]
		if cut && q.canSkip(min(bound, ceiling), spent+it.cost, most) {
			return
		}
		bound -= max(nets[l], 0)
		q.set = append(q.set, i)
		q.offer(value+nets[l], spent+it.cost)
		q.walk(depth+1, next[l+1:], value+nets[l], spent+it.cost, ceiling-max(q.reduced[i], 0))
		q.set = q.set[:len(q.set)-1]
		most -= it.cost
		ceiling += min(q.reduced[i], 0)
	}
}

// rank returns the candidates that can be worth adding and their gains, in decreasing order, and upper
// bounds on the value and cost of the sets that add them. q.rival accounts for the candidates cut off.
func (q *search) rank(depth int, cands []int, value, spent float64, cut bool) (next []int, nets []float64, bound, most float64) {
	k, n := len(q.node), len(q.items)
	row := q.fillRow(depth)
	nets = q.nets[(depth+1)*(n+1):][: 0 : n+1]
	next = q.cands[(depth+1)*(n+1):][: 0 : n+1]
	bound, dropped, most := value, negInf, spent
	for _, i := range cands {
		net := dot(row, q.tail[i*k:][:k]) - q.items[i].price
		q.nodes++
		if cut {
			if net < -tieTolerance {
				continue
			}
			if net <= 0 && !q.breaksTies {
				dropped = max(dropped, net) // it may be in a tied set
				continue
			}
		}
		bound += max(net, 0)
		most += q.items[i].cost
		nets, next = append(nets, net), append(next, i)
		for l := len(next) - 1; l > 0 && nets[l-1] < net; l-- {
			nets[l], next[l] = nets[l-1], next[l-1]
			nets[l-1], next[l-1] = net, i
		}
	}
	q.rival = max(q.rival, bound+dropped)
	return next, nets, bound, most
}

// fillRow computes the row of the current branch, which has depth items, from the row without its last item.
func (q *search) fillRow(depth int) []float64 {
	k := len(q.node)
	row := q.rows[depth*k:][:k]
	if depth > 0 {
		above, tail := q.rows[(depth-1)*k:][:k], q.tail[q.set[depth-1]*k:][:k]
		for j, p := range above {
			row[j] = p - p*tail[j]
		}
	}
	return row
}

func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	for len(a) > 3 {
		x, y := (*[4]float64)(a), (*[4]float64)(b)
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
		a, b = a[4:], b[4:]
	}
	for j := range a {
		s0 += a[j] * b[j]
	}
	return s0 + s1 + (s2 + s3)
}

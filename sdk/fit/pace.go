package fit

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// Pacer holds the mean cost of a stream of queries at a budget. A fitted curve has the
// mean cost of each operating point on the outcomes that it was fitted to; new queries
// cost more or less, and the pacer compensates: overspending is saved over the next
// queries, and savings may be spent.
//
// The cost of a query is compared with the expected cost of queries of its group
// (Point.ByGroup), so that the pacer neither saves on an hour of expensive queries nor
// spends on an hour of cheap ones more than they are worth. After n queries with a total
// cost of S, of which D was due, the next operating point is the one whose mean cost is
//
//	(B + (D − S) / H) / r,
//
// where B is the budget, H the number of queries over which a difference is made up
// for, and r the ratio of actual to expected cost so far. D is n·B plus a loan to the
// mixture of groups so far, which is worth M more than n·B: M is the sum over queries of
// B times the cost of their group divided by the mean cost of all, at the operating point
// that meets B, less B. A mixture that can be due to chance, up to two standard
// deviations, gets no loan, so that the budget holds on queries in random order. The rest
// of M comes from blocks of similar queries, and is lent, up to 10·H·B, so that the budget
// holds over n queries to within about 10·H/n in any case.
//
// That amount is met by a random choice between the two adjacent operating points, as in
// the paper. Savings are limited to H·B, so that a quiet night is not followed by an
// expensive morning.
//
// If queries cost far more than expected ([Pacer.Drift]), the curve no longer describes
// these models: cheaper operating points would not compensate for that, and would give worse
// answers. The pacer then keeps the point that the budget was fitted to, and the budget is
// exceeded. Queries of groups that are not in the curve do not count towards that ratio,
// but overspending on them is made up for.
//
// A Pacer is safe for concurrent use.
type Pacer struct {
	points []Point
	budget float64
	over   float64

	mu  sync.Mutex
	rng *rand.Rand
	sums
	reported [5]float64 // the sums at the last Share
}

// sums holds sums over queries: their number, US dollars spent and expected, the excess of their mixture
// of groups over the budget, and its squares.
type sums struct{ queries, spent, expected, mixture, squares float64 }

func (s *sums) all() [5]*float64 {
	return [...]*float64{&s.queries, &s.spent, &s.expected, &s.mixture, &s.squares}
}

// DefaultPace is the default number of queries over which a difference from the budget is made up for.
const DefaultPace = 50

// mostLent bounds the loan to a mixture of groups, in budgets of H queries, and drawnLike is the number of
// standard deviations up to which a mixture counts as chance.
const (
	mostLent  = 10
	drawnLike = 2
)

// NewPacer returns a pacer that chooses among operating points for a mean cost of
// budgetUSD per query; over is the number of queries over which a difference is made up
// for. The seed determines the random choices.
func NewPacer(points []Point, budgetUSD, over float64, seed uint64) (*Pacer, error) {
	if !(budgetUSD > 0) || math.IsInf(budgetUSD, 0) || !(over >= 1) || math.IsInf(over, 0) {
		return nil, fmt.Errorf("pacing %v USD over %v queries: want positive numbers", budgetUSD, over)
	}
	front := frontier(points)
	if len(front) == 0 {
		return nil, errors.New("pacing: no operating points")
	}
	return &Pacer{points: front, budget: budgetUSD, over: over, rng: rand.New(rand.NewPCG(seed, 0xface))}, nil
}

// frontier returns the points that are better than every cheaper one, sorted by cost.
func frontier(points []Point) []Point {
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.CostUSD, b.CostUSD), cmp.Compare(b.Quality, a.Quality))
	})
	var front []Point
	for _, p := range sorted {
		if len(front) == 0 || p.Quality > front[len(front)-1].Quality {
			front = append(front, p)
		}
	}
	return front
}

// Points returns the operating points among which Next chooses, sorted by cost.
func (p *Pacer) Points() []Point { return p.points }

// Next returns the operating point for the next query, an index into Points.
func (p *Pacer) Next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	usd := p.budget
	if ratio := p.ratio(); ratio < driftRatio {
		saved := min(p.queries*p.budget+p.lent()-p.spent, p.over*p.budget)
		usd = (p.budget + saved/p.over) / ratio
	}
	i, share := p.place(usd)
	if share > 0 && p.rng.Float64() < share {
		return i + 1
	}
	return i
}

// lent returns the loan to the mixture of groups so far, in US dollars.
func (p *Pacer) lent() float64 {
	beyond := max(math.Abs(p.mixture)-drawnLike*math.Sqrt(p.squares), 0)
	return math.Copysign(min(beyond, mostLent*p.over*p.budget), p.mixture)
}

// driftRatio is the ratio of actual to expected cost from which the curve is abandoned.
const driftRatio = 1.6

// Drift returns the ratio of actual to expected cost so far, and whether it is so large that
// the pacer no longer compensates.
func (p *Pacer) Drift() (ratio float64, hasDrifted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ratio = p.ratio()
	return ratio, ratio >= driftRatio
}

// ratio returns the ratio of actual to expected cost so far, with a prior of 1.
func (p *Pacer) ratio() float64 {
	prior := p.over * p.budget
	return (p.spent + prior) / (p.expected + prior)
}

// place returns the last point that costs no more than usd, or the first, and the share of
// the next point in a mixture of the two that costs usd.
func (p *Pacer) place(usd float64) (at int, share float64) {
	i, _ := slices.BinarySearchFunc(p.points, usd, func(q Point, x float64) int { return cmp.Compare(q.CostUSD, x) })
	switch {
	case i == 0:
		return 0, 0
	case i == len(p.points):
		return i - 1, 0
	}
	low, high := p.points[i-1].CostUSD, p.points[i].CostUSD
	return i - 1, (usd - low) / (high - low)
}

// Spent records what a query cost at the operating point that Next returned for it. group
// is that of [sdk.Query], "" if unknown.
func (p *Pacer) Spent(group string, point int, usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, share := p.place(p.budget / p.ratio())
	mean, own := p.points[at].CostUSD, p.points[at].costOf(group)
	if share > 0 {
		mean += share * (p.points[at+1].CostUSD - mean)
		own += share * (p.points[at+1].costOf(group) - own)
	}
	if mean > 0 {
		more := p.budget * (own/mean - 1)
		p.mixture += more
		p.squares += more * more
	}
	p.queries++
	p.spent += usd
	expected, known := p.points[point].ByGroup[group]
	switch {
	case len(p.points[point].ByGroup) == 0:
		expected = p.points[point].CostUSD
	case !known:
		expected = usd
	}
	p.expected += expected
}

// Share synchronises the pacer with others of the same budget in other processes: add is called
// with what was counted here since the last time (queries, US dollars spent and expected, and
// the two sums over their mixture of groups) and returns the sums of all pacers. If it fails,
// the same amounts are passed again the next time.
func (p *Pacer) Share(add func(delta [5]float64) ([5]float64, error)) error {
	var delta [5]float64
	p.mu.Lock()
	now, told := p.sums, p.reported
	p.mu.Unlock()
	for i, sum := range now.all() {
		delta[i] = *sum - told[i]
	}
	all, err := add(delta)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	then := now.all()
	for i, sum := range p.all() {
		*sum += all[i] - *then[i] // what was counted meanwhile is passed the next time
	}
	p.reported = all
	return nil
}

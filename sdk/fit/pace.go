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

// Pacer holds the mean cost of a stream of queries at a budget. A fitted curve says
// what each operating point cost on the outcomes that it was fitted to; new queries
// cost more or less, and the pacer makes up for that as it goes: what was overspent
// is saved over the queries to come, and what was saved may be spent.
//
// With n queries that cost S altogether, the next one may cost
//
//	(B + (n·B − S) / H) / r,
//
// where B is the budget, H the number of queries over which a difference is made up
// for, and r the ratio of real to expected cost so far. That amount is met by a coin
// between the two operating points next to it, which is how the paper meets a budget
// between two. Savings are limited to H·B, so that a quiet night does not become a
// dear morning.
//
// A Pacer is safe for concurrent use.
type Pacer struct {
	points []Point
	budget float64
	over   float64

	mu       sync.Mutex
	rng      *rand.Rand
	queries  float64
	spent    float64
	expected float64
	// told is what Share has passed on already.
	told [3]float64
}

// DefaultPace is over how many queries a difference from the budget is made up for.
const DefaultPace = 50

// NewPacer returns a pacer that chooses among operating points, budgetUSD for each
// query; over is how many queries may pass until a difference is made up for. The
// seed decides the coin.
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

// frontier returns the points that no cheaper one equals, by cost.
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

// Points returns the operating points among which Next chooses, by cost.
func (p *Pacer) Points() []Point { return p.points }

// Next returns the operating point for the next query, an index into Points.
func (p *Pacer) Next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	prior := p.over * p.budget
	ratio := (p.spent + prior) / (p.expected + prior)
	saved := min(p.queries*p.budget-p.spent, prior)
	at := (p.budget + saved/p.over) / ratio
	i, _ := slices.BinarySearchFunc(p.points, at, func(q Point, x float64) int { return cmp.Compare(q.CostUSD, x) })
	switch {
	case i == 0:
		return 0
	case i == len(p.points):
		return i - 1
	}
	low, high := p.points[i-1].CostUSD, p.points[i].CostUSD
	if p.rng.Float64() < (at-low)/(high-low) {
		return i
	}
	return i - 1
}

// Spent tells the pacer what a query cost at the operating point that Next gave for it.
func (p *Pacer) Spent(point int, usd float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries++
	p.spent += usd
	p.expected += p.points[point].CostUSD
}

// Share joins the pacer with others of the same budget, in other processes: add is given
// what was counted here since the last time (queries, US dollars spent, US dollars
// expected) and returns the sums of all. When it fails, the same is given the next time.
func (p *Pacer) Share(add func(delta [3]float64) ([3]float64, error)) error {
	p.mu.Lock()
	now := [3]float64{p.queries, p.spent, p.expected}
	told := p.told
	p.mu.Unlock()
	all, err := add([3]float64{now[0] - told[0], now[1] - told[1], now[2] - told[2]})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// What was counted meanwhile is told the next time.
	p.queries += all[0] - now[0]
	p.spent += all[1] - now[1]
	p.expected += all[2] - now[2]
	p.told = all
	return nil
}

package fit

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// HeldOut is the result of the fit on unseen queries: each fold is replayed with what was chosen on the
// others.
type HeldOut struct {
	CostUSD float64 `json:"cost_usd"`
	// CostStdError is the standard error of CostUSD.
	CostStdError float64 `json:"cost_std_error"`
	Quality      float64 `json:"quality"`
	// Held says that CostUSD is within Tolerance of the budget, or no more than that
	// above it if the budget cannot be spent.
	Held bool `json:"held"`
	// Confidence is the probability that the mean cost of as many new queries stays
	// within Tolerance of the budget, or no more than that above it if the budget
	// cannot be spent. It is low if costs vary widely between queries, whatever is fitted.
	Confidence float64 `json:"confidence"`
	// Paced is the same probability if a [Pacer] holds the budget, as in a router: a
	// single lambda cannot react to what queries cost.
	Paced float64 `json:"paced"`
	// Promise says what it takes for the budget to hold with a probability of at
	// least 0.9.
	Promise Promise `json:"promise"`
	// From is the number of new queries from which Promise would be PromiseAlways; 0
	// if these outcomes are too few to promise that for any number.
	From int `json:"from,omitempty"`
}

// Tolerance is the relative difference from the budget within which a mean cost holds
// it, and level the probability from which a fit promises that.
const (
	Tolerance = 0.05
	level     = 0.9
)

// Promise is what a fit promises about its budget over as many new queries as it has seen.
type Promise string

// The promises.
const (
	// PromiseAlways: the fitted lambda holds the budget by itself.
	PromiseAlways Promise = "always"
	// PromisePaced: a [Pacer] holds it.
	PromisePaced Promise = "paced"
	// PromiseNone: it cannot be promised.
	PromiseNone Promise = "none"
)

// promise sets Confidence, Promise and From: mean costs from low to high count as
// holding the budget.
func (h *HeldOut) promise(low, high float64, queries int) {
	h.Confidence = holdChance(low, high, *h)
	switch {
	case h.Confidence >= level:
		h.Promise = PromiseAlways
	case h.Paced >= level:
		h.Promise = PromisePaced
	default:
		h.Promise = PromiseNone
	}
	h.From = fromQueries(low, high, *h, queries)
}

// fromQueries returns the least number of new queries whose mean cost lies between low and high with
// probability level, after a fit to the given number of queries, or 0.
func fromQueries(low, high float64, h HeldOut, queries int) int {
	holds := func(n float64) bool {
		// The fitted mean has the standard error CostStdError, and the mean of n new
		// queries that times the root of queries/n.
		dev := h.CostStdError * math.Sqrt(1+float64(queries)/n)
		return normalBetween(low, high, h.CostUSD, dev) >= level
	}
	const most = 1e7
	if !holds(most) {
		return 0
	}
	few, many := 1.0, most
	for many-few > 1 {
		if middle := math.Floor((few + many) / 2); holds(middle) {
			many = middle
		} else {
			few = middle
		}
	}
	return int(many)
}

const paceTrials = 200

// heldByPacing returns the share of simulated streams of queries whose mean cost a pacer holds within the
// tolerance. The pacer knows the costs of the recorded queries. Those are one sample of the population and
// a stream is another, so streams are drawn from a bootstrap sample of the recorded queries.
func heldByPacing(c *candidate, k *kinds, queries int, budget float64, seed uint64) (float64, error) {
	rng := rand.New(rand.NewPCG(seed, 0x9ace))
	all := make([]int, queries)
	for i := range all {
		all[i] = i
	}
	draw := func(from []int) []int {
		rows := make([]int, queries)
		for i := range rows {
			rows[i] = from[rng.IntN(queries)]
		}
		return rows
	}
	var held atomic.Int64
	var trials errgroup.Group
	trials.SetLimit(runtime.GOMAXPROCS(0))
	for range paceTrials {
		known, seed, stream := draw(all), rng.Uint64(), draw(draw(all))
		trials.Go(func() error {
			spent, err := c.spentByPacing(k, known, stream, budget, seed)
			if math.Abs(spent/float64(queries)-budget) <= Tolerance*budget {
				held.Add(1)
			}
			return err
		})
	}
	if err := trials.Wait(); err != nil {
		return 0, err
	}
	return float64(held.Load()) / paceTrials, nil
}

// spentByPacing returns the cost of a stream of queries under a pacer that knows the operating points' costs
// on the rows in known.
func (c *candidate) spentByPacing(k *kinds, known, stream []int, budget float64, seed uint64) (spent float64, err error) {
	points := frontier(c.pointsOn(known))
	place := make([]int, len(points))
	for i := range points {
		place[i], _ = slices.BinarySearch(c.values, points[i].Value)
		points[i].ByGroup = c.results[place[i]].costsOf(k, known)
	}
	pacer, err := NewPacer(points, budget, DefaultPace, seed)
	if err != nil {
		return 0, err
	}
	for _, q := range stream {
		i := pacer.Next()
		r := &c.results[place[i]]
		cost := r.unseen * r.cost[q]
		pacer.Spent(k.nameOf(q), i, cost)
		spent += cost
	}
	return spent, nil
}

// holdOut returns the cost and quality at the budget on unseen queries.
func (f *fitter) holdOut(t *outcome.Table, list []*candidate, groups *kinds) (*HeldOut, error) {
	o := &f.options
	// On the folds of the estimators: a query's own estimator has then seen just those that decide for it.
	h := heldOut(t, list, o.BudgetUSD, t.Folds(o.Folds, o.Seed), o.Folds)
	low := (1 - Tolerance) * o.BudgetUSD
	switch {
	case f.profile.Budget.Reached:
		var err error
		if h.Paced, err = heldByPacing(f.use.candidate, groups, len(t.Queries), o.BudgetUSD, o.Seed); err != nil {
			return nil, err
		}
	case !f.profile.Budget.Over:
		// A budget that cannot be spent bounds the cost from one side only.
		h.Held = h.CostUSD <= (1+Tolerance)*o.BudgetUSD
		low = math.Inf(-1)
	}
	h.promise(low, (1+Tolerance)*o.BudgetUSD, len(t.Queries))
	return &h, nil
}

// split returns the queries of one fold and those of the others.
func split(fold []int, f int) (in, rest []int) {
	for q := range fold {
		if fold[q] == f {
			in = append(in, q)
		} else {
			rest = append(rest, q)
		}
	}
	return in, rest
}

// heldOut chooses on all folds but one and evaluates the choice on that one. The candidates are untrimmed:
// values dropped for what all queries say of them would tell each fold of its own.
func heldOut(t *outcome.Table, candidates []*candidate, budget float64, fold []int, folds int) HeldOut {
	cost, quality := make([]float64, len(fold)), make([]float64, len(fold))
	for f := range folds {
		in, rest := split(fold, f)
		pointsOf := func(c *candidate) []Point { return c.pointsOn(rest) }
		c := chooseBest(t.Rows(rest), candidates, budget, pointsOf)
		m := meet(c.pointsOn(rest), budget)
		a, b := &c.results[m.first], &c.results[m.second]
		for _, q := range in {
			cost[q] = a.cost[q] + m.share*(b.cost[q]-a.cost[q])
			quality[q] = a.quality[q] + m.share*(b.quality[q]-a.quality[q])
		}
	}
	mean, dev := stat.MeanStdDev(cost, nil)
	return HeldOut{CostUSD: mean, CostStdError: stat.StdErr(dev, float64(len(cost))), Quality: average(quality), Held: math.Abs(mean-budget) <= Tolerance*budget}
}

// holdChance returns the probability that the mean cost of as many new queries lies between two amounts:
// both this mean and theirs have the standard error.
func holdChance(low, high float64, h HeldOut) float64 {
	return normalBetween(low, high, h.CostUSD, h.CostStdError*math.Sqrt2)
}

// normalBetween returns the probability that a normal variable lies between two amounts.
func normalBetween(low, high, mean, dev float64) float64 {
	if dev == 0 {
		if low <= mean && mean <= high {
			return 1
		}
		return 0
	}
	below := func(x float64) float64 { return math.Erfc(-(x-mean)/(dev*math.Sqrt2)) / 2 }
	return below(high) - below(low)
}

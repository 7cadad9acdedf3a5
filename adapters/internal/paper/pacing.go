package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// pacingShares are budgets as shares of the way from the cheapest point of the fitted curve to the most expensive;
// each order is drawn pacingStreams times.
var pacingShares = []float64{0.1, 0.3, 0.6}

const pacingStreams = 5

// order is an order of queries.
type order struct {
	name string
	of   func(t *outcome.Table, rng *rand.Rand) []int
}

var orders = []order{
	{"random", func(t *outcome.Table, rng *rand.Rand) []int { return rng.Perm(len(t.Queries)) }},
	{"sorted: one group after the other", inBlocks},
	{"bursts of 25 of one group", inBursts},
	{"drifting from group to group", drifting},
	{"dearest first, within and across groups", dearestFirst},
}

// inBlocks puts all queries of one group before those of the next.
func inBlocks(t *outcome.Table, rng *rand.Rand) []int {
	rank := map[string]int{}
	rows := rng.Perm(len(t.Queries))
	for _, q := range rows {
		if _, known := rank[t.Group(q)]; !known {
			rank[t.Group(q)] = rng.Int()
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(rank[t.Group(a)], rank[t.Group(b)]) })
	return rows
}

// inBursts stays in a group for 25 queries on average.
func inBursts(t *outcome.Table, rng *rand.Rand) []int {
	left := rng.Perm(len(t.Queries))
	rows := make([]int, 0, len(left))
	for len(left) > 0 {
		next := 0
		if n := len(rows); n > 0 && rng.Float64() >= 1./25 {
			next = max(0, slices.IndexFunc(left, func(q int) bool { return t.Group(q) == t.Group(rows[n-1]) }))
		}
		rows = append(rows, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return rows
}

// drifting moves from group to group, with about half of the other groups' queries mixed in.
func drifting(t *outcome.Table, rng *rand.Rand) []int {
	rows := inBlocks(t, rng)
	place := make([]float64, len(rows))
	for i, q := range rows {
		place[q] = float64(i)/float64(len(rows)) + rng.Float64()
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	return rows
}

// dearestFirst sorts by the cost of all models together, which is unknown in practice.
func dearestFirst(t *outcome.Table, rng *rand.Rand) []int {
	rows := rng.Perm(len(t.Queries))
	usd := make([]float64, len(rows))
	for q := range usd {
		for _, c := range t.CostUSD[q] {
			usd[q] += c
		}
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(usd[b], usd[a]) })
	return rows
}

// track holds the results of a pacer's operating points on every query of a table.
type track struct {
	table         *outcome.Table
	points        []fit.Point
	cost, quality [][]float64 // by point and query
}

// newTrack fits an index to one half and replays its operating points on the other.
func newTrack(ctx context.Context, t *outcome.Table, seed uint64) (*track, error) {
	train, test := t.Split(0.5, seed)
	p, err := fit.Fit(ctx, train, fit.Options{Seed: seed})
	if err != nil {
		return nil, err
	}
	test = test.Complete()
	pacer, err := fit.NewPacer(p.Curve, 1, fit.DefaultPace, seed)
	if err != nil {
		return nil, err
	}
	replay, err := p.Estimator.On(test)
	if err != nil {
		return nil, err
	}
	player := &eval.Player{Source: replay.Source()}
	for _, point := range pacer.Points() {
		setting := p.Strategy.At(point.Value)
		s, err := setting.Strategy(test.Models)
		if err != nil {
			return nil, err
		}
		player.Lambdas, player.Strategies = append(player.Lambdas, point.Value), append(player.Strategies, s)
	}
	samples, err := eval.Replay(ctx, test, []*eval.Player{player}, seed, nil)
	if err != nil {
		return nil, err
	}
	return &track{test, pacer.Points(), samples[0].Cost, samples[0].Quality}, nil
}

// qualityAt returns the quality at a cost on these queries, interpolated between operating points.
func (t *track) qualityAt(usd float64) float64 {
	for i := range t.points[1:] {
		low, high := stat.Mean(t.cost[i], nil), stat.Mean(t.cost[i+1], nil)
		if usd < low {
			return stat.Mean(t.quality[i], nil)
		}
		if usd <= high && high > low {
			share := (usd - low) / (high - low)
			return (1-share)*stat.Mean(t.quality[i], nil) + share*stat.Mean(t.quality[i+1], nil)
		}
	}
	return stat.Mean(t.quality[len(t.quality)-1], nil)
}

// way is a method of spending a budget.
type way struct {
	name    string
	over    float64
	byGroup bool
}

var ways = []way{
	{"one lambda, as fitted", 1e12, false},
	{"paced by the mean", fit.DefaultPace, false},
	{"paced by group", fit.DefaultPace, true},
}

// losses holds, for streams under budgets, how far the mean cost was from the budget, relative to it, and how much
// quality was lost compared with the lambda that spends, on the same queries, the budget (lost) or what was spent
// (lostSpent).
type losses struct{ off, lost, lostSpent []float64 }

func (t *track) spend(o order, w way, seed uint64) (p losses, err error) {
	points := slices.Clone(t.points)
	for i := range points {
		if !w.byGroup {
			points[i].ByGroup = nil
		}
	}
	cheapest, dearest := points[0].CostUSD, points[len(points)-1].CostUSD
	n := float64(len(t.table.Queries))
	for _, share := range pacingShares {
		budget := cheapest + share*(dearest-cheapest)
		for stream := range uint64(pacingStreams) {
			rng := rand.New(rand.NewPCG(seed, stream))
			pacer, err := fit.NewPacer(points, budget, w.over, seed+stream)
			if err != nil {
				return p, err
			}
			usd, quality := 0.0, 0.0
			for _, q := range o.of(t.table, rng) {
				i := pacer.Next()
				pacer.Spent(t.table.Group(q), i, t.cost[i][q])
				usd += t.cost[i][q] / n
				quality += t.quality[i][q] / n
			}
			p.off = append(p.off, math.Abs(usd/budget-1))
			p.lost = append(p.lost, 100*(t.qualityAt(budget)-quality))
			p.lostSpent = append(p.lostSpent, 100*(t.qualityAt(usd)-quality))
		}
	}
	return p, nil
}

// pacing measures how well budgets are met on the other half, in several orders: for two sets of models on questions,
// and for the tables of agents.
func pacing(ctx context.Context, e *Env, p *Page) error {
	splits := 4 * e.splits()
	p.printf("An index is fitted to one half of a table and spends budgets on the other, the queries of which come in several orders: %d random halves, %d budgets (%v of the way from the cheapest point of the curve to the dearest), %d streams each. "+
		"`off` is how far the mean cost of the stream is from the budget on average, and `held` how often it is within %.0f %%. "+
		"`lost` is the quality, in points, that is lost against the lambda that spends the budget on the very same queries, which only hindsight knows; `at its own spend` against the lambda that spends what was spent. ± is two standard deviations over the halves. "+
		"The last order cannot be foreseen: nothing that is known before a query says that it is dear, beyond its group.\n",
		splits, len(pacingShares), pacingShares, pacingStreams, 100*fit.Tolerance)
	data := e.Own
	if len(data) == 0 {
		data = append(e.questionsOf("3", "11"), e.Agents...)
	}
	return e.eachData(p, data, func(d *Data) (*eval.Table, error) { return e.pacingTable(ctx, d.Table, splits) })
}

func (e *Env) pacingTable(ctx context.Context, t *outcome.Table, splits int) (*eval.Table, error) {
	played, err := overSplits(ctx, splits, func(ctx context.Context, i int) (*track, error) { return newTrack(ctx, t, e.Seed+uint64(i)) })
	if err != nil {
		return nil, err
	}
	out := &eval.Table{Header: []string{"order", "spent by", "off", "held", "lost", "at its own spend"}}
	for _, o := range orders {
		for _, w := range ways {
			var off, lost, lostSpent []float64
			held := 0
			for i, track := range played {
				one, err := track.spend(o, w, e.Seed+uint64(i))
				if err != nil {
					return nil, err
				}
				for _, x := range one.off {
					held += btoi(x <= fit.Tolerance)
				}
				off = append(off, one.off...)
				lost, lostSpent = append(lost, stat.Mean(one.lost, nil)), append(lostSpent, stat.Mean(one.lostSpent, nil))
			}
			line := []string{o.name, w.name, fmt.Sprintf("%.1f %%", 100*stat.Mean(off, nil)), fmt.Sprintf("%.0f %%", 100*float64(held)/float64(len(off)))}
			for _, x := range [][]float64{lost, lostSpent} {
				mean, deviation := stat.MeanStdDev(x, nil)
				line = append(line, fmt.Sprintf("%.2f ± %.2f", mean, 2*deviation))
			}
			out.Cells = append(out.Cells, line)
		}
	}
	return out, nil
}

package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// pacingSplits is on how many random halves budgets are held: 20 unless Env.Splits says
// otherwise. pacingShares are the budgets, as shares of the way from the cheapest point
// of the fitted curve to the dearest, and pacingStreams how often each order is drawn.
func (e *Env) pacingSplits() int { return 4 * e.splits() }

func pacingShares() []float64 { return []float64{0.1, 0.3, 0.6} }

const pacingStreams = 5

// order is one in which queries come.
type order struct {
	name string
	of   func(t *outcome.Table, rng *rand.Rand) []int
}

func orders() []order {
	return []order{
		{"random", func(t *outcome.Table, rng *rand.Rand) []int { return rng.Perm(len(t.Queries)) }},
		{"sorted: one group after the other", inBlocks},
		{"bursts of 25 of one group", inBursts},
		{"drifting from group to group", drifting},
		{"dearest first, within and across groups", dearestFirst},
	}
}

// inBlocks has all queries of one group before those of the next.
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

// inBursts goes on with the same group for 25 queries on average.
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

// drifting has groups come and go one after the other, each among half of the others.
func drifting(t *outcome.Table, rng *rand.Rand) []int {
	rows := inBlocks(t, rng)
	place := make([]float64, len(rows))
	for i, q := range rows {
		place[q] = float64(i)/float64(len(rows)) + rng.Float64()
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	return rows
}

// dearestFirst sorts by what all models together cost, which nobody can know before.
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

// pacingLosses is what came of streams under budgets: how far the mean cost was from the
// budget, relative to it, and by how much the quality was below that of the lambda that
// spends the budget on the very same queries, and of the one that spends what was spent.
type pacingLosses struct{ off, lost, lostSpent []float64 }

// track is what the operating points of a pacer do on every query of a table.
type track struct {
	table         *outcome.Table
	points        []fit.Point
	cost, quality [][]float64 // by point and query
}

// tracks fits an index to one half and plays its operating points on the other.
func tracks(ctx context.Context, t *outcome.Table, seed uint64) (*track, error) {
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
	samples, err := eval.Replay(ctx, eval.OutcomesOf(test), []*eval.Player{player}, seed, nil)
	if err != nil {
		return nil, err
	}
	return &track{test, pacer.Points(), samples[0].Cost, samples[0].Quality}, nil
}

// right is the quality of the operating point that costs so much on these queries.
func (t *track) right(usd float64) float64 {
	for i := range t.points[1:] {
		low, high := mean(t.cost[i]), mean(t.cost[i+1])
		if usd < low {
			return mean(t.quality[i])
		}
		if usd <= high && high > low {
			share := (usd - low) / (high - low)
			return (1-share)*mean(t.quality[i]) + share*mean(t.quality[i+1])
		}
	}
	return mean(t.quality[len(t.quality)-1])
}

// way is one of spending a budget.
type way struct {
	name    string
	over    float64
	byGroup bool
}

func ways() []way {
	return []way{
		{"one lambda, as fitted", 1e12, false},
		{"paced by the mean", fit.DefaultPace, false},
		{"paced by group", fit.DefaultPace, true},
	}
}

// pacer holds a budget this way.
func (w *way) pacer(points []fit.Point, budget float64, seed uint64) (*fit.Pacer, error) {
	if !w.byGroup {
		points = slices.Clone(points)
		for i := range points {
			points[i].ByGroup = nil
		}
	}
	return fit.NewPacer(points, budget, w.over, seed)
}

// spend spends budgets on streams of one order.
func (t *track) spend(o order, w way, seed uint64) (p pacingLosses, err error) {
	cheapest, dearest := t.points[0].CostUSD, t.points[len(t.points)-1].CostUSD
	n := float64(len(t.table.Queries))
	for _, share := range pacingShares() {
		budget := cheapest + share*(dearest-cheapest)
		for stream := range uint64(pacingStreams) {
			rng := rand.New(rand.NewPCG(seed, stream))
			pacer, err := w.pacer(t.points, budget, seed+stream)
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
			p.off = append(p.off, usd/budget-1)
			p.lost = append(p.lost, 100*(t.right(budget)-quality))
			p.lostSpent = append(p.lostSpent, 100*(t.right(usd)-quality))
		}
	}
	return p, nil
}

// pacingData are two sets of models on questions, and the tables of agents.
func (e *Env) pacingData() []*Data {
	if len(e.Own) > 0 {
		return e.Own
	}
	var data []*Data
	if e.Questions != nil {
		for _, set := range []string{"3", "11"} {
			if t, err := e.Questions.Table.Subset(set); err == nil {
				data = append(data, e.Questions.of(t, ", "+set+" models"))
			}
		}
	}
	return append(data, e.Agents...)
}

// pacing measures how budgets are held on the other half, in several orders.
func pacing(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("pacing", "Budgets held on queries to come, in any order")
	p.printf("An index is fitted to one half of a table and spends budgets on the other, the queries of which come in several orders: %d random halves, %d budgets (%v of the way from the cheapest point of the curve to the dearest), %d streams each. "+
		"`off` is how far the mean cost of the stream is from the budget on average, and `held` how often it is within %.0f %%. "+
		"`lost` is the quality, in points, that is lost against the lambda that spends the budget on the very same queries, which only hindsight knows; `at its own spend` against the lambda that spends what was spent. ± is two standard deviations over the halves. "+
		"The last order cannot be foreseen: nothing that is known before a query says that it is dear, beyond its group.\n",
		e.pacingSplits(), len(pacingShares()), pacingShares(), pacingStreams, 100*fit.Tolerance)
	return p, e.eachData(p, e.pacingData(), func(d *Data) (*eval.Table, error) { return e.pacingTable(ctx, d.Table) })
}

func (e *Env) pacingTable(ctx context.Context, t *outcome.Table) (*eval.Table, error) {
	played, err := overSplits(ctx, e.pacingSplits(), func(ctx context.Context, i int) (*track, error) { return tracks(ctx, t, e.Seed+uint64(i)) })
	if err != nil {
		return nil, err
	}
	out := &eval.Table{Header: []string{"order", "spent by", "off", "held", "lost", "at its own spend"}}
	for _, o := range orders() {
		for _, w := range ways() {
			var off, held, lost, lostSpent []float64
			for i, track := range played {
				one, err := track.spend(o, w, e.Seed+uint64(i))
				if err != nil {
					return nil, err
				}
				for _, x := range one.off {
					off, held = append(off, math.Abs(x)), append(held, float64(btoi(math.Abs(x) <= fit.Tolerance)))
				}
				lost, lostSpent = append(lost, mean(one.lost)), append(lostSpent, mean(one.lostSpent))
			}
			line := []string{o.name, w.name, fmt.Sprintf("%.1f %%", 100*mean(off)), fmt.Sprintf("%.0f %%", 100*mean(held))}
			for _, x := range [][]float64{lost, lostSpent} {
				m, two := spreadOf(x)
				line = append(line, fmt.Sprintf("%.2f ± %.2f", m, two))
			}
			out.Cells = append(out.Cells, line)
		}
	}
	return out, nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

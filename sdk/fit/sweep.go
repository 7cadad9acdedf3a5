package fit

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// replayed is what one strategy did on every query: the tally of its steps.
type replayed struct {
	cost, quality []float64
	// steps is the mean number of models run.
	steps float64
}

// runKey is a set of at most 128 models.
type runKey [2]uint64

func (k runKey) with(model int) runKey {
	k[model/64] |= 1 << (model % 64)
	return k
}

// memo remembers the beliefs about one query by the set of models run: the
// strategies of a sweep meet the same sets again and again.
type memo struct {
	reading *estimate.Reading
	models  int
	known   map[runKey]*believed
}

type believed struct {
	beliefs []cascade.Belief
	costs   []float64
}

func (m *memo) believe(key runKey, ran []int) *believed {
	if b := m.known[key]; b != nil {
		return b
	}
	b := &believed{make([]cascade.Belief, m.models), make([]float64, m.models)}
	m.reading.Believe(ran, b.beliefs, b.costs)
	m.known[key] = b
	return b
}

// play replays every strategy on every query of the table, some queries at a time.
// Gamma plays no part: ties go to the cheapest.
func play(ctx context.Context, t *outcome.Table, r *estimate.Replay, strategies []cascade.Strategy) ([]replayed, error) {
	out := make([]replayed, len(strategies))
	for i := range out {
		out[i] = replayed{cost: make([]float64, len(t.Queries)), quality: make([]float64, len(t.Queries))}
	}
	workers := min(runtime.GOMAXPROCS(0), len(t.Queries))
	steps := make([][]float64, workers)
	group, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		steps[w] = make([]float64, len(strategies))
		group.Go(func() error {
			ran := make([]int, 0, len(t.Models))
			for q := w; q < len(t.Queries); q += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				m := &memo{r.Start(q), len(t.Models), map[runKey]*believed{}}
				for i, s := range strategies {
					var cost float64
					var answer int
					ran, answer, cost = step(t, q, m, s, ran[:0])
					out[i].cost[q] = cost
					if answer != cascade.None {
						out[i].quality[q] = t.Quality[q][answer]
					}
					steps[w][i] += float64(len(ran))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range out {
		for w := range steps {
			out[i].steps += steps[w][i] / float64(len(t.Queries))
		}
	}
	return out, nil
}

// step replays one step and returns the models run, the answer and the cost.
func step(t *outcome.Table, q int, m *memo, s cascade.Strategy, ran []int) ([]int, int, float64) {
	var key runKey
	cost := 0.0
	for {
		b := m.believe(key, ran)
		d := s.Decide(&cascade.State{Beliefs: b.beliefs, Costs: b.costs, Ran: ran})
		if d.Run == cascade.Stop {
			return ran, d.Answer, cost
		}
		ran = append(ran, d.Run)
		key = key.with(d.Run)
		cost += t.CostUSD[q][d.Run]
	}
}

// Point is one operating point of a strategy: means over the queries.
type Point struct {
	// Value is the lambda or, of a threshold strategy, the threshold.
	Value   float64 `json:"value"`
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality"`
	// Steps is the mean number of models run.
	Steps float64 `json:"steps"`
}

func (r *replayed) point(value float64) Point {
	return Point{Value: value, CostUSD: average(r.cost), Quality: average(r.quality), Steps: r.steps}
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// area is the area under the points, sorted by cost and joined by straight lines,
// from the cheapest to the dearest single model, divided by that range: the AUC of
// design.md. It serves to choose among parameters; package eval reports.
func area(t *outcome.Table, points []Point) float64 {
	costs, qualities := t.MeanCosts(), t.MeanQualities()
	low, high := slices.Min(costs), slices.Max(costs)
	if !(high > low) {
		return math.NaN()
	}
	sorted := slices.Clone(points)
	slices.SortFunc(sorted, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.CostUSD, b.CostUSD), cmp.Compare(a.Quality, b.Quality))
	})
	last := Point{CostUSD: low, Quality: slices.Min(qualities)}
	sum := 0.0
	for _, p := range sorted {
		if p.CostUSD <= low {
			last = Point{CostUSD: low, Quality: p.Quality}
			continue
		}
		if p.CostUSD > high {
			share := (high - last.CostUSD) / (p.CostUSD - last.CostUSD)
			p.Quality = last.Quality + share*(p.Quality-last.Quality)
			p.CostUSD = high
		}
		sum += (p.CostUSD - last.CostUSD) * (p.Quality + last.Quality) / 2
		last = p
		if p.CostUSD == high {
			break
		}
	}
	sum += (high - last.CostUSD) * last.Quality
	return sum / (high - low)
}

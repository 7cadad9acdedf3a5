package fit

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// Point is one operating point of a strategy: means over the queries.
type Point struct {
	// Value is the lambda or, for a threshold strategy, the threshold.
	Value   float64 `json:"value"`
	CostUSD float64 `json:"cost_usd"`
	Quality float64 `json:"quality"`
	// Steps is the mean number of models run.
	Steps float64 `json:"steps"`
	// ByGroup is the expected cost of a query by group, in US dollars; nil if groups do not
	// differ.
	ByGroup map[string]float64 `json:"by_group,omitempty"`
}

func (p *Point) costOf(group string) float64 {
	if usd, known := p.ByGroup[group]; known {
		return usd
	}
	return p.CostUSD
}

// replayRow holds the results of one strategy on every row.
type replayRow struct {
	cost, quality []float64
	steps         []float64 // the number of models run
	estimate      []float64 // of the answer
	path          []path
	// unseen is the ratio of the cost on unseen queries to the recorded one.
	unseen float64
}

func newReplayRow(rows int) replayRow {
	return replayRow{
		unseen: 1,
		cost:   make([]float64, rows), quality: make([]float64, rows),
		steps: make([]float64, rows), estimate: make([]float64, rows), path: make([]path, rows),
	}
}

// copyFrom copies the result in one place from the results at another value.
func (r *replayRow) copyFrom(place int, as *replayRow) {
	r.cost[place], r.quality[place], r.steps[place], r.path[place] = as.cost[place], as.quality[place], as.steps[place], as.path[place]
	r.estimate[place] = as.estimate[place]
}

func (r *replayRow) point(value float64) Point {
	return Point{Value: value, CostUSD: r.unseen * average(r.cost), Quality: average(r.quality), Steps: average(r.steps)}
}

// pointOn is like point, on the given rows only.
func (r *replayRow) pointOn(value float64, rows []int) Point {
	p := Point{Value: value}
	n := float64(len(rows))
	for _, q := range rows {
		p.CostUSD += r.unseen * r.cost[q] / n
		p.Quality += r.quality[q] / n
		p.Steps += r.steps[q] / n
	}
	return p
}

// costsOf returns the expected cost of a query in each group; see kinds.costs.
func (r *replayRow) costsOf(k *kinds, rows []int) map[string]float64 {
	costs := k.costs(r.cost, rows)
	for group := range costs {
		costs[group] *= r.unseen
	}
	return costs
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// area returns the area under the points, sorted by cost and joined by straight lines, from the cheapest
// to the most expensive single model, divided by that range (AUC). It serves to choose among parameters;
// for reports see package eval.
func area(t *outcome.Table, points []Point) float64 {
	costs, qualities := t.MeanCosts(), t.MeanQualities()
	low, high := slices.Min(costs), slices.Max(costs)
	if !(high > low) {
		return math.NaN()
	}
	sorted := sortPoints(points)
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

type kinds struct {
	names []string
	of    []int // by row
}

func kindsOf(t *outcome.Table) *kinds {
	k := &kinds{of: make([]int, len(t.Queries))}
	k.names = slices.Compact(slices.Sorted(slices.Values(t.Groups)))
	for q := range k.of {
		k.of[q], _ = slices.BinarySearch(k.names, t.Group(q))
	}
	return k
}

func (k *kinds) nameOf(row int) string {
	if len(k.names) == 0 {
		return ""
	}
	return k.names[k.of[row]]
}

// costs returns the expected cost of a query in each group, from the costs on some rows, or nil if groups
// do not differ. Group means are shrunk towards the overall mean as far as the variance within groups
// explains their differences (random effects of an analysis of variance), and then shifted so that the
// mean over the rows stays the same.
func (k *kinds) costs(cost []float64, rows []int) map[string]float64 {
	if len(k.names) < 2 {
		return nil
	}
	count, sum := make([]float64, len(k.names)), make([]float64, len(k.names))
	for _, q := range rows {
		count[k.of[q]]++
		sum[k.of[q]] += cost[q]
	}
	n := float64(len(rows))
	all, within, squares, met := 0.0, 0.0, 0.0, 0.0
	for i, c := range count {
		if c > 0 {
			met++
			all += sum[i] / n
			squares += c * c
		}
	}
	for _, q := range rows {
		d := cost[q] - sum[k.of[q]]/count[k.of[q]]
		within += d * d
	}
	within /= max(n-met, 1)
	between := -(met - 1) * within
	for i, c := range count {
		if c > 0 {
			d := sum[i]/c - all
			between += c * d * d
		}
	}
	between /= n - squares/n
	if !(between > 0) {
		return nil
	}
	drawn, shift := make([]float64, len(count)), all
	for i, c := range count {
		if c > 0 {
			drawn[i] = all + (sum[i]/c-all)*c/(c+within/between)
			shift -= drawn[i] * c / n
		}
	}
	out := make(map[string]float64, len(count))
	for i, c := range count {
		if c > 0 {
			out[k.names[i]] = max(drawn[i]+shift, 0)
		}
	}
	return out
}

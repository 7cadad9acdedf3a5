package eval

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// costOrders returns the orders that a cascade chooses from: all models by mean cost
// and, if that is different, only those that are better than all cheaper ones.
func costOrders(o *outcome.Table) [][]int {
	f := singles(o).newFrame(nil)
	costs := make([]float64, len(o.Models))
	for i, m := range f.Models {
		costs[i] = m.Cost
	}
	all := byValue(costs)
	var front []int
	for _, m := range all {
		if len(front) == 0 || f.Models[m].Quality > f.Models[front[len(front)-1]].Quality {
			front = append(front, m)
		}
	}
	if len(front) == len(all) {
		return [][]int{all}
	}
	return [][]int{all, front}
}

// prefixes holds the states of a threshold cascade on the train half, by query and depth.
type prefixes struct {
	after   [][]prefix
	uniform []float64 // thresholds to try at all depths
}

// prefix is the state after some models: the estimate of the last one, the cost so far and the quality of
// the answer with the best estimate.
type prefix struct {
	estimate, cost, quality float64
	// verdict is the cost of the verdict on the last answer, which cost does not include,
	// and unjudged the quality of the answer that is best without that verdict.
	verdict, unjudged float64
}

func newPrefixes(ctx context.Context, o *outcome.Table, source replay.Source, order []int) (*prefixes, error) {
	p := &prefixes{after: make([][]prefix, len(o.Queries))}
	err := inParallel(ctx, len(o.Queries), func(q int) error {
		met := newAnswers(source.Start(q), len(o.Models))
		spent := 0.0
		for j, model := range order {
			met.run(model)
			spent += o.CostUSD[q][model]
			x := prefix{cost: spent, unjudged: o.Quality[q][met.best(order[:j+1])]}
			x.verdict = met.judge(model)
			spent += x.verdict
			x.estimate, x.quality = met.beliefs[model].Mean, o.Quality[q][met.best(order[:j+1])]
			p.after[q] = append(p.after[q], x)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var estimates []float64
	for _, x := range slices.Concat(p.after...) {
		estimates = append(estimates, x.estimate)
	}
	p.uniform = levels(estimates, 60)
	return p, nil
}

// thresholdRule returns the rule of the threshold cascade. For a lambda, it has the
// order, the depth and the thresholds that maximise mean quality less lambda times
// cost on the train half: first with one threshold at every depth, then optimised one
// by one as long as that helps.
func thresholdRule(ctx context.Context, on *problem, s *fittedSources) (strategyAt, error) {
	orders := costOrders(on.Train)
	var ladders []*prefixes
	for _, order := range orders {
		p, err := newPrefixes(ctx, on.Train, s.Train, order)
		if err != nil {
			return nil, err
		}
		ladders = append(ladders, p)
	}
	return func(lambda float64) (cascade.Strategy, error) {
		var params cascade.Params
		top := math.Inf(-1)
		for i, p := range ladders {
			thresholds, value := p.best(lambda)
			if value > top {
				top = value
				params = cascade.Params{Order: orders[i], Thresholds: thresholds, MaxDepth: len(thresholds)}
			}
		}
		return cascade.New(cascade.NameThreshold, params)
	}, nil
}

// best returns a threshold for each depth, of which the last always stops, and the
// mean value on the train half.
func (p *prefixes) best(lambda float64) ([]float64, float64) {
	depths := len(p.after[0])
	value := func(q, depth, last int) float64 {
		x := &p.after[q][depth]
		if depth == last { // the verdict no longer matters
			return x.unjudged - lambda*x.cost
		}
		return x.quality - lambda*(x.cost+x.verdict)
	}
	var thresholds []float64
	top := math.Inf(-1)
	for _, t := range p.uniform {
		sums := make([]float64, depths)
		for q, after := range p.after {
			stop := slices.IndexFunc(after, func(x prefix) bool { return x.estimate >= t })
			if stop < 0 {
				stop = depths - 1
			}
			for d := range sums {
				sums[d] += value(q, min(stop, d), d)
			}
		}
		for d, sum := range sums {
			if sum > top {
				top, thresholds = sum, slices.Repeat([]float64{t}, d+1)
			}
		}
	}
	for range 3 {
		before := top
		for depth := len(thresholds) - 2; depth >= 0; depth-- {
			top += p.improve(thresholds, depth, value)
		}
		if top <= before {
			break
		}
	}
	return thresholds, top / float64(len(p.after))
}

// improve sets the threshold of one depth to the best one given the others, and
// returns the gain summed over the queries.
func (p *prefixes) improve(thresholds []float64, depth int, value func(q, depth, last int) float64) float64 {
	type reached struct{ estimate, gain float64 } // gain of stopping here over continuing
	var list []reached
	now, end := 0.0, len(thresholds)-1
	for q, after := range p.after {
		d := 0
		for d < depth && after[d].estimate < thresholds[d] {
			d++
		}
		if d < depth {
			continue
		}
		for d++; d < end && after[d].estimate < thresholds[d]; {
			d++
		}
		r := reached{after[depth].estimate, value(q, depth, end) - value(q, d, end)}
		if r.estimate >= thresholds[depth] {
			now += r.gain
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b reached) int { return cmp.Compare(b.estimate, a.estimate) })
	best, top, sum := math.Inf(1), 0.0, 0.0
	for i, r := range list {
		sum += r.gain
		if sum > top && (i+1 == len(list) || list[i+1].estimate < r.estimate) {
			best, top = r.estimate, sum
		}
	}
	if !(top > now+1e-9) {
		return 0
	}
	thresholds[depth] = best
	return top - now
}

// levels returns at most n thresholds worth trying: quantiles of all estimates.
func levels(estimates []float64, n int) []float64 {
	all := slices.Compact(slices.Sorted(slices.Values(estimates)))
	if len(all) <= n {
		return all
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(n-1)]
	}
	return slices.Compact(out)
}

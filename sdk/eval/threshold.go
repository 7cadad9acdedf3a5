package eval

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/replay"
)

// costOrders returns the orders that a cascade chooses from: all models from the
// cheapest to the dearest on average, and those alone that are better than all
// cheaper ones, where that leaves any out.
func costOrders(o *Outcomes) [][]int {
	f := singles(o).frame(nil)
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

// prefixes holds the states of a threshold cascade on the train half: after its first j+1 models, the
// estimate of the last one, the money spent and the quality of the answer with the best estimate.
type prefixes struct {
	estimate, cost, quality [][]float64
	// verdict is what the verdict on the last answer costs, which cost does not include,
	// and unjudged the quality of the answer that is best without it.
	verdict, unjudged [][]float64
	uniform           []float64 // thresholds to try at all depths
}

func newPrefixes(ctx context.Context, o *Outcomes, source replay.Source, order []int) (*prefixes, error) {
	p := &prefixes{
		estimate: make([][]float64, len(o.Queries)), cost: make([][]float64, len(o.Queries)), quality: make([][]float64, len(o.Queries)),
		verdict: make([][]float64, len(o.Queries)), unjudged: make([][]float64, len(o.Queries)),
	}
	err := inParallel(ctx, len(o.Queries), func(q int) error {
		met := newAnswers(source.Start(q), len(o.Models))
		spent := 0.0
		for j, model := range order {
			met.run(model)
			spent += o.CostUSD[q][model]
			p.cost[q] = append(p.cost[q], spent)
			p.unjudged[q] = append(p.unjudged[q], o.Quality[q][met.best(order[:j+1])])
			usd := met.judge(model)
			spent += usd
			p.verdict[q] = append(p.verdict[q], usd)
			p.estimate[q] = append(p.estimate[q], met.beliefs[model].Mean)
			p.quality[q] = append(p.quality[q], o.Quality[q][met.best(order[:j+1])])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.uniform = p.levels(60)
	return p, nil
}

// thresholdRule returns the rule of the threshold cascade. For a lambda, it has the
// order, the depth and the thresholds of the greatest mean quality less lambda times
// cost on the train half: one threshold at every depth first, then each in turn as
// long as that helps.
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

// best returns a threshold for each depth, the last of which always stops, and the
// mean value on the train half.
func (p *prefixes) best(lambda float64) ([]float64, float64) {
	depths := len(p.estimate[0])
	value := func(q, depth, last int) float64 {
		if depth == last { // no verdict decides any more
			return p.unjudged[q][depth] - lambda*p.cost[q][depth]
		}
		return p.quality[q][depth] - lambda*(p.cost[q][depth]+p.verdict[q][depth])
	}
	var thresholds []float64
	top := math.Inf(-1)
	for _, t := range p.uniform {
		sums := make([]float64, depths)
		for q, estimates := range p.estimate {
			stop := slices.IndexFunc(estimates, func(e float64) bool { return e >= t })
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
	return thresholds, top / float64(len(p.estimate))
}

// improve sets the threshold of one depth to the best one given the others and
// returns what that gains, summed over the queries.
func (p *prefixes) improve(thresholds []float64, depth int, value func(q, depth, last int) float64) float64 {
	type reached struct{ estimate, gain float64 } // gain of stopping here over going on
	var list []reached
	now, end := 0.0, len(thresholds)-1
	for q, estimates := range p.estimate {
		d := 0
		for d < depth && estimates[d] < thresholds[d] {
			d++
		}
		if d < depth {
			continue
		}
		for d++; d < end && estimates[d] < thresholds[d]; {
			d++
		}
		r := reached{estimates[depth], value(q, depth, end) - value(q, d, end)}
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
func (p *prefixes) levels(n int) []float64 {
	var all []float64
	for _, e := range p.estimate {
		all = append(all, e...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= n {
		return all
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(n-1)]
	}
	return slices.Compact(out)
}

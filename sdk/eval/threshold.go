package eval

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// costOrder returns the models from the cheapest to the dearest on average.
func costOrder(o *Outcomes) []int {
	f := singles(o).frame(nil)
	order := make([]int, len(o.Models))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.Models[a].Cost, f.Models[b].Cost) })
	return order
}

// prefixes holds what a threshold cascade meets on the train half: after its first
// j+1 models, the estimate of the last one, the money spent and the quality of the
// answer with the best estimate.
type prefixes struct {
	estimate, cost, quality [][]float64
}

func newPrefixes(ctx context.Context, o *Outcomes, source Source, order []int) (*prefixes, error) {
	p := &prefixes{
		estimate: make([][]float64, len(o.Queries)), cost: make([][]float64, len(o.Queries)), quality: make([][]float64, len(o.Queries)),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for q := range o.Queries {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			cursor := source.Start(q)
			beliefs, costs := make([]cascade.Belief, len(o.Models)), make([]float64, len(o.Models))
			spent := 0.0
			for j, model := range order {
				cursor.Believe(order[:j+1], beliefs, costs)
				spent += o.CostUSD[q][model]
				answer := order[0]
				for _, m := range order[:j+1] {
					if beliefs[m].Mean > beliefs[answer].Mean {
						answer = m
					}
				}
				p.estimate[q] = append(p.estimate[q], beliefs[model].Mean)
				p.cost[q] = append(p.cost[q], spent)
				p.quality[q] = append(p.quality[q], o.Quality[q][answer])
			}
			return nil
		})
	}
	return p, group.Wait()
}

// thresholdRule returns the rule of the threshold cascade: for a lambda, the depth
// and the one threshold at every depth that have the greatest mean quality less
// lambda times cost on the train half. A threshold for each depth would have as many
// parameters as there are models.
func thresholdRule(ctx context.Context, o *Outcomes, source Source) (Rule, error) {
	order := costOrder(o)
	p, err := newPrefixes(ctx, o, source, order)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		threshold     float64
		depth         int
		cost, quality float64
	}
	var candidates []candidate
	for _, t := range p.levels(60) {
		costs, qualities := make([]float64, len(order)), make([]float64, len(order))
		for q := range p.cost {
			stop := slices.IndexFunc(p.estimate[q], func(e float64) bool { return e >= t })
			if stop < 0 {
				stop = len(order) - 1
			}
			for d := range order {
				costs[d] += p.cost[q][min(stop, d)]
				qualities[d] += p.quality[q][min(stop, d)]
			}
		}
		n := float64(len(p.cost))
		for d := range order {
			candidates = append(candidates, candidate{t, d + 1, costs[d] / n, qualities[d] / n})
		}
	}
	return func(lambda float64) (cascade.Strategy, error) {
		best, value := candidates[0], math.Inf(-1)
		for _, c := range candidates {
			if v := c.quality - lambda*c.cost; v > value {
				best, value = c, v
			}
		}
		return cascade.New(cascade.NameThreshold, cascade.Params{
			Order: order, Thresholds: []float64{best.threshold}, MaxDepth: best.depth,
		})
	}, nil
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

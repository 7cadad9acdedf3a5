package eval

import (
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// pairLevels is the number of thresholds to try for each first model.
const pairLevels = 24

// The thresholds at which every estimate in [0, 1] stops, and at which none does.
const always, never = -1.0, 2.0

// pairTotals has the sums of quality and cost over the train half for one first model,
// threshold and second model.
type pairTotals struct{ quality, cost float64 }

// pairsRule returns the rule of the upper envelope of all cascades of two models. For a
// lambda, it has the first model, the threshold on its estimate and the second model that
// maximise mean quality less lambda times cost on the train half. A threshold that always
// stops is a single model.
func pairsRule(ctx context.Context, on *problem, s *fittedSources) (strategyAt, error) {
	n := len(on.Train.Models)
	pairs := make([]pairsOf, n) // by first model
	err := inParallel(ctx, n, func(first int) (err error) {
		pairs[first], err = pairsFrom(ctx, on.Train, s.Train, first)
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(lambda float64) (cascade.Strategy, error) {
		var params cascade.Params
		top := math.Inf(-1)
		for first, p := range pairs {
			for l, t := range p.levels {
				for second, sum := range p.totals[l] {
					if value := sum.quality - lambda*sum.cost; second != first && value > top {
						top = value
						params = cascade.Params{Order: []int{first, second}, Thresholds: []float64{t, always}, MaxDepth: 2}
					}
				}
			}
		}
		return cascade.New(cascade.NameThreshold, params)
	}, nil
}

// pairsOf has the cascades that begin with one model, by threshold and second model.
type pairsOf struct {
	levels []float64
	totals [][]pairTotals
}

func pairsFrom(ctx context.Context, o *outcome.Table, source replay.Source, first int) (pairsOf, error) {
	n := len(o.Models)
	estimate := make([]float64, len(o.Queries)) // of the first model
	better := make([][]bool, len(o.Queries))    // the second answer is returned
	verdict := make([]float64, len(o.Queries))  // cost of the verdict on the first answer
	for q := range o.Queries {
		if err := ctx.Err(); err != nil {
			return pairsOf{}, err
		}
		met := newAnswers(source.Start(q), n)
		met.run(first)
		verdict[q] = met.judge(first)
		estimate[q] = met.beliefs[first].Mean
		judged := len(met.seen)
		better[q] = make([]bool, n)
		for second := range n {
			if second == first {
				continue
			}
			met.seen = met.seen[:judged]
			met.run(second)
			better[q][second] = met.beliefs[second].Mean > met.beliefs[first].Mean
		}
	}
	p := pairsOf{levels: slices.Concat([]float64{always}, levels(estimate, pairLevels), []float64{never})}
	for _, level := range p.levels {
		sums := make([]pairTotals, n)
		for q := range o.Queries {
			quality, cost := o.Quality[q][first], o.CostUSD[q][first]
			if level > always {
				cost += verdict[q]
			}
			for second := range n {
				s := &sums[second]
				s.quality += quality
				s.cost += cost
				if estimate[q] >= level {
					continue
				}
				s.cost += o.CostUSD[q][second]
				if better[q][second] {
					s.quality += o.Quality[q][second] - quality
				}
			}
		}
		for second := range sums {
			sums[second].quality /= float64(len(o.Queries))
			sums[second].cost /= float64(len(o.Queries))
		}
		p.totals = append(p.totals, sums)
	}
	return p, nil
}

// answers reads the answers to one query of the train half one by one, each first without its verdict if
// that has a price.
type answers struct {
	cursor  replay.Cursor
	paid    replay.VerdictSeller // nil if no verdict has a price
	seen    []int
	beliefs []cascade.Belief
	costs   []float64
}

func newAnswers(c replay.Cursor, models int) *answers {
	a := &answers{cursor: c, beliefs: make([]cascade.Belief, models), costs: make([]float64, models)}
	if s, ok := c.(replay.VerdictSeller); ok && s.SellVerdicts() {
		a.paid = s
	}
	return a
}

// run adds the answer of a model, with its verdict if that is free.
func (a *answers) run(model int) {
	a.seen = append(a.seen, model)
	a.cursor.Believe(a.seen, a.beliefs, a.costs)
}

// judge adds the verdict on the answer of a model that has run, and returns its cost.
func (a *answers) judge(model int) float64 {
	if a.paid == nil {
		return 0
	}
	usd, isApart := a.paid.VerdictUSD(model)
	if !isApart {
		return usd
	}
	if !a.beliefs[model].Bernoulli {
		return 0 // nothing judges it
	}
	a.run(len(a.beliefs) + model)
	return usd
}

// best returns the model with the highest estimate, the first among equals.
func (a *answers) best(models []int) int {
	best := models[0]
	for _, m := range models {
		if a.beliefs[m].Mean > a.beliefs[best].Mean {
			best = m
		}
	}
	return best
}

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

// The rules of other projects, and simple baselines. They are computed on demand only.
const (
	// nameCascadePublished is algorithm 2 over all models that returns the last answer, as in
	// the paper's code, and nameCascadeBest the same with the best answer.
	nameCascadePublished = "cascade_published"
	nameCascadeBest      = "cascade_best"
	// nameCascadeRoutePublished is algorithm 3 as in the paper's code, which uses variances as
	// deviations, and runs the first model of the chosen set instead of the cheapest.
	nameCascadeRoutePublished = "cascade_route_published"
	// namePruned runs the models left by greedy removal, cheapest first, and namePassesPerDollar
	// orders models by passes per dollar on the queries that are still unsolved.
	namePruned          = "pruned"
	namePassesPerDollar = "passes_per_dollar"
	// nameDraftAndVerify is the rule of cascadeflow, and nameGatedLadder that of Firstpass.
	nameDraftAndVerify = "draft_and_verify"
	nameGatedLadder    = "gated_ladder"
	// nameRouteKNN and nameRouteGBT route before the call by nearest neighbours and by boosted
	// trees.
	nameRouteKNN = "route_knn"
	nameRouteGBT = "route_gbt"
)

func rivals() []entry {
	list := []entry{
		{name: nameCascadePublished, note: "algorithm 2 over all models, returns the last answer", rule: fullCascade(cascade.Last)},
		{name: nameCascadeBest, note: "algorithm 2 over all models, returns the best answer", rule: fullCascade(cascade.Best)},
		{name: nameCascadeRoutePublished, note: "algorithm 3 as in the published code", rule: publishedRule},
		{name: namePruned, note: "cheapest first, models removed greedily", rule: ladderRule((*ladders).prune)},
		{name: namePassesPerDollar, note: "most passes for the money first", rule: ladderRule((*ladders).passesPerDollar)},
		{name: nameDraftAndVerify, note: "the cheapest drafts, the best verifies, one threshold", rule: ladderRule((*ladders).draftAndVerify)},
		{name: nameGatedLadder, note: "up the cost-quality front until the gate passes", rule: ladderRule((*ladders).gate)},
		{name: nameRouteKNN, note: "one model, by nearest neighbours", sources: knnSources, rule: byName(cascade.NameRoute, cascade.Params{})},
		{name: nameRouteGBT, note: "one model, by boosted trees", sources: gbtSources, rule: byName(cascade.NameRoute, cascade.Params{})},
	}
	for i := range list {
		list[i].onDemand = true
	}
	return list
}

// fullCascade returns the rule of algorithm 2 over all models by cost.
func fullCascade(answer cascade.AnswerRule) ruleOf {
	return func(_ context.Context, p *problem, _ *fittedSources) (strategyAt, error) {
		return strategyWith(cascade.NameCascade, cascade.Params{Order: costOrders(p.Train)[0], Answer: answer})
	}
}

// publishedCascadeRoute decides as the paper's code does.
type publishedCascadeRoute struct{ *cascade.CascadeRoute }

func (p publishedCascadeRoute) Decide(s *cascade.State) cascade.Decision {
	seen := *s
	seen.Beliefs = slices.Clone(s.Beliefs)
	for i := range seen.Beliefs {
		b := &seen.Beliefs[i]
		variance := b.StdDev * b.StdDev
		if b.Bernoulli {
			variance = b.Mean * (1 - b.Mean)
		}
		b.Bernoulli, b.StdDev = false, variance
	}
	d, plan := p.Plan(&seen, nil)
	if len(plan) > 0 {
		d.Run = slices.Min(plan)
	}
	return d
}

func publishedRule(context.Context, *problem, *fittedSources) (strategyAt, error) {
	return func(lambda float64) (cascade.Strategy, error) {
		base, err := cascade.New(cascade.NameCascadeRoute, cascade.Params{Lambdas: []float64{lambda}, Gamma: 1})
		if err != nil {
			return nil, err
		}
		return publishedCascadeRoute{base.(*cascade.CascadeRoute)}, nil
	}, nil
}

// ladders evaluates fixed orders of models on the train half.
type ladders struct {
	*outcome.Table
	// own is the estimate of each answer after its model alone has run, and levels are thresholds on it.
	// unjudged is the estimate without the verdict, and verdict the verdict's cost.
	own, unjudged, verdict [][]float64
	levels                 []float64
}

func newLadders(o *outcome.Table, source replay.Source) *ladders {
	l := &ladders{Table: o}
	for q := range o.Queries {
		met := newAnswers(source.Start(q), len(o.Models))
		own, unjudged, verdict := make([]float64, len(o.Models)), make([]float64, len(o.Models)), make([]float64, len(o.Models))
		for m := range o.Models {
			met.seen = met.seen[:0]
			met.run(m)
			unjudged[m] = met.beliefs[m].Mean
			verdict[m] = met.judge(m)
			own[m] = met.beliefs[m].Mean
		}
		l.own, l.unjudged, l.verdict = append(l.own, own), append(l.unjudged, unjudged), append(l.verdict, verdict)
	}
	l.levels = levels(slices.Concat(l.own...), 12)
	return l
}

// ladderRule returns the rule that uses, for each lambda, the ladder that maximises mean
// quality less lambda times cost on the train half.
func ladderRule(choose func(l *ladders, lambda float64) cascade.Params) ruleOf {
	return func(_ context.Context, p *problem, s *fittedSources) (strategyAt, error) {
		l := newLadders(p.Train, s.Train)
		return func(lambda float64) (cascade.Strategy, error) {
			return cascade.New(cascade.NameThreshold, choose(l, lambda))
		}, nil
	}
}

// climb returns the value of running models in order until an estimate reaches the
// threshold. The verdict on the last one is not bought.
func (l *ladders) climb(order []int, threshold, lambda float64, answer cascade.AnswerRule) float64 {
	value := 0.0
	for q, own := range l.own {
		best, most := order[0], math.Inf(-1)
		for i, m := range order {
			estimate := l.unjudged[q][m]
			value -= lambda * l.CostUSD[q][m]
			if i < len(order)-1 {
				estimate = own[m]
				value -= lambda * l.verdict[q][m]
			}
			if answer == cascade.Last || estimate > most {
				best, most = m, estimate
			}
			if estimate >= threshold {
				break
			}
		}
		value += l.Quality[q][best]
	}
	return value
}

// bestOf returns the parameters of the ladder with the highest value among orders and
// thresholds, and that value.
func (l *ladders) bestOf(orders [][]int, thresholds []float64, lambda float64, answer cascade.AnswerRule) (params cascade.Params, top float64) {
	top = math.Inf(-1)
	for _, order := range orders {
		for _, t := range thresholds {
			if v := l.climb(order, t, lambda, answer); v > top {
				top = v
				params = cascade.Params{Order: order, Thresholds: []float64{t}, MaxDepth: len(order), Answer: answer}
			}
		}
	}
	return params, top
}

func (l *ladders) prune(lambda float64) cascade.Params {
	best, value := l.bestOf(costOrders(l.Table)[:1], l.levels, lambda, cascade.Best)
	for len(best.Order) > 1 {
		var shorter [][]int
		for i := range best.Order {
			shorter = append(shorter, slices.Delete(slices.Clone(best.Order), i, i+1))
		}
		next, v := l.bestOf(shorter, best.Thresholds, lambda, cascade.Best)
		if v < value {
			break
		}
		best, value = next, v
	}
	return best
}

// passesPerDollar orders models by how many of the queries left unsolved by those before each solves per
// dollar. It also chooses the number of models.
func (l *ladders) passesPerDollar(lambda float64) cascade.Params {
	var params cascade.Params
	top := math.Inf(-1)
	for _, t := range l.levels {
		if best, v := l.bestOf(prefixesOf(l.orderByPasses(t)), []float64{t}, lambda, cascade.Best); v > top {
			params, top = best, v
		}
	}
	return params
}

func (l *ladders) orderByPasses(threshold float64) []int {
	var order []int
	open := make([]int, len(l.Queries))
	for q := range open {
		open[q] = q
	}
	for len(order) < len(l.Models) && len(open) > 0 {
		best, rate := -1, -1.0
		for m := range l.Models {
			passes, cost := 0.0, 0.0
			for _, q := range open {
				passes += l.Quality[q][m]
				cost += l.CostUSD[q][m] + l.verdict[q][m]
			}
			if r := passes / max(cost, 1e-12); r > rate && !slices.Contains(order, m) {
				best, rate = m, r
			}
		}
		order = append(order, best)
		open = slices.DeleteFunc(open, func(q int) bool { return l.own[q][best] >= threshold })
	}
	return order
}

func prefixesOf(order []int) [][]int {
	var out [][]int
	for n := range order {
		out = append(out, order[:n+1])
	}
	return out
}

func (l *ladders) draftAndVerify(lambda float64) cascade.Params {
	f := singles(l.Table).newFrame(nil)
	pair := []int{f.Cheapest, f.Best}
	if f.Cheapest == f.Best {
		pair = pair[:1]
	}
	best, _ := l.bestOf([][]int{pair}, append(slices.Clone(l.levels), never), lambda, cascade.Last)
	return best
}

func (l *ladders) gate(lambda float64) cascade.Params {
	orders := costOrders(l.Table)
	best, _ := l.bestOf(prefixesOf(orders[len(orders)-1]), []float64{0.5}, lambda, cascade.Last)
	return best
}

func byValue(values []float64) []int {
	places := make([]int, len(values))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return places
}

package view

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// prospect is what one lambda would cost and be good for, as the beliefs in the
// traces have it, per step.
type prospect struct {
	Name          string
	Knob          float64
	CostUSD, Mean float64
}

// questionsOf returns the first decisions of the traces that can be taken again at any
// lambda.
func questionsOf(traces []*sdk.Trace) (qs []*question) {
	for _, t := range traces {
		if len(t.Decisions) == 0 || t.Strategy == cascade.NameThreshold {
			continue
		}
		if q, err := ask(t, 0); err == nil && len(q.state.Ran) == 0 {
			qs = append(qs, q)
		}
	}
	return qs
}

// prospects lets the strategy of each trace decide anew at a row of lambdas, on
// through every outcome that it believes possible. Costs are those expected, times off.
// It returns nothing when ctx ends before it does.
func prospects(ctx context.Context, qs []*question, off float64) (curve []prospect, now *prospect, single []prospect) {
	low, high := math.Inf(1), 0.0
	models := map[string]bool{}
	for _, q := range qs {
		for i, c := range q.state.Costs {
			if c > 0 {
				low, high = min(low, c), max(high, c)
			}
			models[q.decision.Models[i].Model] = true
		}
	}
	if high == 0 {
		return nil, nil, nil
	}
	const points = 15
	from, to := 1e-2/high, 1/low
	for i := range points {
		knob := from * math.Pow(to/from, float64(i)/(points-1))
		if ctx.Err() != nil {
			return nil, nil, nil
		}
		p, _ := expected(qs, func(q *question) (cascade.Strategy, error) { return q.at(knob) }, "")
		p.Knob = knob
		curve = append(curve, p)
	}
	slices.SortFunc(curve, func(a, b prospect) int { return cmp.Compare(a.CostUSD, b.CostUSD) })
	at, _ := expected(qs, nil, "")
	for _, name := range slices.Sorted(maps.Keys(models)) {
		p := prospect{Name: name}
		n := 0.0
		for _, q := range qs {
			for i, b := range q.decision.Models {
				if b.Model == name {
					p.CostUSD, p.Mean, n = p.CostUSD+q.state.Costs[i], p.Mean+b.Quality.Mean, n+1
				}
			}
		}
		p.CostUSD, p.Mean = p.CostUSD/n, p.Mean/n
		single = append(single, p)
	}
	for _, list := range [][]prospect{curve, single} {
		for i := range list {
			list[i].CostUSD *= off
		}
	}
	at.CostUSD *= off
	return curve, &at, single
}

// expected is the mean over the questions, each by its own strategy where decide is nil,
// without the model that is named. It is false where no question can be decided so.
func expected(qs []*question, decide func(*question) (cascade.Strategy, error), without string) (p prospect, ok bool) {
	n := 0.0
	for _, q := range qs {
		by := decide
		if by == nil {
			by = func(q *question) (cascade.Strategy, error) { return q.at(q.knob()) }
		}
		s, err := by(q)
		if err != nil {
			continue
		}
		state := q.state
		state.Beliefs = slices.Clone(q.state.Beliefs)
		for i := range state.Beliefs {
			state.Beliefs[i].Look = cascade.Look{} // what a look would find is not played out
		}
		if without != "" {
			state.Infeasible = make([]bool, len(state.Beliefs))
			for i := range state.Infeasible {
				state.Infeasible[i] = q.name(i) == without
			}
		}
		state.Ran = make([]int, 0, len(state.Beliefs))
		cost, mean := walk(s, &state, 1)
		n++
		p.Knob += q.knob()
		p.CostUSD += cost
		p.Mean += mean
	}
	n = max(n, 1)
	p.Knob, p.CostUSD, p.Mean = p.Knob/n, p.CostUSD/n, p.Mean/n
	return p, p.Mean > 0 || p.CostUSD > 0
}

// Three points that have a normal's mean, deviation and kurtosis.
var nodes = [3]struct{ at, weight float64 }{{-math.Sqrt(3), 1.0 / 6}, {0, 2.0 / 3}, {math.Sqrt(3), 1.0 / 6}}

// walk returns the expected cost and quality of a step from a state on, through what
// its verifiers and estimators may say. Branches below a thousandth count as one stop.
func walk(s cascade.Strategy, state *cascade.State, weight float64) (cost, mean float64) {
	d := s.Decide(state)
	if d.Run < 0 || weight < 1e-3 {
		if d.Answer < 0 {
			return 0, 0
		}
		return 0, state.Beliefs[d.Answer].Mean
	}
	was := state.Beliefs[d.Run]
	state.Ran = append(state.Ran, d.Run)
	visit := func(quality, share float64) {
		if share == 0 {
			return
		}
		state.Beliefs[d.Run] = cascade.Belief{Mean: quality}
		c, m := walk(s, state, weight*share)
		cost, mean = cost+share*c, mean+share*m
	}
	switch {
	case was.Bernoulli:
		visit(1, was.Mean)
		visit(0, 1-was.Mean)
	case was.StdDev == 0:
		visit(was.Mean, 1)
	default:
		for _, n := range nodes {
			visit(was.Mean+n.at*was.StdDev, n.weight)
		}
	}
	state.Ran = state.Ran[:len(state.Ran)-1]
	state.Beliefs[d.Run] = was
	return cost + state.Costs[d.Run], mean
}

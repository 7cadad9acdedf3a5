package view

import (
	"context"
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

// prospects lets the strategy of each trace decide anew at a row of lambdas, on
// through every outcome that it believes possible. Costs are those expected, times off.
// It stops early, with fewer traces, when ctx ends.
func prospects(ctx context.Context, traces []*sdk.Trace, off float64) (curve []prospect, now *prospect, single []prospect) {
	var qs []*question
	for _, t := range traces {
		if len(t.Decisions) == 0 || t.Strategy == cascade.NameThreshold {
			continue
		}
		if q, err := ask(t, 0); err == nil && len(q.state.Ran) == 0 {
			qs = append(qs, q)
		}
	}
	if len(qs) == 0 {
		return nil, nil, nil
	}
	low, high := math.Inf(1), 0.0
	for _, q := range qs {
		for _, c := range q.state.Costs {
			if c > 0 {
				low, high = min(low, c), max(high, c)
			}
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
		curve = append(curve, expected(qs, knob, false))
	}
	slices.SortFunc(curve, func(a, b prospect) int {
		if a.CostUSD < b.CostUSD {
			return -1
		}
		return 1
	})
	at := expected(qs, 0, true)
	for _, name := range candidates(traces) {
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

// expected is the mean over the questions, each at its own lambda or all at one.
func expected(qs []*question, knob float64, own bool) prospect {
	p := prospect{Knob: knob}
	for _, q := range qs {
		at := knob
		if own {
			at = q.knob()
			p.Knob += at / float64(len(qs))
		}
		s, err := q.at(at)
		if err != nil {
			continue
		}
		state := q.state
		state.Beliefs = slices.Clone(q.state.Beliefs)
		for i := range state.Beliefs {
			state.Beliefs[i].Look = cascade.Look{} // what a look would find is not played out
		}
		state.Ran = make([]int, 0, len(state.Beliefs))
		cost, mean := walk(s, &state, 1)
		p.CostUSD += cost / float64(len(qs))
		p.Mean += mean / float64(len(qs))
	}
	return p
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

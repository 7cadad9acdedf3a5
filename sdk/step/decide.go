package step

import (
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// depthLimited is an optional interface of strategies that limit the models per step.
type depthLimited interface {
	DepthReached(s *cascade.State) bool
}

func (r *run) decide() cascade.Decision {
	d := r.strategy.Decide(&r.state)
	rec := sdk.Decision{Models: r.recordBeliefs(), Approximate: d.Approximate, Note: r.note, Lambda: r.lambda()}
	r.note = ""
	switch {
	case d.Look:
		rec.Look = r.e.names[d.Run]
	case d.Run != cascade.Stop:
		rec.Run = r.e.names[d.Run]
	}
	if d.Answer != cascade.None {
		rec.Answer = r.e.names[d.Answer]
	}
	if r.e.c.Explain {
		rec.Alternatives = r.explain()
	}
	if r.only >= 0 && (d.Run != r.only || d.Look) {
		d.Run, d.Look = r.only, false
		rec.Note = strings.TrimPrefix(rec.Note+"; "+r.req.Only+" was called instead", "; ")
	}
	r.t.Decisions = append(r.t.Decisions, rec)
	return d
}

// reroutes reports whether another model is called when checks reject the answer with which the strategy
// would end the step: a route ends it after one call, and a threshold can accept an answer unseen.
func (r *run) reroutes() bool {
	switch r.strategy.(type) {
	case *cascade.Route, *cascade.Threshold:
		return true
	}
	return false
}

// reroute returns the model to call after checks rejected all answers so far, or Stop if one passed or
// the strategy does not reroute.
func (r *run) reroute() int {
	if r.isDepthReached() {
		return cascade.Stop
	}
	for _, i := range r.state.Ran {
		if !r.rejected[i] {
			return cascade.Stop
		}
	}
	next := r.routeWithout(r.state.Ran)
	if next != cascade.Stop {
		r.t.Decisions[len(r.t.Decisions)-1].Run = r.e.names[next]
	}
	return next
}

// routeWithout returns the strategy's first choice among the models not in ran, or Stop if the strategy
// does not reroute.
func (r *run) routeWithout(ran []int) int {
	if !r.reroutes() || len(ran) == 0 {
		return cascade.Stop
	}
	s := r.state
	s.Infeasible = slices.Clone(s.Infeasible)
	for _, i := range ran {
		s.Infeasible[i] = true
	}
	s.Ran = nil
	return r.strategy.Decide(&s).Run
}

func (r *run) explain() []sdk.Alternative {
	explainer, ok := r.strategy.(cascade.Explainer)
	if !ok {
		return nil
	}
	why := explainer.Explain(&r.state)
	list := make([]sdk.Alternative, len(why.Alternatives))
	for i, a := range why.Alternatives {
		list[i] = sdk.Alternative{ExpectedMax: finite(a.ExpectedMax), CostUSD: sdk.RoundUSD(a.Cost), Tau: finite(a.Tau), Reservation: finite(a.Reservation)}
		for _, m := range a.Models {
			list[i].Models = append(list[i].Models, r.e.names[m])
		}
	}
	return list
}

// finite clamps infinities, which JSON cannot represent.
func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

func (r *run) lambda() float64 {
	l := r.lambdas
	if len(l) == 0 {
		return 0
	}
	return l[min(len(r.state.Ran), len(l)-1)]
}

// recordBeliefs returns the beliefs about the models that have run or can, for the trace.
func (r *run) recordBeliefs() []sdk.Belief {
	from := len(r.beliefs)
	for i, b := range r.state.Beliefs {
		ran := r.hasRun(i)
		if r.state.Infeasible[i] && !ran {
			continue
		}
		dev := b.StdDev
		if ran {
			dev = r.posts[i].StdDev
		}
		rec := sdk.Belief{
			Model: r.e.names[i], Quality: sdk.Estimate{Mean: b.Mean, StdDev: dev}, CostUSD: sdk.RoundUSD(r.state.Costs[i]), Ran: ran, Judged: b.Bernoulli && !ran, Judge: b.Judge, Shared: b.Shared,
		}
		if len(r.t.Decisions) == 0 {
			rec.Price, rec.OutputTokens = r.priceOf(i), r.expectedTokens(i)
		}
		if l := b.Look; l != (cascade.Look{}) {
			rec.Look = &sdk.Look{Signal: r.sellers[i].Name, StdDev: l.StdDev, CostUSD: sdk.RoundUSD(l.CostUSD)}
			if l.Bernoulli {
				judge := l.Judge
				rec.Look.Judge = &judge
			}
		}
		r.beliefs = append(r.beliefs, rec)
	}
	return r.beliefs[from:len(r.beliefs):len(r.beliefs)]
}

func (r *run) priceOf(i int) *sdk.Price {
	p := &r.e.models[i].Price
	if r.req.Tariff != nil {
		own := r.req.Tariff(i, *p)
		return &own
	}
	return p
}

func (r *run) hasRun(i int) bool {
	return slices.Contains(r.state.Ran, i)
}

func (r *run) isOpen(i int) bool { return !r.state.Infeasible[i] && !r.hasRun(i) }

func (r *run) hasOpen() bool {
	if r.only >= 0 {
		return !r.state.Infeasible[r.only]
	}
	return r.hasOtherOpen(-1)
}

func (r *run) hasOtherOpen(i int) bool {
	for k := range r.e.models {
		if k != i && r.isOpen(k) {
			return true
		}
	}
	return false
}

// isFinal reports whether the step ends with candidate i's answer whatever it is: every answer so far
// was rejected, and the strategy would stop even if this one were worthless.
func (r *run) isFinal(i int) bool {
	if r.only >= 0 {
		return true
	}
	if r.hasPostponed() {
		return false
	}
	for _, k := range r.state.Ran {
		if r.state.Beliefs[k].Mean > 0 {
			return false
		}
	}
	return r.decideAfter(i, 0).Run == cascade.Stop
}

// isUnjudged reports whether only checks will judge candidate i's answer, and the step ends with it
// unless they reject it.
func (r *run) isUnjudged(i int) bool {
	isVerdict := func(v Verifier) bool { return v.As == AsVerdict && !v.Rejects && v.judges(r.q, r.e.names[i]) }
	if !r.state.Beliefs[i].Unseen || slices.ContainsFunc(r.e.c.Verifiers, isVerdict) {
		return false
	}
	d := r.decideAfter(i, r.state.Beliefs[i].Mean)
	return d.Run == cascade.Stop && d.Answer == i
}

// decideAfter returns what the strategy would decide if candidate i had given an answer of that quality.
func (r *run) decideAfter(i int, quality float64) cascade.Decision {
	saved := r.state.Beliefs[i]
	r.state.Beliefs[i] = cascade.Belief{Mean: quality}
	r.state.Ran = append(r.state.Ran, i)
	d := r.strategy.Decide(&r.state)
	r.state.Ran = r.state.Ran[:len(r.state.Ran)-1]
	r.state.Beliefs[i] = saved
	return d
}

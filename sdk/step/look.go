package step

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// note adds what a verifier found to the answer's signals, under its name, and what that
// cost; an inconclusive verdict says nothing.
func note(answer *sdk.Answer, name string, verdict *sdk.Verdict) {
	quality, known := verdict.Quality()
	if !known {
		return
	}
	signals := maps.Clone(answer.Signals)
	if signals == nil {
		signals = map[string]float64{}
	}
	signals[name], signals[name+sdk.SignalCostUSD] = quality, verdict.CostUSD
	answer.Signals = signals
}

// seller returns the verifier from which a look at candidate i's answer can be bought,
// nil for none.
func (r *run) seller(i int, look *sdk.Look) *Verifier {
	for k := range r.e.c.Verifiers {
		v := &r.e.c.Verifiers[k]
		if v.As == AsBought && v.Name == look.Signal && (r.mute == nil || !r.mute[k]) && v.judges(r.q, r.e.names[i]) {
			return v
		}
	}
	return nil
}

// offer takes a look that an estimator offers into candidate i's belief, if there is
// somebody to buy it from.
func (r *run) offer(i int, look *sdk.Look) {
	if look.Signal == "" || !r.looks() {
		return
	}
	v := r.seller(i, look)
	if v == nil || r.has(i, look.Signal) {
		return
	}
	if r.sellers == nil {
		r.sellers = make([]*Verifier, len(r.e.names))
	}
	r.sellers[i] = v
	r.state.Beliefs[i].Look = cascade.LookOf(look.StdDev, look.CostUSD, look.Judge)
}

// has reports whether candidate i has run and its answer has the signal, so that it
// cannot be bought once more.
func (r *run) has(i int, signal string) bool {
	k := slices.Index(r.state.Ran, i)
	if k < 0 {
		return false
	}
	_, had := r.attempts[k].Answer.Signals[signal]
	return had
}

// forSale reports whether a look can be bought at an answer that is there.
func (r *run) forSale() bool {
	return slices.ContainsFunc(r.state.Ran, func(i int) bool { return r.state.Beliefs[i].Look != cascade.Look{} })
}

// buy has candidate i's answer looked at. Who has nothing to say is not asked again in
// this step. The error is that of a verifier whose policy is to fail.
func (r *run) buy(ctx context.Context, i int) error {
	k := slices.Index(r.state.Ran, i)
	if k < 0 || r.state.Beliefs[i].Look == (cascade.Look{}) {
		return r.stopFailed(fmt.Errorf("strategy %s wanted a look at the answer of %s, which is not offered", r.t.Strategy, r.e.names[i]))
	}
	v, answer := r.sellers[i], &r.attempts[k].Answer
	verdict, err := r.ask(ctx, v, answer)
	if err != nil {
		return err
	}
	if verdict.Outcome == sdk.Inconclusive {
		if r.mute == nil {
			r.mute = make([]bool, len(r.e.c.Verifiers))
		}
		for n := range r.e.c.Verifiers {
			r.mute[n] = r.mute[n] || &r.e.c.Verifiers[n] == v
		}
		return nil
	}
	note(answer, v.Name, verdict)
	r.t.Calls[r.callOf[k]].Signals = answer.Signals
	return nil
}

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
// nil for none. A verdict can, where its judge errs and is the only one; in a step that explores all
// answers are judged.
func (r *run) seller(i int, look *sdk.Look) *Verifier {
	var seller *Verifier
	judges := 0
	for k := range r.e.c.Verifiers {
		v := &r.e.c.Verifiers[k]
		if v.As == AsSignal || v.Rejects || !v.judges(r.q, r.e.names[i]) {
			continue
		}
		if v.As == AsVerdict {
			judges++
		}
		if v.Name == look.Signal && (r.mute == nil || !r.mute[k]) {
			seller = v
		}
	}
	if seller != nil && seller.As == AsVerdict &&
		(judges > 1 || !r.judged[i] || r.rates[i] == (cascade.Rates{}) || r.explores || r.only >= 0) {
		return nil
	}
	return seller
}

// offer takes a look that an estimator offers into candidate i's belief, if there is
// somebody to buy it from.
func (r *run) offer(i int, look *sdk.Look) {
	if look.Signal == "" || !r.looks() {
		return
	}
	v, judge := r.seller(i, look), look.Judge
	switch {
	case v == nil:
		return
	case v.As == AsVerdict:
		rates := r.judgeRates(i)
		judge, r.sold = &rates, v
		if !cascade.Buys(r.strategy) {
			return // which has every verdict
		}
	case r.judged[i] && !r.ran(i):
		return // what its verdict leaves to be told is not known
	}
	if r.has(i, v) {
		return
	}
	if r.sellers == nil {
		r.sellers = make([]*Verifier, len(r.e.names))
	}
	r.sellers[i] = v
	r.state.Beliefs[i].Look = cascade.LookOf(look.StdDev, look.CostUSD, judge)
}

// offerVerdicts offers the verdict of the only judge where no estimator does, at the most that one
// has cost: the first is had, so that its price is known.
func (r *run) offerVerdicts() {
	if !cascade.Buys(r.strategy) {
		return
	}
	for k := range r.e.c.Verifiers {
		v := &r.e.c.Verifiers[k]
		usd := r.e.verdictCosts[k].load()
		if v.As != AsVerdict || usd == 0 {
			continue
		}
		for i := range r.state.Beliefs {
			if r.state.Beliefs[i].Look == (cascade.Look{}) {
				r.offer(i, &sdk.Look{Signal: v.Name, CostUSD: usd})
			}
		}
	}
}

// isOnSale reports whether v's verdict on the answer that candidate i gives is had where the
// strategy buys it, or not at all: who could say nothing is not paid again.
func (r *run) isOnSale(v *Verifier, i int) bool {
	return v == r.sold && (r.mute != nil && r.mute[r.e.place(v)] || r.state.Beliefs[i].Look != cascade.Look{})
}

// has reports whether candidate i has run and v has looked at its answer, so that this
// cannot be bought once more.
func (r *run) has(i int, v *Verifier) bool {
	k := slices.Index(r.state.Ran, i)
	if k < 0 {
		return false
	}
	if v.As == AsVerdict {
		return r.attempts[k].Verdict != nil
	}
	_, had := r.attempts[k].Answer.Signals[v.Name]
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
	v, attempt, call := r.sellers[i], &r.attempts[k], r.callRecord(k)
	verdict, err := r.ask(ctx, v, &attempt.Answer, r.attempts[:k])
	if v.As == AsVerdict {
		attempt.Verdict, call.Verdict = verdict, verdict
	}
	if err != nil {
		return err
	}
	r.heed(v, verdict)
	if v.As == AsBought {
		note(&attempt.Answer, v.Name, verdict)
		call.Signals = attempt.Answer.Signals
	}
	return nil
}

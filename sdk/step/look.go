package step

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// addSignal adds a verdict's quality and cost to the answer's signals under the verifier's name; an
// inconclusive verdict adds nothing.
func addSignal(answer *sdk.Answer, name string, verdict *sdk.Verdict) {
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

// seller returns the verifier that provides a look at candidate i's answer, or nil. A verdict can be
// bought only if its judge has error rates and is the only one, and not in steps that explore, where
// every answer is judged.
func (r *run) seller(i int, look *sdk.Look) *verifier {
	var seller *verifier
	judges := 0
	for k := range r.e.verifiers {
		v := &r.e.verifiers[k]
		if v.As == AsSignal || v.Rejects || !v.judges(r.q, r.e.names[i]) {
			continue
		}
		if v.As == AsVerdict {
			judges++
		}
		if v.Name == look.Signal && !slices.Contains(r.inconclusive, v) {
			seller = v
		}
	}
	if seller != nil && seller.As == AsVerdict &&
		(judges > 1 || !r.judged[i] || r.rates[i] == (cascade.Rates{}) || r.explores || r.only >= 0) {
		return nil
	}
	return seller
}

// offer adds a look that an estimator offers to candidate i's belief, if a verifier provides it.
func (r *run) offer(i int, look *sdk.Look) {
	if look.Signal == "" || !r.judgesAnswers() {
		return
	}
	v, judge := r.seller(i, look), look.Judge
	switch {
	case v == nil:
		return
	case v.As == AsVerdict:
		rates := r.judgeRates(i)
		judge, r.soldJudge = &rates, v
		if !cascade.Buys(r.strategy) {
			return // every verdict is requested anyway
		}
	case r.judged[i] && !r.hasRun(i):
		return // how much a look adds to the verdict is unknown
	}
	if r.hasLook(i, v) {
		return
	}
	if r.sellers == nil {
		r.sellers = make([]*verifier, len(r.e.names))
	}
	r.sellers[i] = v
	r.state.Beliefs[i].Look = cascade.LookOf(look.StdDev, look.CostUSD, judge)
}

// offerVerdicts offers the verdict of a sole judge wherever no estimator offers a look, at the highest
// cost of its verdicts so far. The first verdict is always requested, which establishes the price.
func (r *run) offerVerdicts() {
	if !cascade.Buys(r.strategy) {
		return
	}
	for k := range r.e.verifiers {
		v := &r.e.verifiers[k]
		usd := v.cost.load()
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

// isOnSale reports whether v does not run on candidate i's answer by itself: its verdict is left for the
// strategy to buy, or v was inconclusive in this step and is not paid again.
func (r *run) isOnSale(v *verifier, i int) bool {
	return v == r.soldJudge && (slices.Contains(r.inconclusive, v) || r.state.Beliefs[i].Look != cascade.Look{})
}

func (r *run) hasLook(i int, v *verifier) bool {
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

func (r *run) hasLookForSale() bool {
	return slices.ContainsFunc(r.state.Ran, func(i int) bool { return r.state.Beliefs[i].Look != cascade.Look{} })
}

// buy runs the seller of the look at candidate i's answer. The error is that of a verifier with
// UnavailableFail, or of a strategy that chose a look not on offer.
func (r *run) buy(ctx context.Context, i int) error {
	k := slices.Index(r.state.Ran, i)
	if k < 0 || r.state.Beliefs[i].Look == (cascade.Look{}) {
		return r.stopFailed(fmt.Errorf("strategy %s wanted a look at the answer of %s, which is not offered", r.t.Strategy, r.e.names[i]))
	}
	v, attempt, call := r.sellers[i], &r.attempts[k], r.callRecord(k)
	verdict, err := r.askVerifier(ctx, v, &attempt.Answer, r.attempts[:k])
	if v.As == AsVerdict {
		attempt.Verdict, call.Verdict = verdict, verdict
	}
	if err != nil {
		return err
	}
	r.noteConclusive(v, verdict)
	if v.As == AsBought {
		addSignal(&attempt.Answer, v.Name, verdict)
		call.Signals = attempt.Answer.Signals
	}
	return nil
}

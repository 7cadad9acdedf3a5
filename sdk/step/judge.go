package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
)

// verifier is a verifier of the configuration, with what earlier steps have shown about it.
type verifier struct {
	*Verifier
	cooldown cooldown // verdicts that its limits ended
	silence  silence
	cost     verdictCost
}

func (v *Verifier) judges(q *sdk.Query, model string) bool {
	return (v.Models == nil || slices.Contains(v.Models, model)) && (v.Applies == nil || v.Applies(q))
}

// updateJudges sets judged and rates for the candidates whose answers a verifier will judge. Verifiers that
// were inconclusive in this step, or mostly are on such queries, do not count.
func (r *run) updateJudges() {
	clear(r.judged)
	if !r.judgesAnswers() {
		return
	}
	for k := range r.e.verifiers {
		v := &r.e.verifiers[k]
		if v.Rejects || v.As != AsVerdict || slices.Contains(r.inconclusive, v) || v.silence.isSilent(r.q) {
			continue
		}
		for i, name := range r.e.names {
			if !v.judges(r.q, name) {
				continue
			}
			var rates cascade.Rates
			if v.Rates != nil {
				rates = *v.Rates
			}
			if r.judged[i] {
				rates = rates.And(r.rates[i])
			}
			r.judged[i], r.rates[i] = true, rates
		}
	}
}

func (r *run) judgesAnswers() bool { return r.only < 0 || r.req.Observe }

// noCall is the callOf entry of an answer that another step has paid for.
const noCall = -1

// callRecord returns the trace's record of the k-th answer's call, or a throwaway one if there was no call.
func (r *run) callRecord(k int) *sdk.Call {
	if at := r.callOf[k]; at != noCall {
		return &r.t.Calls[at]
	}
	return &sdk.Call{}
}

// judge checks and verifies candidate i's answer and adds it to the step. The error is that of a verifier
// with UnavailableFail.
func (r *run) judge(ctx context.Context, i int, answer *sdk.Answer) error {
	verdict, err := r.assess(ctx, i, answer)
	r.callOf = append(r.callOf, len(r.t.Calls)-1)
	if r.isPaid(i) {
		r.callOf[len(r.attempts)] = noCall
	}
	record(r.callRecord(len(r.attempts)), answer, verdict)
	r.attempts = append(r.attempts, sdk.Attempt{Answer: *answer, Verdict: verdict})
	r.state.Ran = append(r.state.Ran, i)
	return err
}

// record copies into rec what is known about an answer once it is judged.
func record(rec *sdk.Call, answer *sdk.Answer, verdict *sdk.Verdict) {
	rec.Verdict, rec.Signals, rec.Key = verdict, answer.Signals, answer.Key
	if len(answer.ToolCalls) > 0 {
		rec.Tools = feature.ToolsOf(answer)
	}
}

// assess adds the free signals to an answer and runs checks and verifiers on it.
func (r *run) assess(ctx context.Context, i int, answer *sdk.Answer) (*sdk.Verdict, error) {
	if v := r.cut; v != nil {
		own := *v
		own.Outcome = sdk.Failed
		r.rejected[i] = true
		r.partial = append(r.partial, i)
		return &own, nil
	}
	addFreeSignals(answer, r.attempts)
	verdict := r.check(i, answer)
	if verdict != nil || !r.judgesAnswers() {
		return verdict, nil
	}
	if r.isPaid(i) {
		return r.req.Paid.Verdict, nil
	}
	verdict, err := r.verify(ctx, i, answer)
	if r.only >= 0 {
		err = nil // askVerifier has noted it
	}
	return verdict, err
}

// check runs the free checks and returns a Failed verdict for the first fault, else nil.
func (r *run) check(i int, answer *sdk.Answer) *sdk.Verdict {
	for _, k := range r.e.c.Checks {
		fault, err := guard(func() (string, error) { return k.Fault(r.q, answer, r.attempts), nil })
		if err != nil {
			r.addNote("check " + k.Name + ": " + err.Error())
			continue
		}
		if fault != "" {
			r.rejected[i] = true
			return &sdk.Verdict{Verifier: k.Name, Outcome: sdk.Failed, Evidence: fault}
		}
	}
	return nil
}

// verify runs the verifiers in order until one rejects candidate i's answer, and merges their verdicts: a
// pass has the lowest of their confidences. After a pass, a further verifier runs only if its verdict is
// expected to be worth its price.
func (r *run) verify(ctx context.Context, i int, answer *sdk.Answer) (*sdk.Verdict, error) {
	var merged *sdk.Verdict
	for k := range r.e.verifiers {
		v := &r.e.verifiers[k]
		if v.As == AsBought || !v.judges(r.q, answer.Model) || r.isOnSale(v, i) {
			continue
		}
		if v.As == AsVerdict && merged != nil && merged.Outcome == sdk.Passed && !r.isWorthAsking(v, i, merged) {
			continue
		}
		verdict, err := r.askVerifier(ctx, v, answer, r.attempts)
		if err != nil {
			return merged, err
		}
		if v.As == AsSignal {
			addSignal(answer, v.Name, verdict)
			continue
		}
		r.noteConclusive(v, verdict)
		merged = merge(merged, verdict)
		if verdict.Outcome == sdk.Failed {
			break
		}
	}
	return merged, nil
}

// noteConclusive records whether v's verdict was conclusive. If not, v is no longer expected to judge
// answers of this step.
func (r *run) noteConclusive(v *verifier, verdict *sdk.Verdict) {
	if verdict.Outcome != sdk.Inconclusive {
		return
	}
	r.inconclusive = append(r.inconclusive, v)
	r.updateJudges()
}

// isWorthAsking reports whether another verifier's verdict on candidate i's answer, which others passed,
// is expected to gain more than it costs, and notes both figures. It is if the verdict is free, if the
// verifier's error rates are unknown, and if the strategy puts no price on cost.
func (r *run) isWorthAsking(v *verifier, i int, before *sdk.Verdict) bool {
	lambda := r.lambda()
	price := lambda * cmp.Or(v.cost.load(), v.MaxCostUSD)
	if price == 0 || v.Rates == nil || r.only >= 0 {
		return true
	}
	ifRight, ifWrong := likelihoods(before)
	belief := cascade.Posterior(min(max(r.state.Beliefs[i].Mean, 0), 1), ifRight, ifWrong)
	// The best alternative to this answer: another one, or a model that can still be called.
	beside := 0.0
	for k, b := range r.state.Beliefs {
		switch {
		case k == i:
		case r.hasRun(k):
			beside = max(beside, r.posts[k].Mean)
		case !r.state.Infeasible[k]:
			beside = max(beside, min(cascade.ReservationValue(b, lambda*r.state.Costs[k]), 1))
		}
	}
	gain := v.Rates.Gain(belief, beside)
	isWorth := gain > price
	does := "is not asked"
	if isWorth {
		does = "is also asked"
	}
	r.addNote(fmt.Sprintf("verifier %s %s: its verdict is expected to gain %.4f and costs %.4f in quality", v.Name, does, gain, price))
	return isWorth
}

// merge combines the verdicts of two verifiers on one answer. Costs and durations add up.
func merge(a, b *sdk.Verdict) *sdk.Verdict {
	if a == nil {
		return b
	}
	keep := *b
	if b.Outcome == sdk.Inconclusive {
		keep = *a
	} else if a.Outcome == sdk.Passed && b.Outcome == sdk.Passed {
		if confidence(a) < confidence(b) {
			keep = *a
		}
		keep.Score = min(a.Score, b.Score)
	}
	if b.Outcome != sdk.Inconclusive && (a.Errs() || b.Errs()) {
		right, wrong := likelihoods(a)
		keep.IfRight, keep.IfWrong = likelihoods(b)
		keep.IfRight, keep.IfWrong = keep.IfRight*right, keep.IfWrong*wrong
	}
	keep.CostUSD, keep.Duration = a.CostUSD+b.CostUSD, a.Duration+b.Duration
	return &keep
}

// likelihoods returns the probability of v if the answer is right and if it is wrong. Without error rates
// both errors are taken to be equally frequent.
func likelihoods(v *sdk.Verdict) (ifRight, ifWrong float64) {
	if v.Errs() {
		return v.IfRight, v.IfWrong
	}
	q, known := v.Quality()
	if !known {
		return 1, 1
	}
	return q, 1 - q
}

func confidence(v *sdk.Verdict) float64 {
	if v.Confidence == 0 {
		return 1
	}
	return v.Confidence
}

// weigh sets a verdict's likelihoods from v's error rates, or full confidence if they are zero.
func (v *Verifier) weigh(verdict *sdk.Verdict) {
	switch {
	case v.Rates == nil || v.As != AsVerdict || verdict.Outcome == sdk.Inconclusive:
	case *v.Rates == cascade.Rates{}:
		verdict.Confidence = 1
	default:
		verdict.IfRight, verdict.IfWrong = v.Rates.Likelihoods(verdict.Outcome == sdk.Passed)
	}
}

// verdictCost tracks what a verifier's verdicts cost, in US dollars. The zero value has seen none.
type verdictCost struct {
	mu           sync.Mutex
	isKnown      bool // there has been a verdict
	worst, least float64
}

// load returns the highest cost to expect of one verdict: the maximum so far, or less after forget.
func (c *verdictCost) load() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worst
}

func (c *verdictCost) observe(usd float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isKnown {
		c.isKnown, c.least = true, usd
	}
	c.worst, c.least = max(c.worst, usd), min(c.least, usd)
}

// forget halves the expected cost, but not below the lowest so far. It is called when a cap has no room
// for a verdict, so that one expensive verdict does not exclude the verifier forever.
func (c *verdictCost) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worst = max(c.worst/2, c.least)
}

// pausedVerdict returns an inconclusive verdict if v is paused because its limits ended too many of its
// verdicts in a row, else nil.
func (r *run) pausedVerdict(v *verifier) *sdk.Verdict {
	left := v.cooldown.pauseLeft(r.e.c.Now())
	if left <= 0 {
		return nil
	}
	note := fmt.Sprintf("verifier %s%s: it is asked again in %s", v.Name, NotePaused, left.Round(time.Second))
	r.addNote(note)
	return &sdk.Verdict{Verifier: v.Name, Evidence: note}
}

// errVerifierLate is the cause of a context that ended by the verifier's own timeout.
var errVerifierLate = fmt.Errorf("no verdict within the timeout: %w", context.DeadlineExceeded)

// callVerifier calls v. The verdict is never nil; on an error it is inconclusive and has the cost.
func (r *run) callVerifier(ctx context.Context, v *verifier, req *sdk.VerifyRequest) (*sdk.Verdict, error) {
	from := r.e.c.Now()
	verdict, err := guard(func() (*sdk.Verdict, error) { return v.Verifier.Verifier.Verify(ctx, req) })
	spent := r.e.c.Now().Sub(from)
	r.waited += spent
	if err == nil && verdict == nil {
		err = fmt.Errorf("no verdict and no error")
	}
	usd := 0.0
	if err == nil {
		copied := *verdict
		verdict = &copied
		verdict.CostUSD = plausibleUSD(verdict.CostUSD)
		usd = verdict.CostUSD
		switch {
		case verdict.Outcome < sdk.Inconclusive || verdict.Outcome > sdk.Failed:
			err = fmt.Errorf("a verdict with the unknown outcome %d", verdict.Outcome)
		case !(verdict.Score >= 0 && verdict.Score <= 1) || !(verdict.Confidence >= 0 && verdict.Confidence <= 1):
			err = fmt.Errorf("a verdict with the score %v and the confidence %v, which are not in [0, 1]", verdict.Score, verdict.Confidence)
		}
	}
	if err != nil {
		verdict = &sdk.Verdict{Evidence: "unavailable: " + err.Error(), CostUSD: usd + plausibleUSD(sdk.SpentUSD(err))}
	}
	verdict.Verifier = cmp.Or(verdict.Verifier, v.Name)
	verdict.Duration = cmp.Or(verdict.Duration, spent)
	budget := sdk.ModelBudgetOf(ctx)
	isEnded := budget != nil && budget.Spent.Load() || errors.Is(context.Cause(ctx), errVerifierLate)
	if err == nil || isEnded && v.OnUnavailable == UnavailableAbstain {
		v.cooldown.observe(from.Add(spent), !isEnded || verdict.Outcome != sdk.Inconclusive, maxRefusals)
	}
	return verdict, err
}

// askVerifier runs v on an answer under a reservation. earlier holds the attempts before the answer.
func (r *run) askVerifier(ctx context.Context, v *verifier, answer *sdk.Answer, earlier []sdk.Attempt) (*sdk.Verdict, error) {
	if verdict := r.pausedVerdict(v); verdict != nil {
		return verdict, nil
	}
	var held Reservation
	worst := max(v.MaxCostUSD, v.cost.load())
	if worst > 0 {
		var err error
		if held, err = r.reserve(ctx, worst); err != nil {
			r.addNote("verifier " + v.Name + NoteNoRoom + err.Error())
			v.cost.forget()
			return &sdk.Verdict{Verifier: v.Name, Evidence: err.Error()}, nil
		}
	}
	verifyCtx, own := ctx, (*purse)(nil)
	if v.CallsModels && r.hasCap {
		verifyCtx, own = r.openPurse(ctx, worst)
	}
	if v.CallsModels && v.MaxCostUSD > 0 {
		verifyCtx = sdk.WithModelBudget(verifyCtx, v.MaxCostUSD)
	}
	if v.Timeout > 0 {
		var cancel context.CancelFunc
		verifyCtx, cancel = context.WithTimeoutCause(verifyCtx, v.Timeout, errVerifierLate)
		defer cancel()
	}
	verdict, err := r.callVerifier(verifyCtx, v, &sdk.VerifyRequest{Query: r.q, Answer: answer, Earlier: earlier})
	stands := 0.0
	if err != nil && verdict.CostUSD == 0 && verifyCtx.Err() != nil {
		// The verifier was interrupted: the cost of its model calls is unknown.
		stands = worst
	}
	if err == nil || verdict.CostUSD > 0 {
		v.cost.observe(verdict.CostUSD)
	}
	if v.MaxCostUSD > 0 && nearestPico(verdict.CostUSD) > nearestPico(v.MaxCostUSD) {
		r.addNote(fmt.Sprintf("verifier %s%s: %.6g USD, and max_usd is %.6g", v.Name, NoteOverMaxCost, verdict.CostUSD, v.MaxCostUSD))
	}
	r.noteSettling(r.settlePurse(ctx, own, held, verdict.CostUSD, stands))
	if err == nil {
		v.weigh(verdict)
	} else {
		r.addNote("verifier " + v.Name + " unavailable: " + err.Error())
		switch v.OnUnavailable {
		case UnavailableFail:
			return verdict, fmt.Errorf("%w: %s: %w", ErrVerifierUnavailable, v.Name, err)
		case UnavailableAccept:
			verdict.Outcome, verdict.Score = sdk.Passed, 1
		}
	}
	if v.As == AsVerdict {
		v.silence.count(r.q, verdict.Outcome != sdk.Inconclusive)
	}
	return verdict, nil
}

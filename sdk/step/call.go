package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// maxTries bounds the tries at one model, however often its caller sets CallError.Elsewhere.
const maxTries = 100

// call calls candidate i, with retries. A model that gives no answer leaves the step, and one that must be
// waited for is postponed while another can be called.
func (r *run) call(ctx context.Context, i int, final bool) (*sdk.Answer, error) {
	m := &r.e.models[i]
	if r.isPaid(i) {
		r.addNote("the answer of " + m.Name + " is that of its own step, and is not paid for again")
		r.shown, r.cut = false, nil
		answer := r.req.Paid.Answer
		return &answer, nil
	}
	most := r.demandOf(i)
	attempt, round := r.resume(ctx, i)
	for ; ; attempt++ {
		answer, err := r.try(ctx, i, attempt, &most, final)
		if err == nil {
			if r.isCapped = false; most.usd >= r.capWorstUSD {
				r.capErr, r.capWorstUSD = nil, most.usd
			}
			return answer, nil
		}
		if errors.Is(err, sdk.ErrBudgetExhausted) {
			if most.usd > r.capWorstUSD {
				r.capErr, r.capWorstUSD = err, most.usd
			}
			r.isCapped = true
			r.drop(i, err.Error())
			return nil, err
		}
		if errors.Is(err, sdk.ErrStoreUnavailable) {
			// No model can be called under the caps, which is no failure of a model.
			r.failures = append(r.failures, err)
			for k := range r.e.models {
				if r.isOpen(k) {
					r.drop(k, err.Error())
				}
			}
			return nil, err
		}
		if failed, ok := errors.AsType[*CallError](err); ok && failed.Elsewhere && ctx.Err() == nil && attempt < maxTries {
			continue
		}
		wait, again := r.backOff(err, round)
		round++
		if ctx.Err() != nil || !again {
			err = fmt.Errorf("model %s: %w", m.Name, err)
			r.failures = append(r.failures, err)
			r.drop(i, "call failed")
			return nil, err
		}
		if wait > r.e.c.Retry.SwitchAfter && r.hasAlternative(i) {
			r.postpone(i, postponedCall{attempt: attempt + 1, round: round, until: r.e.c.Now().Add(wait), err: err})
			return nil, err
		}
		r.pause(ctx, wait)
	}
}

// isPaid reports whether another step has paid for an answer of candidate i.
func (r *run) isPaid(i int) bool { return r.req.Paid != nil && r.req.Paid.Answer.Model == r.e.names[i] }

// pause waits without counting the time as the engine's overhead.
func (r *run) pause(ctx context.Context, d time.Duration) {
	from := r.e.c.Now()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	r.waited += r.e.c.Now().Sub(from)
}

// try makes one call under a reservation and records it. If callPair has already started the first call,
// try waits for that.
func (r *run) try(ctx context.Context, i, attempt int, most *demand, final bool) (*sdk.Answer, error) {
	rec := r.newCall(i, attempt)
	from := r.e.c.Now()
	if e := r.earlyCalls[i]; e != nil && attempt == 1 {
		delete(r.earlyCalls, i)
		<-e.done
		e.cancel()
		r.shown, r.cut = false, nil
		rec.Start, rec.Latency = e.start, e.latency
		r.waited += r.e.c.Now().Sub(from)
		r.book(ctx, &rec, i, e.answer, e.err, &e.most, e.held)
		return e.answer, e.err
	}
	held, err := r.reserve(ctx, most.usd)
	if errors.Is(err, sdk.ErrBudgetExhausted) && r.mayWait(i) {
		held, err = r.await(ctx, most.usd, err)
	}
	if err != nil {
		return nil, err
	}
	rec.Start = r.e.c.Now()
	answer, err := guard(func() (*sdk.Answer, error) {
		c := &Call{Query: r.q, Model: &r.e.models[i], Index: i, Attempt: attempt, MaxOutputTokens: most.limit, Earlier: r.attempts, Final: final, Unseen: r.req.Commit && r.isUnjudged(i), Spare: (!final || r.reroutes()) && r.hasSpare(i, most.usd)}
		defer func() { r.shown, r.cut = c.Shown, c.Cut }()
		return r.req.Caller.Call(ctx, c)
	})
	rec.Latency = r.e.c.Now().Sub(rec.Start)
	r.waited += rec.Latency
	if err == nil && answer == nil {
		err = errors.New("the caller returned neither an answer nor an error")
	}
	r.book(ctx, &rec, i, answer, err, most, held)
	return answer, err
}

func (r *run) newCall(i, attempt int) sdk.Call {
	m := &r.e.models[i]
	rec := sdk.Call{Model: m.Name, Provider: m.Provider, Served: m.Served, Attempt: attempt}
	if r.e.c.Explore > 0 {
		rec.Propensity = 1
	}
	if h := r.t.Holdout; h.UsesBaseline() && !h.Fallback {
		rec.Propensity = h.Share
	}
	return rec
}

// book records a call that has ended, and settles what was reserved for it.
func (r *run) book(ctx context.Context, rec *sdk.Call, i int, answer *sdk.Answer, err error, most *demand, held Reservation) {
	var stands float64
	if err != nil {
		stands = r.recordFailure(rec, i, err, most)
		if failed, ok := errors.AsType[*CallError](err); ok && failed.Cancelled || errors.Is(ctx.Err(), context.Canceled) {
			rec.StopReason = sdk.StopReasonCancelled
		}
	} else {
		stands = r.recordAnswer(rec, i, answer, most)
	}
	rec.CostUSD = sdk.RoundUSD(rec.CostUSD)
	r.t.Usage = r.t.Usage.Add(rec.Usage)
	r.t.Calls = append(r.t.Calls, *rec)
	if stands > rec.CostUSD && r.hasCap {
		r.addNote(fmt.Sprintf("the cost of %s is unknown: its worst case of %.6g USD counts under the caps", rec.Model, stands))
	}
	r.noteSettling(r.settle(ctx, held, rec.CostUSD, stands))
}

func (r *run) noteSettling(err error) {
	if err != nil {
		r.addNote("settling: " + err.Error())
	}
}

// recordFailure fills in rec for a failed call, and returns what stays booked under the caps if its
// bill is unknown.
func (r *run) recordFailure(rec *sdk.Call, i int, err error, most *demand) (stands float64) {
	rec.Error = err.Error()
	failed, ok := errors.AsType[*CallError](err)
	if !ok {
		if _, panicked := errors.AsType[*PanicError](err); panicked {
			return most.usd // it can have happened after the server answered
		}
		return 0
	}
	if failed.Refused {
		rec.StopReason = sdk.StopReasonRefused
		r.refusals++
	}
	rec.Usage, rec.CostUSD, rec.Deployment = failed.Usage, plausibleUSD(failed.CostUSD), failed.Deployment
	if rec.UsageDoubt = most.refute(rec.Usage, nil); rec.UsageDoubt != "" {
		rec.Usage = sdk.Usage{}
	}
	if failed.Billed && rec.CostUSD == 0 {
		stands = most.usd // the reported usage of an interrupted call can be incomplete
		switch expected := r.billedUsage(i); {
		case rec.Usage == (sdk.Usage{}):
			rec.Usage = expected
		case rec.Usage.Estimated:
			rec.UsageDoubt = "the answer had not ended"
			if rec.Usage.OutputTokens == 0 && r.req.Mode != sdk.ModeEmbeddings {
				rec.Usage.OutputTokens = max(0, expected.OutputTokens-rec.Usage.ReasoningTokens)
			}
		}
	}
	rec.CostUSD = cmp.Or(rec.CostUSD, most.price.CostUSD(rec.Usage))
	return stands
}

// shownTokens estimates the tokens of an answer's text if far more are billed as output, else returns 0.
// The estimate is scaled by the ratio of the prompt's billed tokens to the counted ones.
func shownTokens(a *sdk.Answer, counted int) int {
	bytes := len(a.Text)
	for i := range a.ToolCalls {
		bytes += len(a.ToolCalls[i].Name) + len(a.ToolCalls[i].Arguments)
	}
	const bytesPerToken, slack = 4, 64
	n := max(1, bytes/bytesPerToken)
	if prompt := a.Usage.InputTokens + a.Usage.CachedInputTokens + a.Usage.CacheWriteTokens; prompt > 0 && counted > 0 {
		n = max(1, int(float64(n)*min(max(float64(prompt)/float64(counted), 0.5), 2)))
	}
	if a.Usage.Estimated || a.Usage.ReasoningTokens > 0 || a.Usage.OutputTokens <= 2*n+slack {
		return 0
	}
	return n
}

// recordAnswer completes an answer, fills in rec, and returns what stays booked under the caps if the
// bill is unknown. Under a cap, an answer with missing or impossible usage costs what was reserved.
func (r *run) recordAnswer(rec *sdk.Call, i int, answer *sdk.Answer, most *demand) (stands float64) {
	m := &r.e.models[i]
	answer.Model = m.Name
	if answer.Latency == 0 {
		answer.Latency = rec.Latency
	}
	if rec.UsageDoubt = most.bookAnswer(answer, r.cut == nil, r.hasCap); rec.UsageDoubt != "" {
		r.addNote(m.Name + ": estimated: " + rec.UsageDoubt)
	}
	if factor := cmp.Or(answer.PriceFactor, 1); factor != 1 {
		r.addNote(fmt.Sprintf("%s: served at %.3g times the price of what was asked for", m.Name, factor))
	}
	rec.Usage, rec.CostUSD, rec.StopReason, rec.Deployment = answer.Usage, answer.CostUSD, answer.StopReason, answer.Deployment
	rec.NotSent, rec.ShownTokens = answer.NotSent, shownTokens(answer, r.q.InputTokens)
	if most.hosted > 0 && rec.Usage.HostedCalls == 0 && !answer.ListsHostedCalls { // they can be billed all the same
		stands = min(rec.CostUSD+most.hosted, max(rec.CostUSD, most.usd))
	}
	if r.cut != nil {
		answer.StopReason, rec.StopReason = sdk.StopReasonCancelled, sdk.StopReasonCancelled
		if answer.Usage.Estimated {
			stands = most.usd
		}
	}
	if r.e.c.TraceAnswers {
		rec.Answer = answer.Text
	}
	return stands
}

// reserve reserves usd under the step's cap and in the ledger.
func (r *run) reserve(ctx context.Context, usd float64) (Reservation, error) {
	return r.reserveMore(ctx, 0, usd)
}

// reserveMore reserves usd in addition to what is, or is about to be, reserved.
func (r *run) reserveMore(ctx context.Context, reserved, usd float64) (Reservation, error) {
	if r.exceedsStepCap(reserved, usd) {
		return nil, fmt.Errorf("step: %.6g USD spent, %.6g reserved, up to %.6g more for the next call, cap %.6g: %w", r.spent, r.uncertainUSD+reserved, usd, r.e.c.StepCapUSD, sdk.ErrBudgetExhausted)
	}
	if r.e.c.Ledger == nil {
		return nil, nil
	}
	held, err := r.e.c.Ledger.Reserve(ctx, r.q, usd)
	if err != nil {
		return nil, fmt.Errorf("reserving %.6g USD: %w", usd, err)
	}
	return held, nil
}

// exceedsStepCap reports whether the step's cap has no room for usd in addition to what is reserved.
func (r *run) exceedsStepCap(reserved, usd float64) bool {
	limit := r.e.c.StepCapUSD
	return limit > 0 && nearestPico(r.spent+r.uncertainUSD+reserved)+ceilPico(usd) > nearestPico(limit)
}

// await reserves usd once calls in flight have made room, within what is left of the step's CapWait.
func (r *run) await(ctx context.Context, usd float64, refused error) (Reservation, error) {
	if r.e.waitable == nil || r.capWaited >= r.e.c.CapWait || r.exceedsStepCap(0, usd) {
		return nil, refused
	}
	from := r.e.c.Now()
	held, err := r.e.waitable.await(ctx, r.q, usd, r.e.c.CapWait-r.capWaited)
	took := r.e.c.Now().Sub(from)
	r.waited += took
	r.capWaited += took
	if err != nil {
		return nil, fmt.Errorf("reserving %.6g USD: %w", usd, err)
	}
	r.addNote(fmt.Sprintf("waited %v for room under a cap", took.Round(time.Millisecond)))
	return held, nil
}

// mayWait reports whether to wait if a cap has no room for candidate i: without i the step would end,
// fail at the cap, or continue with a model that needs as much room. A step that holds a reservation
// itself must not wait, since it might wait for its own.
func (r *run) mayWait(i int) bool {
	if r.isExploring || len(r.earlyCalls) > 0 {
		return false
	}
	if r.only >= 0 || r.e.c.FailAtCap {
		return true
	}
	// The strategy may never choose the feasible models that are left.
	s := r.state
	s.Infeasible = slices.Clone(s.Infeasible)
	s.Infeasible[i] = true
	if !slices.Contains(s.Infeasible, false) {
		return true
	}
	next := r.strategy.Decide(&s)
	return next.Run == cascade.Stop || !next.Look && r.demandOf(next.Run).usd >= r.demandOf(i).usd
}

// settle books usd, or stands if that is more because the bill is unknown, even if ctx has ended.
func (r *run) settle(ctx context.Context, held Reservation, usd, stands float64) error {
	r.spent += usd
	r.uncertainUSD += max(0, stands-usd)
	if held == nil && max(usd, stands) > 0 && r.e.c.Ledger != nil {
		var err error
		if held, err = r.e.c.Ledger.Reserve(context.WithoutCancel(ctx), r.q, 0); err != nil {
			return fmt.Errorf("booking %.6g USD that were not reserved: %w", usd, err)
		}
	}
	if held == nil {
		return nil
	}
	return settle(context.WithoutCancel(ctx), held, usd, stands)
}

// backOff returns how long to wait before the next try, and whether there should be one.
func (r *run) backOff(err error, attempt int) (time.Duration, bool) {
	failed, ok := errors.AsType[*CallError](err)
	limits := r.e.c.Retry
	if !ok || !failed.Retry || r.req.NoRetry || attempt >= limits.MaxAttempts {
		return 0, false
	}
	if failed.After > 0 {
		return failed.After, failed.After <= limits.MaxDelay
	}
	delay := min(limits.BaseDelay, limits.MaxDelay)
	for range attempt - 1 {
		delay = min(2*delay, limits.MaxDelay)
	}
	return delay - rand.N(delay/2+1), true
}

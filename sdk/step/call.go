package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// maxTries bounds the tries at one model whatever its caller says.
const maxTries = 100

// call asks candidate i, again if need be. A model that gives no answer leaves the step,
// and one that has to be waited for stands aside while another can be asked.
func (r *run) call(ctx context.Context, i int, final bool) (*sdk.Answer, error) {
	m := &r.e.models[i]
	worst := r.worst(i)
	attempt, round := r.comeBack(ctx, i)
	for ; ; attempt++ {
		answer, err := r.try(ctx, i, attempt, worst, final)
		if err == nil {
			return answer, nil
		}
		if errors.Is(err, sdk.ErrBudgetExhausted) {
			if r.capped == nil {
				r.capped = err
			}
			r.drop(i, err.Error())
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
		if wait > r.e.c.Retry.SwitchAfter && r.others(i) {
			r.stepAside(i, aside{attempt: attempt + 1, round: round, until: r.e.c.Now().Add(wait), err: err})
			return nil, err
		}
		r.pause(ctx, wait)
	}
}

// pause waits, which is none of the engine's own time.
func (r *run) pause(ctx context.Context, d time.Duration) {
	from := r.e.c.Now()
	sleep(ctx, d)
	r.waited += r.e.c.Now().Sub(from)
}

func (r *run) worst(i int) float64 {
	if r.req.WorstCostUSD != nil {
		return r.req.WorstCostUSD(i)
	}
	bytes := r.req.PromptBytes
	if bytes == 0 {
		bytes = 4 * r.q.InputTokens
	}
	return WorstCostUSD(&r.e.models[i], bytes, r.q.MaxOutputTokens)
}

// try makes one call under a reservation and records it.
func (r *run) try(ctx context.Context, i, attempt int, worst float64, final bool) (*sdk.Answer, error) {
	m := &r.e.models[i]
	held, err := r.reserve(ctx, worst)
	if errors.Is(err, sdk.ErrBudgetExhausted) && r.lastResort(i) {
		held, err = r.await(ctx, worst, err)
	}
	if err != nil {
		return nil, err
	}
	rec := sdk.Call{Model: m.Name, Provider: m.Provider, Served: m.Served, Attempt: attempt, Start: r.e.c.Now()}
	if r.e.c.Explore > 0 {
		rec.Propensity = 1
	}
	answer, err := guard(func() (*sdk.Answer, error) {
		c := &Call{Query: r.q, Model: m, Index: i, Attempt: attempt, Earlier: r.attempts, Final: final, Unseen: r.req.Commit && r.alone(i), Spare: (!final || r.reroutes()) && r.spare(i, worst)}
		defer func() { r.shown, r.cut = c.Shown, c.Cut }()
		return r.req.Caller.Call(ctx, c)
	})
	rec.Latency = r.e.c.Now().Sub(rec.Start)
	r.waited += rec.Latency
	if err == nil && answer == nil {
		err = errors.New("the caller returned neither an answer nor an error")
	}
	var stands float64
	if err != nil {
		stands = r.recordFailure(&rec, i, err, worst)
	} else {
		stands = r.recordAnswer(&rec, i, answer, worst)
	}
	rec.CostUSD = round(rec.CostUSD)
	r.t.Usage = r.t.Usage.Add(rec.Usage)
	r.t.Calls = append(r.t.Calls, rec)
	if stands > rec.CostUSD {
		r.say(fmt.Sprintf("the bill of %s is not known: its worst case of %.6g USD stands under the caps", m.Name, stands))
	}
	if fault := r.settle(ctx, held, rec.CostUSD, stands); fault != nil {
		r.say("settling: " + fault.Error())
	}
	return answer, err
}

// recordFailure writes what is known of a call that failed, and returns what stands
// under the caps for a bill that nobody knows.
func (r *run) recordFailure(rec *sdk.Call, i int, err error, worst float64) (stands float64) {
	rec.Error = err.Error()
	failed, ok := errors.AsType[*CallError](err)
	if !ok {
		return 0
	}
	if failed.Refused {
		rec.StopReason = sdk.StopReasonRefused
		r.refusals++
	}
	m := &r.e.models[i]
	rec.Usage, rec.CostUSD, rec.Deployment = failed.Usage, money(failed.CostUSD), failed.Deployment
	if !r.believes(m, rec.Usage) {
		rec.Usage = sdk.Usage{}
	}
	unknown := failed.Billed && rec.CostUSD == 0
	if unknown && (rec.Usage == (sdk.Usage{}) || rec.Usage.Estimated) {
		stands = worst
	}
	if unknown && rec.Usage == (sdk.Usage{}) {
		rec.Usage = r.expectedUsage(i)
	}
	if rec.CostUSD == 0 {
		rec.CostUSD = m.Price.CostUSD(rec.Usage)
	}
	return stands
}

// recordAnswer completes an answer, writes what it cost, and returns what stands under
// the caps for one that was cut off, whose bill nobody saw.
func (r *run) recordAnswer(rec *sdk.Call, i int, answer *sdk.Answer, worst float64) (stands float64) {
	m := &r.e.models[i]
	answer.Model = m.Name
	if answer.Latency == 0 {
		answer.Latency = rec.Latency
	}
	if !r.believes(m, answer.Usage) {
		answer.Usage = r.measured(answer)
	}
	if answer.CostUSD = money(answer.CostUSD); answer.CostUSD == 0 {
		answer.CostUSD = m.Price.CostUSD(answer.Usage)
	}
	rec.Usage, rec.CostUSD, rec.StopReason, rec.Deployment = answer.Usage, answer.CostUSD, answer.StopReason, answer.Deployment
	rec.NotSent = answer.NotSent
	if r.cut != nil {
		answer.StopReason, rec.StopReason = sdk.StopReasonCancelled, sdk.StopReasonCancelled
		if answer.Usage.Estimated {
			stands = worst
		}
	}
	if r.e.c.TraceAnswers {
		rec.Answer = answer.Text
	}
	return stands
}

// believes says whether a call can have used that many tokens. What a server counts
// below zero, or by the billion, is its fault and not its bill, and would empty every
// account, or fill it. A call that looks things up itself may well use more than its
// prompt, a few times the context at most.
func (r *run) believes(m *sdk.Model, u sdk.Usage) bool {
	const times, unknown, many = 20, 20_000_000, 1_000_000_000
	most := times * m.ContextTokens
	switch {
	case r.req.WorstCostUSD != nil: // of more than one completion
		most = many
	case most <= 0 || most > many:
		most = unknown
	}
	for _, n := range [...]int{u.InputTokens, u.CachedInputTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens} {
		if n < 0 || n > most {
			r.say(fmt.Sprintf("%s says that it used %d tokens, which cannot be: estimated", m.Name, n))
			return false
		}
	}
	return true
}

// measured estimates what a call has used by the length of what went in and came out.
func (r *run) measured(a *sdk.Answer) sdk.Usage {
	out := len(a.Text) + len(a.Reasoning)
	for _, t := range a.ToolCalls {
		out += len(t.Name) + len(t.Arguments)
	}
	const perToken = 4 // bytes
	in := r.q.InputTokens
	if in == 0 {
		in = r.req.PromptBytes / perToken
	}
	return sdk.Usage{InputTokens: in, OutputTokens: (out + perToken - 1) / perToken, Estimated: true}
}

// money is an amount that somebody else says was spent; what is none is 0.
func money(usd float64) float64 {
	const most = 1e6
	if usd > 0 && usd <= most {
		return usd
	}
	return 0
}

// round returns an amount to the nearest 1e-12 dollars, for traces: sums of prices times
// tokens end in digits that mean nothing.
func round(usd float64) float64 {
	const parts, many = 1e12, 1e3
	if usd >= many {
		return usd
	}
	return math.Round(usd*parts) / parts
}

// reserve sets usd aside under the step's cap and in the ledger.
func (r *run) reserve(ctx context.Context, usd float64) (Reservation, error) {
	if limit := r.e.c.StepCapUSD; limit > 0 && near(r.spent+r.standing)+up(usd) > near(limit) {
		return nil, fmt.Errorf("step: %.6g USD spent, up to %.6g more for the next call, cap %.6g: %w", r.spent+r.standing, usd, limit, sdk.ErrBudgetExhausted)
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

// await reserves as soon as there is room, where calls under way may still make it.
func (r *run) await(ctx context.Context, usd float64, refused error) (Reservation, error) {
	if r.e.room == nil || near(r.spent+r.standing)+up(usd) > near(r.e.c.StepCapUSD) && r.e.c.StepCapUSD > 0 {
		return nil, refused
	}
	from := r.e.c.Now()
	held, err := r.e.room.await(ctx, r.q, usd)
	took := r.e.c.Now().Sub(from)
	r.waited += took
	if err != nil {
		return nil, fmt.Errorf("reserving %.6g USD: %w", usd, err)
	}
	r.say(fmt.Sprintf("waited %v for room under a cap", took.Round(time.Millisecond)))
	return held, nil
}

// lastResort reports whether the step ends without an answer if candidate i is not asked.
func (r *run) lastResort(i int) bool {
	if len(r.state.Ran) > 0 {
		return false
	}
	for k, out := range r.state.Infeasible {
		if k != i && !out && r.only < 0 {
			return false
		}
	}
	return true
}

// settle books what was spent, or what stands for a bill that is not known where
// that is more. The money is gone also when ctx has ended.
func (r *run) settle(ctx context.Context, held Reservation, usd, stands float64) error {
	r.spent += usd
	r.standing += max(0, stands-usd)
	usd = max(usd, stands)
	if held == nil && usd > 0 && r.e.c.Ledger != nil {
		var err error
		if held, err = r.e.c.Ledger.Reserve(context.WithoutCancel(ctx), r.q, 0); err != nil {
			return fmt.Errorf("booking %.6g USD that were not reserved: %w", usd, err)
		}
	}
	if held == nil {
		return nil
	}
	return held.Settle(context.WithoutCancel(ctx), usd)
}

// backOff returns how long to wait before the next try, and whether there is one.
func (r *run) backOff(err error, attempt int) (time.Duration, bool) {
	failed, ok := errors.AsType[*CallError](err)
	limits := r.e.c.Retry
	if !ok || !failed.Retry || attempt >= limits.MaxAttempts {
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

// sleep waits, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

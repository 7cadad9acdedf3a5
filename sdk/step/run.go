package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// run is the state of one step. It lives on the goroutine of that step.
type run struct {
	e   *Engine
	req *Request
	q   *sdk.Query
	t   *sdk.Trace

	plan   *Plan
	state  cascade.State
	only   int
	judged []bool // by candidate: a verifier applies; nil for none

	attempts []sdk.Attempt
	posts    []sdk.Estimate // by candidate: post-hoc
	callOf   []int          // by attempt: its index in the trace's calls
	rejected []bool         // by candidate: a check found a fault
	failures []error
	fatal    error // what ends the step at once
	capped   error // the first cap that left no room
	spent    float64
	waited   time.Duration
	beliefs  []sdk.Belief // backing of the decisions' beliefs
	note     string
}

// Run runs one step. The result is never nil and always has a trace, also when the
// step failed. Errors wrap what ended the step: sdk.ErrNoFeasibleModel,
// sdk.ErrBudgetExhausted, the context's error, or the errors of the calls.
func (e *Engine) Run(ctx context.Context, req Request) (*Result, error) {
	start := e.c.Now()
	r := e.start(&req, start)
	stop, answer, err := r.loop(ctx)
	result := r.finish(stop, answer, err, start)
	e.give(r)
	if e.c.Traces != nil {
		e.c.Traces(ctx, result.Trace)
	}
	return result, err
}

// record is the parts of a trace that nearly every step needs, in one piece.
type record struct {
	trace     sdk.Trace
	decisions [3]sdk.Decision
	calls     [2]sdk.Call
}

// take returns a run from the pool, empty, for n models. Nothing in it outlives the
// step: what results hold is made anew.
func (e *Engine) take(n int) *run {
	r, ok := e.runs.Get().(*run)
	if !ok {
		floats, flags := make([]float64, n), make([]bool, 2*n)
		return &run{
			state: cascade.State{Beliefs: make([]cascade.Belief, n), Costs: floats, Infeasible: flags[:n:n], Ran: make([]int, 0, n)},
			posts: make([]sdk.Estimate, n), rejected: flags[n:], callOf: make([]int, 0, n),
		}
	}
	return r
}

// give empties a run and puts it back into the pool.
func (e *Engine) give(r *run) {
	state, posts, rejected, callOf := r.state, r.posts, r.rejected, r.callOf[:0]
	clear(state.Infeasible)
	clear(rejected)
	clear(posts)
	state.Ran = state.Ran[:0]
	*r = run{state: state, posts: posts, rejected: rejected, callOf: callOf}
	e.runs.Put(r)
}

func (e *Engine) start(req *Request, now time.Time) *run {
	n := len(e.models)
	q := req.Query
	r := e.take(n)
	r.e, r.req, r.q, r.only = e, req, q, -1
	r.state.Coin = e.c.Coin()
	r.beliefs = make([]sdk.Belief, 0, 2*n)
	r.plan = req.Plan
	if r.plan == nil {
		r.plan = &e.plan
	}
	rec := &record{}
	r.t = &rec.trace
	*r.t = sdk.Trace{
		ID: newID(), Start: now, QueryID: q.ID, Group: q.Group, Run: q.Run, Session: q.Session, Tenant: q.Tenant,
		Policy: e.c.Policy, Profile: e.c.Profile, Mode: req.Mode, Strategy: r.plan.Name, Lambdas: r.plan.Lambdas, Gamma: r.plan.Gamma,
		InputTokens: q.InputTokens, Features: q.Features,
		Decisions: rec.decisions[:0], Calls: rec.calls[:0],
	}
	if e.c.TracePrompts {
		r.t.Prompt = q.LastUserText()
	}
	r.whoIsJudged()
	needs := NeedsOf(q)
	for i := range e.models {
		why := needs.Infeasible(&e.models[i], q)
		if why == "" && req.Exclude != nil {
			why = req.Exclude(i)
		}
		if why != "" {
			r.drop(i, why)
		}
	}
	if req.Only != "" {
		r.only = e.Index(req.Only)
	}
	return r
}

// drop takes candidate i out of the step.
func (r *run) drop(i int, why string) {
	r.state.Infeasible[i] = true
	r.t.Infeasible = append(r.t.Infeasible, sdk.Infeasible{Model: r.e.names[i], Reason: why})
}

// loop decides and calls until the step ends; it returns the candidate whose
// answer to return, or -1 and an error.
func (r *run) loop(ctx context.Context) (sdk.StopReason, int, error) {
	if r.req.Only != "" && r.only < 0 {
		return sdk.StopError, -1, fmt.Errorf("no candidate is called %q: %w", r.req.Only, sdk.ErrNoFeasibleModel)
	}
	for {
		if err := ctx.Err(); err != nil {
			return r.interrupted(err)
		}
		if !r.anyOpen() {
			return r.exhausted()
		}
		r.believe(ctx)
		if r.fatal != nil {
			return sdk.StopError, -1, r.fatal
		}
		d := r.decide()
		if d.Run == cascade.Stop {
			if len(r.attempts) == 0 {
				return sdk.StopError, -1, r.failed(sdk.ErrNoFeasibleModel)
			}
			stop := sdk.StopNotWorth
			if s, ok := r.plan.Strategy.(depthLimited); ok && s.DepthReached(&r.state) {
				stop = sdk.StopDepth
			}
			return stop, r.preferred(d.Answer), nil
		}
		if r.only < 0 && (r.state.Infeasible[d.Run] || slices.Contains(r.state.Ran, d.Run)) {
			// Nothing would change: a faulty strategy must not turn the loop for ever.
			return sdk.StopError, -1, r.failed(fmt.Errorf("strategy %s chose %s, which has run or cannot be asked", r.plan.Name, r.e.names[d.Run]))
		}
		final := r.req.Commit && r.final(d.Run)
		answer, err := r.call(ctx, d.Run, final)
		if err != nil {
			if fatal, ok := errors.AsType[*CallError](err); ok && fatal.Fatal {
				return sdk.StopError, -1, r.failed(err)
			}
			if r.only >= 0 {
				return r.stopOf(ctx, err), -1, r.failed(err)
			}
			continue
		}
		if err := r.judge(ctx, d.Run, answer); err != nil {
			return sdk.StopError, -1, err
		}
		if final {
			return sdk.StopNotWorth, d.Run, nil
		}
		if r.only >= 0 {
			return sdk.StopExhausted, d.Run, nil
		}
	}
}

// depthLimited is the optional ability of a strategy to tell that its limit on
// models per step is reached.
type depthLimited interface {
	DepthReached(s *cascade.State) bool
}

// decide asks the strategy and records what it said.
func (r *run) decide() cascade.Decision {
	d := r.plan.Strategy.Decide(&r.state)
	rec := sdk.Decision{Models: r.record(), Approximate: d.Approximate, Note: r.note, Lambda: r.lambda()}
	r.note = ""
	if d.Run != cascade.Stop {
		rec.Run = r.e.names[d.Run]
	}
	if d.Answer != cascade.None {
		rec.Answer = r.e.names[d.Answer]
	}
	if r.e.c.Explain {
		rec.Alternatives = r.explain()
	}
	if r.only >= 0 && d.Run != r.only {
		d.Run = r.only
		rec.Note = strings.TrimPrefix(rec.Note+"; "+r.req.Only+" was called instead", "; ")
	}
	r.t.Decisions = append(r.t.Decisions, rec)
	return d
}

// explain returns the alternatives of the decision at hand.
func (r *run) explain() []sdk.Alternative {
	explainer, ok := r.plan.Strategy.(cascade.Explainer)
	if !ok {
		return nil
	}
	why := explainer.Explain(&r.state)
	list := make([]sdk.Alternative, len(why.Alternatives))
	for i, a := range why.Alternatives {
		list[i] = sdk.Alternative{ExpectedMax: finite(a.ExpectedMax), CostUSD: a.Cost, Tau: finite(a.Tau), Reservation: finite(a.Reservation)}
		for _, m := range a.Models {
			list[i].Models = append(list[i].Models, r.e.names[m])
		}
	}
	return list
}

// finite keeps infinities out of traces: JSON has none.
func finite(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

func (r *run) lambda() float64 {
	l := r.plan.Lambdas
	if len(l) == 0 {
		return 0
	}
	return l[min(len(r.state.Ran), len(l)-1)]
}

// record copies the beliefs of the models that matter to this decision.
func (r *run) record() []sdk.Belief {
	from := len(r.beliefs)
	for i, b := range r.state.Beliefs {
		ran := r.ran(i)
		if r.state.Infeasible[i] && !ran {
			continue
		}
		dev := b.StdDev
		if ran {
			dev = r.posts[i].StdDev
		}
		r.beliefs = append(r.beliefs, sdk.Belief{
			Model: r.e.names[i], Quality: sdk.Estimate{Mean: b.Mean, StdDev: dev}, CostUSD: r.state.Costs[i], Ran: ran,
		})
	}
	return r.beliefs[from:len(r.beliefs):len(r.beliefs)]
}

func (r *run) ran(i int) bool {
	return slices.Contains(r.state.Ran, i)
}

func (r *run) anyOpen() bool {
	if r.only >= 0 {
		return !r.state.Infeasible[r.only]
	}
	for i, out := range r.state.Infeasible {
		if !out && !r.ran(i) {
			return true
		}
	}
	return false
}

// final reports whether no outcome of running i can lead to another model or
// answer: every answer so far was rejected, and even a worthless one would end
// the step.
func (r *run) final(i int) bool {
	if r.only >= 0 {
		return true
	}
	for _, k := range r.state.Ran {
		if r.state.Beliefs[k].Mean > 0 {
			return false
		}
	}
	saved := r.state.Beliefs[i]
	r.state.Beliefs[i] = cascade.Belief{}
	r.state.Ran = append(r.state.Ran, i)
	d := r.plan.Strategy.Decide(&r.state)
	r.state.Ran = r.state.Ran[:len(r.state.Ran)-1]
	r.state.Beliefs[i] = saved
	return d.Run == cascade.Stop
}

// preferred returns the answer to return where the strategy chose i: among equal
// posteriors, the one that passed the greater share of checks.
func (r *run) preferred(i int) int {
	best := i
	for k, ran := range r.state.Ran {
		if r.state.Beliefs[ran].Mean == r.state.Beliefs[i].Mean && score(r.attempts[k].Verdict) > score(r.verdict(best)) {
			best = ran
		}
	}
	return best
}

func score(v *sdk.Verdict) float64 {
	if v == nil {
		return 0
	}
	return v.Score
}

func (r *run) verdict(i int) *sdk.Verdict {
	for k, ran := range r.state.Ran {
		if ran == i {
			return r.attempts[k].Verdict
		}
	}
	return nil
}

// best returns the candidate with the highest posterior among those that ran.
func (r *run) best() int {
	best := -1
	for _, i := range r.state.Ran {
		if best < 0 || r.state.Beliefs[i].Mean > r.state.Beliefs[best].Mean {
			best = i
		}
	}
	return r.preferred(best)
}

// interrupted ends the step because the context ended: a deadline returns the best
// answer so far, a cancellation nothing.
func (r *run) interrupted(err error) (sdk.StopReason, int, error) {
	if len(r.attempts) > 0 && errors.Is(err, context.DeadlineExceeded) {
		return sdk.StopDeadline, r.best(), nil
	}
	return sdk.StopDeadline, -1, r.failed(err)
}

// exhausted ends the step because nothing is left to call.
func (r *run) exhausted() (sdk.StopReason, int, error) {
	switch {
	case len(r.attempts) == 0 && r.capped != nil:
		return sdk.StopBudget, -1, r.failed(r.capped)
	case len(r.attempts) == 0 && len(r.failures) == 0:
		return sdk.StopError, -1, r.infeasible()
	case len(r.attempts) == 0:
		return sdk.StopError, -1, r.failed(nil)
	case r.capped != nil && r.e.c.FailAtCap:
		return sdk.StopBudget, -1, r.failed(r.capped)
	case r.capped != nil:
		return sdk.StopBudget, r.strategyAnswer(), nil
	}
	return sdk.StopExhausted, r.strategyAnswer(), nil
}

// strategyAnswer asks the strategy, with nothing left to run, which answer to
// return: it may have a rule of its own, such as the last.
func (r *run) strategyAnswer() int {
	r.believe(context.Background())
	d := r.decide()
	if d.Answer == cascade.None {
		return r.best()
	}
	return r.preferred(d.Answer)
}

func (r *run) stopOf(ctx context.Context, err error) sdk.StopReason {
	switch {
	case ctx.Err() != nil:
		return sdk.StopDeadline
	case errors.Is(err, sdk.ErrBudgetExhausted):
		return sdk.StopBudget
	}
	return sdk.StopError
}

// failed joins the error that ended the step with those of the calls.
func (r *run) failed(err error) error {
	var list []error
	known := func(err error) bool {
		for _, f := range r.failures {
			if errors.Is(f, err) {
				return true
			}
		}
		return false
	}
	if err != nil && !known(err) && (!errors.Is(err, sdk.ErrNoFeasibleModel) || len(r.failures) == 0) {
		list = append(list, err)
	}
	return errors.Join(append(list, r.failures...)...)
}

func (r *run) infeasible() error {
	var b strings.Builder
	for k, i := range r.t.Infeasible {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString(i.Model + " " + i.Reason)
	}
	return fmt.Errorf("%w: %s", sdk.ErrNoFeasibleModel, b.String())
}

// finish completes the trace and makes the result.
func (r *run) finish(stop sdk.StopReason, answer int, err error, start time.Time) *Result {
	result := &Result{Index: answer, Attempts: r.attempts, Trace: r.t}
	r.t.Stop = stop
	if err != nil {
		r.t.Error = err.Error()
	}
	for k, i := range r.state.Ran {
		r.t.Calls[r.callOf[k]].Quality = r.posts[i]
		if i == answer {
			result.Answer, result.Verdict, result.Quality = &r.attempts[k].Answer, r.attempts[k].Verdict, r.posts[i]
			r.t.Chosen = r.e.names[i]
		}
	}
	r.t.CostUSD = r.spent
	r.t.Duration = r.e.c.Now().Sub(start)
	r.t.Overhead = r.t.Duration - r.waited
	return result
}

const hexDigits = "0123456789abcdef"

// newID returns 128 random bits in hexadecimal: the form of an OpenTelemetry trace id.
func newID() string {
	var b [32]byte
	for half := range 2 {
		x := rand.Uint64()
		for i := range 16 {
			b[half*16+i] = hexDigits[x&15]
			x >>= 4
		}
	}
	return string(b[:])
}

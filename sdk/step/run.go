package step

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

	buffers
	strategy cascade.Strategy
	lambdas  []float64 // the strategy's
	only     int
	hasCap   bool // calls are made under a reservation
	// twoLeft says that no more than two of several candidates were feasible when the step began: whether
	// their answers agree then does not change which one is returned.
	twoLeft      bool
	unavailable  []bool      // by estimator: unavailable when last asked; nil if none was
	inconclusive []*verifier // on an answer of this step
	sellers      []*verifier // by candidate: provides the look in its belief; nil if there are no looks
	soldJudge    *verifier   // the judge whose verdicts are offered as looks

	attempts     []sdk.Attempt
	failures     []error
	refusals     int                   // calls whose request was refused
	postponed    map[int]postponedCall // by candidate, including readmitted ones
	fatal        error                 // ends the step at once
	explores     bool                  // one further model is called for the record
	isExploring  bool                  // that call has begun
	shown        bool                  // the caller has shown the last answer
	cut          *sdk.Verdict          // why the caller cut off the last call
	partial      []int                 // candidates whose answer was cut off
	capWorstUSD  float64               // highest worst case of a model that has answered or that a cap excluded, -1 before
	capErr       error                 // of the cap that excluded that model; nil if one with that worst case has answered
	isCapped     bool                  // a cap excluded the model chosen last
	spent        float64
	uncertainUSD float64 // booked in addition to spent, for calls whose bill is unknown
	waited       time.Duration
	capWaited    time.Duration      // part of waited: for room under a cap
	earlyCalls   map[int]*earlyCall // by candidate: calls started before the loop chose it
	beliefs      []sdk.Belief       // backing array of the decisions' beliefs
	note         string             // of the next decision
}

// buffers is reused between runs. All fields but the first two are indexed by candidate.
type buffers struct {
	state    cascade.State
	callOf   []int           // by attempt: its index in the trace's calls, or noCall
	posts    []sdk.Estimate  // post-hoc
	rates    []cascade.Rates // error rates of its judges
	rejected []bool          // a check found a fault
	judged   []bool          // a verifier will judge
	weighed  []bool          // its estimate accounts for fallible verdicts
	compared []bool          // only agreement with other answers changes its estimate
}

// Run runs one step. The result is never nil and always has a trace, even if the step failed. Errors wrap
// what ended the step: sdk.ErrNoFeasibleModel, sdk.ErrBudgetExhausted, the context's error, or the errors
// of the calls.
func (e *Engine) Run(ctx context.Context, req Request) (*Result, error) {
	start := e.c.Now()
	r := e.start(ctx, &req, start)
	stop, answer, err := r.loop(ctx)
	if err == nil && r.refusals > 0 && r.isRejected(answer) {
		stop, answer, err = sdk.StopRefused, -1, r.stopFailed(sdk.ErrRequestRefused)
	}
	if err == nil && slices.Contains(r.partial, answer) {
		stop, answer, err = r.repeatCutCall(ctx, stop, answer)
	}
	if r.explores && err == nil && answer >= 0 {
		answer = r.explore(ctx, answer)
	}
	r.cancelEarlyCalls(ctx)
	result := r.finish(stop, answer, err, start)
	if req.Done != nil && result.IsDecided {
		req.Done(result.Trace)
	}
	e.release(r)
	if e.c.Traces != nil {
		e.c.Traces(ctx, result.Trace)
	}
	return result, err
}

// traceBuffer is a trace with room for the decisions and calls of most steps, in one allocation.
type traceBuffer struct {
	trace     sdk.Trace
	decisions [3]sdk.Decision
	calls     [2]sdk.Call
}

// acquire returns an empty run for n models from the pool. Results must not refer to its buffers.
func (e *Engine) acquire(n int) *run {
	r, ok := e.runs.Get().(*run)
	if !ok {
		floats, flags := make([]float64, n), make([]bool, 5*n)
		return &run{buffers: buffers{
			state: cascade.State{Beliefs: make([]cascade.Belief, n), Costs: floats, Infeasible: flags[:n:n], Ran: make([]int, 0, n)},
			posts: make([]sdk.Estimate, n), rejected: flags[n : 2*n], judged: flags[2*n : 3*n], weighed: flags[3*n : 4*n], compared: flags[4*n:], rates: make([]cascade.Rates, n), callOf: make([]int, 0, n),
		}}
	}
	return r
}

// release empties a run and puts it back into the pool.
func (e *Engine) release(r *run) {
	kept := r.buffers
	clear(kept.state.Infeasible)
	clear(kept.rejected)
	clear(kept.posts)
	kept.state.Ran, kept.callOf = kept.state.Ran[:0], kept.callOf[:0]
	*r = run{buffers: kept}
	e.runs.Put(r)
}

func (e *Engine) start(ctx context.Context, req *Request, now time.Time) *run {
	n := len(e.models)
	q := req.Query
	r := e.acquire(n)
	r.e, r.req, r.q, r.only, r.capWorstUSD, r.hasCap = e, req, q, -1, -1, e.HasCap(ctx, q)
	r.state.Coin = e.c.Coin()
	r.beliefs = make([]sdk.Belief, 0, 2*n)
	r.strategy = req.Strategy
	if r.strategy == nil {
		r.strategy = e.c.Strategy
	}
	about := cascade.Describe(r.strategy)
	r.lambdas = about.Lambdas
	if about.Scale == 1 {
		about.Scale = 0 // means 1 as well
	}
	rec := &traceBuffer{}
	r.t = &rec.trace
	*r.t = sdk.Trace{
		ID: newID(), Start: now, QueryID: q.ID, Group: q.Group, Run: q.Run, Session: q.Session, Tenant: q.Tenant, Conversation: q.Conversation,
		Policy: e.c.Policy, Profile: e.c.Profile, Mode: req.Mode, Holdout: req.Holdout, Strategy: about.Name, Setting: sdk.Setting{Setting: cascade.SettingOf(about, e.names), Coin: r.state.Coin},
		InputTokens: q.InputTokens, Features: q.Features, Labels: q.Labels, Tools: toolNames(q),
		Decisions: rec.decisions[:0], Calls: rec.calls[:0],
	}
	if e.c.TracePrompts {
		r.t.Prompt = q.LastUserText()
	}
	needs := needsOf(q)
	for i := range e.models {
		why := needs.infeasible(&e.models[i], q)
		if why == "" && req.Exclude != nil {
			why = req.Exclude(i)
		}
		if why == "" && r.hasCap && isUnbounded(&e.models[i], q.MaxOutputTokens) {
			why = unboundedReason
		}
		if why != "" {
			r.drop(i, why)
		}
	}
	if req.Only != "" {
		r.only = e.Index(req.Only)
	}
	if e.c.Explore > 0 && r.only < 0 && e.c.Coin() < e.c.Explore {
		r.explores, req.Commit = true, false
	}
	if req.NotBefore != nil && r.only < 0 {
		r.postponeThrottled(now)
	}
	r.updateJudges()
	return r
}

func (r *run) drop(i int, why string) {
	r.state.Infeasible[i] = true
	r.t.Infeasible = append(r.t.Infeasible, sdk.Infeasible{Model: r.e.names[i], Reason: why})
}

// loop decides and calls until the step ends. It returns the candidate whose answer to return, or -1 and
// an error.
func (r *run) loop(ctx context.Context) (sdk.StopReason, int, error) {
	if r.req.Only != "" && r.only < 0 {
		return sdk.StopError, -1, fmt.Errorf("no candidate is called %q: %w", r.req.Only, sdk.ErrNoFeasibleModel)
	}
	for {
		if err := ctx.Err(); err != nil {
			if len(r.attempts) > 0 && errors.Is(err, context.DeadlineExceeded) {
				return sdk.StopDeadline, r.prefer(cascade.None), nil
			}
			return sdk.StopDeadline, -1, r.stopFailed(err)
		}
		open := r.hasOpen()
		if !open && (r.leaveBaseline() || r.recall()) {
			continue
		}
		if !open && r.sellers == nil {
			return r.stopExhausted()
		}
		r.updateBeliefs(ctx)
		if !open && (r.only >= 0 || !r.hasLookForSale()) {
			return r.stopExhausted()
		}
		if r.fatal != nil && r.only < 0 {
			return sdk.StopError, -1, r.fatal
		}
		d := r.decide()
		if d.Look {
			if err := r.buy(ctx, d.Run); err != nil {
				return sdk.StopError, -1, err
			}
			continue
		}
		if d.Run == cascade.Stop {
			d.Run = r.reroute()
		}
		if d.Run == cascade.Stop && r.recall() {
			// The strategy decides again, with the recalled candidates.
			last := len(r.t.Decisions) - 1
			r.note, r.t.Decisions = r.t.Decisions[last].Note, r.t.Decisions[:last]
			continue
		}
		if d.Run == cascade.Stop {
			return r.stop(d.Answer)
		}
		if !r.isOpen(d.Run) {
			// The state would not change, so a faulty strategy would loop forever.
			return sdk.StopError, -1, r.stopFailed(fmt.Errorf("strategy %s chose %s, which has run or cannot be asked", r.t.Strategy, r.e.names[d.Run]))
		}
		r.callPair(ctx, d.Run)
		if ended, stop, answer, err := r.askAndJudge(ctx, d.Run); ended {
			return stop, answer, err
		}
	}
}

// leaveBaseline lets the strategy decide a step of a holdout whose baseline cannot be called or gave no answer, and
// reports whether it can.
func (r *run) leaveBaseline() bool {
	if r.only < 0 || r.req.Holdout == nil || !r.hasOtherOpen(-1) {
		return false
	}
	left := *r.t.Holdout
	left.BaselineFailed = true
	r.t.Holdout, r.only = &left, -1
	r.addNote("the baseline of the holdout gave no answer, so that the strategy decides")
	r.updateJudges()
	return true
}

// askAndJudge asks candidate i and judges its answer. It reports whether that ends the step, and how.
func (r *run) askAndJudge(ctx context.Context, i int) (ended bool, stop sdk.StopReason, candidate int, err error) {
	final := r.req.Commit && r.isFinal(i)
	answer, err := r.call(ctx, i, final)
	if err != nil {
		if fatal, ok := errors.AsType[*CallError](err); ok && fatal.Fatal {
			return true, sdk.StopError, -1, r.stopFailed(err)
		}
		return false, "", 0, nil
	}
	if err := r.judge(ctx, i, answer); err != nil {
		return true, sdk.StopError, -1, err
	}
	switch {
	case r.only >= 0:
		stop = sdk.StopExhausted
	case final && !r.reroutes() || r.shown:
		stop = sdk.StopNotWorth
	default:
		return false, "", 0, nil
	}
	r.settleBeliefs(ctx)
	return true, stop, i, nil
}

// stop ends a step whose strategy asks no further model.
func (r *run) stop(answer int) (sdk.StopReason, int, error) {
	if r.isCapped {
		return r.stopExhausted()
	}
	if len(r.attempts) == 0 {
		return sdk.StopError, -1, r.stopFailed(sdk.ErrNoFeasibleModel)
	}
	if r.isDepthReached() {
		return sdk.StopDepth, r.prefer(answer), nil
	}
	return sdk.StopNotWorth, r.prefer(answer), nil
}

func (r *run) isDepthReached() bool {
	s, ok := r.strategy.(depthLimited)
	return ok && s.DepthReached(&r.state)
}

// settleBeliefs computes the post-hoc estimates, for the trace of a step that ends without another
// decision.
func (r *run) settleBeliefs(ctx context.Context) {
	if r.judgesAnswers() {
		r.updateQuality(ctx)
	}
	for i := range r.state.Beliefs {
		r.updatePosterior(i)
	}
}

const hexDigits = "0123456789abcdef"

// newID returns 128 random bits in hexadecimal, the format of an OpenTelemetry trace ID.
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

func toolNames(q *sdk.Query) []string {
	if len(q.Tools) == 0 {
		return nil
	}
	names := make([]string, len(q.Tools))
	for i := range q.Tools {
		names[i] = q.Tools[i].Name
	}
	return names
}

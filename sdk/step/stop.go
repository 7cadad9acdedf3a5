package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// prefer returns the candidate whose answer to return if the strategy chose i, or the one with the highest posterior
// if it chose none. An answer that a check rejected gives way to one that passed. Among equal posteriors it prefers complete answers, then higher
// verdict scores. Of rejected answers with equal scores it takes the last, which is also what a stream
// shows.
func (r *run) prefer(i int) int {
	if i == cascade.None {
		i = r.best()
	}
	i = r.replaceRejected(i)
	best := i
	for k, ran := range r.state.Ran {
		if r.state.Beliefs[ran].Mean != r.state.Beliefs[i].Mean || slices.Contains(r.partial, ran) {
			continue
		}
		own, most := score(r.attempts[k].Verdict), score(r.verdict(best))
		if slices.Contains(r.partial, best) || own > most || own == most && r.isRejected(best) {
			best = ran
		}
	}
	return best
}

// replaceRejected returns i or, if a check rejected its answer, the best that passed, the last among
// equals; i if none did.
func (r *run) replaceRejected(i int) int {
	if !r.rejected[i] {
		return i
	}
	best := i
	for _, ran := range r.state.Ran {
		if !r.rejected[ran] && (r.rejected[best] || r.state.Beliefs[ran].Mean >= r.state.Beliefs[best].Mean) {
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

func (r *run) isRejected(i int) bool {
	v := r.verdict(i)
	return v != nil && v.Outcome == sdk.Failed
}

func (r *run) verdict(i int) *sdk.Verdict {
	if k := slices.Index(r.state.Ran, i); k >= 0 {
		return r.attempts[k].Verdict
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
	return best
}

func (r *run) stopExhausted() (sdk.StopReason, int, error) {
	hasAnswer := len(r.attempts) > 0
	switch {
	case r.capErr != nil && (!hasAnswer || r.e.c.FailAtCap):
		return sdk.StopBudget, -1, r.stopFailed(r.capErr)
	case r.capErr != nil:
		return sdk.StopBudget, r.strategyAnswer(), nil
	case hasAnswer:
		return sdk.StopExhausted, r.strategyAnswer(), nil
	case len(r.failures) == 0:
		return sdk.StopError, -1, r.infeasibleError()
	case r.refusals == len(r.failures):
		return sdk.StopRefused, -1, r.stopFailed(nil)
	}
	return sdk.StopError, -1, r.stopFailed(nil)
}

// strategyAnswer asks the strategy, with nothing left to run, which answer to return: its rule can differ
// from the highest posterior, such as the last answer.
func (r *run) strategyAnswer() int {
	r.updateBeliefs(context.Background())
	return r.prefer(r.decide().Answer)
}

// stopFailed joins the error that ended the step with the errors of the calls.
func (r *run) stopFailed(err error) error {
	var list []error
	isKnown := slices.ContainsFunc(r.failures, func(f error) bool { return errors.Is(f, err) })
	if err != nil && !isKnown && (!errors.Is(err, sdk.ErrNoFeasibleModel) || len(r.failures) == 0) {
		list = append(list, err)
	}
	list = append(list, r.failures...)
	for i, name := range r.e.names {
		if a := r.postponed[i]; a.err != nil {
			list = append(list, fmt.Errorf("model %s: %w", name, a.err))
		}
	}
	return errors.Join(list...)
}

// infeasibleError returns why no model can be called, or why the one that the request names cannot.
func (r *run) infeasibleError() error {
	var reasons []string
	for _, i := range r.t.Infeasible {
		if r.only < 0 || i.Model == r.e.names[r.only] {
			reasons = append(reasons, i.Model+" "+i.Reason)
		}
	}
	return fmt.Errorf("%w: %s", sdk.ErrNoFeasibleModel, strings.Join(reasons, ", "))
}

func (r *run) finish(stop sdk.StopReason, answer int, err error, start time.Time) *Result {
	result := &Result{Index: answer, Attempts: r.attempts, IsDecided: r.only < 0, Trace: r.t}
	r.t.Stop = stop
	if n := len(r.t.Decisions); n > 0 && r.note != "" {
		last := &r.t.Decisions[n-1]
		last.Note = strings.TrimPrefix(last.Note+"; "+r.note, "; ")
	}
	if err != nil {
		r.t.Error = err.Error()
	}
	for k, i := range r.state.Ran {
		r.callRecord(k).Quality = r.posts[i]
		if i == answer {
			result.Answer, result.Verdict, result.Quality = &r.attempts[k].Answer, r.attempts[k].Verdict, r.posts[i]
			r.t.Chosen = r.e.names[i]
		}
	}
	r.t.CostUSD = sdk.RoundUSD(r.spent)
	r.t.Duration = r.e.c.Now().Sub(start)
	r.t.Overhead = r.t.Duration - r.waited
	return result
}

// VerdictTrace returns the trace that reports the verdict v on a tenant's run; see [sdk.ModeVerdict].
func VerdictTrace(run, tenant string, v *sdk.Verdict) (*sdk.Trace, error) {
	if run == "" {
		return nil, errors.New("reporting a verdict: the run has no name")
	}
	if v.Outcome == sdk.Inconclusive && v.Evidence == "" && v.Verifier == "" {
		return nil, fmt.Errorf("reporting a verdict on run %s: it has no outcome; one that is inconclusive, which takes back an earlier one, says why in its evidence", run)
	}
	for name, x := range map[string]float64{"confidence": v.Confidence, "score": v.Score} {
		if !(x >= 0 && x <= 1) {
			return nil, fmt.Errorf("reporting a verdict on run %s: a %s of %v, want one in [0, 1]", run, name, x)
		}
	}
	return &sdk.Trace{ID: newID(), Start: time.Now(), Run: run, Tenant: tenant, Mode: sdk.ModeVerdict, Verdict: v, Decisions: []sdk.Decision{}, Calls: []sdk.Call{}}, nil
}

// explore calls one of the models that the strategy left out, drawn at random, and returns the candidate
// whose answer the step should return now: still answer if the call fails.
func (r *run) explore(ctx context.Context, answer int) int {
	var open []int
	for i := range r.e.models {
		if r.isOpen(i) {
			open = append(open, i)
		}
	}
	if len(open) == 0 || ctx.Err() != nil {
		return answer
	}
	i := open[int(r.e.c.Coin()*float64(len(open)))]
	from := len(r.t.Calls)
	r.isExploring = true
	got, err := r.call(ctx, i, false)
	for k := range r.t.Calls[from:] {
		r.t.Calls[from:][k].Propensity = r.e.c.Explore / float64(len(open))
	}
	if err != nil || r.judge(ctx, i, got) != nil {
		return answer
	}
	r.updateBeliefs(ctx)
	d := r.strategy.Decide(&r.state)
	if d.Answer < 0 {
		return answer
	}
	if best := r.prefer(d.Answer); best != i || !r.isRejected(i) {
		return best
	}
	return answer
}

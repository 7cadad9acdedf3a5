package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// hasEstimator reports whether an estimator that was available when last asked will judge candidate
// i's answer.
func (r *run) hasEstimator(i int) bool {
	for k := range r.e.c.Estimators {
		s := &r.e.c.Estimators[k]
		if (r.unavailable == nil || !r.unavailable[k]) && s.covers(r.q, r.e.names[i]) && (s.Looks == nil || s.Looks(r.q, r.e.names[i])) {
			return true
		}
	}
	return false
}

// updateBeliefs fills in the state's beliefs and costs, and the post-hoc estimates of
// the models that have run.
func (r *run) updateBeliefs(ctx context.Context) {
	r.updateQuality(ctx)
	r.updateCosts(ctx)
	if len(r.t.Decisions) == 0 {
		left := len(r.askedModels())
		r.twoLeft = left <= 2 && left < len(r.e.models)
	}
	passed := r.passConfidence()
	for i := range r.state.Beliefs {
		if r.hasRun(i) {
			r.updatePosterior(i)
			continue
		}
		b := &r.state.Beliefs[i]
		// The deviation of a model that has not run is that of the estimate its answer will get:
		// 0 if nothing will judge the answer, however uncertain the operator's prior.
		switch {
		case r.judged[i]:
			*b = cascade.Belief{Mean: min(max(b.Mean, 0), 1), Bernoulli: true, Judge: r.judgeRates(i), Shared: b.Shared, Look: b.Look}
			if passed > 0 && passed < 1 {
				// A second pass by the same judge would be worth no more than the first.
				*b = cascade.Belief{Mean: passed * b.Mean}
			}
		case !r.hasEstimator(i), r.compared[i] && r.twoLeft:
			*b = cascade.Belief{Mean: b.Mean, Unseen: true}
		}
	}
}

// judgeRates returns the error rates of candidate i's verifiers, given their verdicts so far.
func (r *run) judgeRates(i int) cascade.Rates {
	if judge := r.state.Beliefs[i].Judge; judge != (cascade.Rates{}) {
		return judge
	}
	return r.rates[i]
}

// passConfidence returns the highest confidence with which a free verifier without error rates passed
// an answer, or 0.
func (r *run) passConfidence() float64 {
	best := 0.0
	for i := range r.e.models {
		if v := r.verdict(i); r.hasRun(i) && v != nil && v.Outcome == sdk.Passed && v.CostUSD == 0 && !v.Errs() {
			best = max(best, confidence(v))
		}
	}
	return best
}

// updatePosterior updates candidate i's belief by what checks and verifiers found in its answer, if
// it has run, and records its post-hoc estimate.
func (r *run) updatePosterior(i int) {
	if !r.hasRun(i) {
		return
	}
	b := &r.state.Beliefs[i]
	if r.rejected[i] {
		*b = cascade.Belief{}
	}
	v := r.verdict(i)
	q, ok := v.Quality()
	var look cascade.Look
	if v.Errs() {
		look, q = b.Look, min(max(b.Mean, 0), 1)
		if !r.weighed[i] {
			q = cascade.Posterior(q, v.IfRight, v.IfWrong)
		}
	}
	if ok {
		*b = cascade.Belief{Mean: q, StdDev: math.Sqrt(q * (1 - q)), Look: look}
	}
	r.posts[i] = sdk.Estimate{Mean: b.Mean, StdDev: b.StdDev}
}

// askedModels returns the candidates that need estimates: those that have run and those that can.
func (r *run) askedModels() []int {
	list := make([]int, 0, len(r.e.models))
	for i, out := range r.state.Infeasible {
		if !out || r.hasRun(i) {
			list = append(list, i)
		}
	}
	return list
}

func (r *run) updateQuality(ctx context.Context) {
	for i, prior := range r.e.priors {
		r.state.Beliefs[i] = cascade.Belief{Mean: prior.Mean, StdDev: prior.StdDev}
	}
	clear(r.weighed)
	clear(r.compared)
	if len(r.e.c.Estimators) > 0 {
		r.askEstimators(ctx)
	}
	r.offerVerdicts()
}

func (r *run) updateCosts(ctx context.Context) {
	for i := range r.e.models {
		r.state.Costs[i] = r.e.models[i].Price.CostUSD(r.e.expectedUsage(i, r.q))
	}
	if r.e.c.Cost != nil {
		r.askCost(ctx)
	}
	for i := range r.req.CostOffsets {
		r.state.Costs[i] = max(0, r.state.Costs[i]+r.req.CostOffsets[i])
	}
}

// expectedUsage returns the usage of the prompt and an answer of candidate i's expected length.
func (e *Engine) expectedUsage(i int, q *sdk.Query) sdk.Usage {
	tokens := e.c.Candidates[i].OutputTokens
	if tokens == 0 {
		tokens = 500
	}
	for _, limit := range [...]int{q.MaxOutputTokens, e.models[i].MaxOutputTokens} {
		if limit > 0 {
			tokens = min(tokens, limit)
		}
	}
	return sdk.Usage{InputTokens: q.InputTokens, OutputTokens: tokens, Estimated: true}
}

// expectedTokens returns the expected length of candidate i's answer, derived from the cost estimate if
// there is a cost estimator.
func (r *run) expectedTokens(i int) float64 {
	usage, price := r.e.expectedUsage(i, r.q), &r.e.models[i].Price
	tokens, usd := float64(usage.OutputTokens), r.state.Costs[i]
	if i < len(r.req.CostOffsets) {
		usd -= r.req.CostOffsets[i]
	}
	prompt, whole := price.CostUSD(sdk.Usage{InputTokens: usage.InputTokens}), price.CostUSD(usage)
	if r.e.c.Cost != nil && whole > prompt {
		return max(0, (usd-prompt)/(whole-prompt)) * tokens
	}
	return tokens
}

// billedUsage returns the usage assumed for a call whose bill is unknown: an answer of the expected length.
func (r *run) billedUsage(i int) sdk.Usage {
	usage := r.e.expectedUsage(i, r.q)
	usage.OutputTokens = min(usage.OutputTokens, max(1, int(math.Round(r.expectedTokens(i)))))
	return usage
}

func (r *run) askCost(ctx context.Context) {
	asked := r.askedModels()
	models := make([]sdk.Model, len(asked))
	for k, i := range asked {
		models[k] = r.e.models[i]
	}
	from := r.e.c.Now()
	resp, err := guard(func() (*sdk.CostResponse, error) {
		return r.e.c.Cost.EstimateCost(ctx, &sdk.CostRequest{Query: r.q, Models: models, Attempts: r.attempts})
	})
	r.waited += r.e.c.Now().Sub(from)
	isWhole := resp != nil && len(resp.Estimates) == len(asked)
	if err == nil && !isWhole {
		err = fmt.Errorf("want %d estimates", len(asked))
	}
	if err != nil {
		r.addNote("cost estimator unavailable, prices used: " + err.Error())
	}
	if errors.Is(err, ErrEstimatorUnavailable) {
		r.fatal = err
	}
	if !isWhole {
		return
	}
	for k, i := range asked {
		if c := resp.Estimates[k].Mean; c >= 0 && !math.IsInf(c, 0) {
			r.state.Costs[i] = c
		}
	}
}

// addNote appends to the note of the next decision.
func (r *run) addNote(note string) {
	if r.note != "" {
		r.note += "; "
	}
	r.note += note
}

// guard calls f and returns a panic of f as a [PanicError].
func guard[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

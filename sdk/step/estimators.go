package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
)

// Estimator is a quality estimator and how to use it.
type Estimator struct {
	Name      string
	Estimator sdk.QualityEstimator
	// Models are those whose quality it estimates; nil means all.
	Models []string
	// Applies says whether the estimator can give estimates for q; nil means always.
	Applies func(q *sdk.Query) bool
	// Looks says whether the estimator will judge a model's answer to q once there is one; nil means that
	// it does. If it does not, it should estimate a StdDev of 0.
	Looks func(q *sdk.Query, model string) bool
	// OnUnavailable says what to do if the estimator returns an error: abstain or fail.
	OnUnavailable Unavailable
	// CallsModels says that the estimator calls models of this program, through [ReserveCall].
	CallsModels bool
	// Timeout bounds one call; 0 leaves it to the caller's context.
	Timeout time.Duration
}

func (s *Estimator) covers(q *sdk.Query, model string) bool {
	return (s.Applies == nil || s.Applies(q)) && (s.Models == nil || slices.Contains(s.Models, model))
}

// askEstimators asks the estimators in order. For each model the first that does not abstain counts.
func (r *run) askEstimators(ctx context.Context) {
	asked := r.askedModels()
	names := make([]string, len(asked))
	for k, i := range asked {
		names[k] = r.e.names[i]
	}
	req := &sdk.QualityRequest{Query: r.q, Models: names, Attempts: r.attempts}
	open := len(asked)
	for k := range r.e.c.Estimators {
		s := &r.e.c.Estimators[k]
		if open == 0 || r.fatal != nil {
			return
		}
		if s.Applies != nil && !s.Applies(r.q) {
			continue
		}
		resp := r.askEstimator(ctx, s, &r.e.estimatorCooldowns[k], req)
		if resp == nil && r.unavailable == nil {
			r.unavailable = make([]bool, len(r.e.c.Estimators))
		}
		if r.unavailable != nil {
			r.unavailable[k] = resp == nil
		}
		if resp == nil {
			continue
		}
		for k, estimate := range resp.Estimates {
			i := asked[k]
			if i < 0 || estimate.Abstains() || s.Models != nil && !slices.Contains(s.Models, names[k]) {
				continue
			}
			// Regressions can leave [0, 1] a little.
			if !(math.Abs(estimate.Mean-0.5) <= 1) {
				r.addNote(fmt.Sprintf("estimator %s gave %v for %s, which is not a quality: abstained", s.Name, estimate.Mean, names[k]))
				continue
			}
			r.adoptEstimate(i, k, resp)
			asked[k] = -1 // has its estimate
			open--
		}
	}
}

// adoptEstimate makes the k-th estimate of a response the belief about candidate i.
func (r *run) adoptEstimate(i, k int, resp *sdk.QualityResponse) {
	estimate := resp.Estimates[k]
	if !(estimate.StdDev >= 0) || math.IsInf(estimate.StdDev, 0) {
		estimate.StdDev = 0
	}
	r.state.Beliefs[i] = cascade.Belief{Mean: estimate.Mean, StdDev: estimate.StdDev}
	r.weighed[i], r.compared[i] = resp.Weighs, resp.ByAgreement
	if j := resp.Judge; j != nil && k < len(j.Next) && j.Usual == r.rates[i] && j.Next[k].Validate() == nil {
		r.state.Beliefs[i].Judge = j.Next[k]
	}
	if k < len(resp.Shared) && resp.Shared[k] >= 0 && resp.Shared[k] <= 1 {
		r.state.Beliefs[i].Shared = resp.Shared[k]
	}
	if k < len(resp.Looks) {
		r.offer(i, &resp.Looks[k])
	}
}

// askEstimator asks one estimator. If it is unavailable, the result is nil and a note says why.
func (r *run) askEstimator(ctx context.Context, s *Estimator, p *cooldown, req *sdk.QualityRequest) *sdk.QualityResponse {
	if left := p.pauseLeft(r.e.c.Now()); left > 0 && s.OnUnavailable != UnavailableFail {
		r.addNote(fmt.Sprintf("estimator %s is paused for %s: it missed its deadline %d times in a row, abstained", s.Name, left.Round(time.Second), maxMisses))
		return nil
	}
	askCtx, own := ctx, (*purse)(nil)
	if s.CallsModels && r.hasCap {
		askCtx, own = r.openPurse(ctx, 0)
	}
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		askCtx, cancel = context.WithTimeout(askCtx, s.Timeout)
		defer cancel()
	}
	from := r.e.c.Now()
	resp, err := guard(func() (*sdk.QualityResponse, error) { return s.Estimator.EstimateQuality(askCtx, req) })
	r.waited += r.e.c.Now().Sub(from)
	if ctx.Err() == nil {
		p.observe(r.e.c.Now(), askCtx.Err() == nil, maxMisses)
	}
	if err == nil && (resp == nil || len(resp.Estimates) != len(req.Models)) {
		err = fmt.Errorf("want %d estimates", len(req.Models))
	}
	usd := plausibleUSD(sdk.SpentUSD(err)) // even if it failed
	if resp != nil {
		usd += plausibleUSD(resp.CostUSD)
	}
	r.noteSettling(r.settlePurse(ctx, own, nil, usd, 0))
	if err == nil {
		return resp
	}
	r.addNote("estimator " + s.Name + " unavailable, abstained: " + err.Error())
	if s.OnUnavailable == UnavailableFail {
		err = fmt.Errorf("%w: %s: %w", ErrEstimatorUnavailable, s.Name, err)
	}
	if errors.Is(err, ErrEstimatorUnavailable) {
		r.fatal = err
	}
	return nil
}

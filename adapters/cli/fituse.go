package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/collect"
	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// forecastInUse is the forecast of policy plan --traces for a policy with its profile and without.
type forecastInUse struct {
	With    *forecast.Forecast `json:"in_use,omitempty"`
	Without *forecast.Forecast `json:"in_use_without_profile,omitempty"`
}

// forecastUse forecasts the policy on traces if match blocks or a holdout exempt a part of the steps from the
// profile, which only traces show, or if prompt caches make costs depend on who answered before. Otherwise the result is
// empty.
func (f *fitFlags) forecastUse(ctx context.Context, s Streams, policy *policies.Policy, t *outcome.Table) (u forecastInUse, err error) {
	if policy == nil || len(policy.Matches) == 0 && policy.Holdout == nil && t.Caches() == nil || !isTraces(f.outcomes) {
		return u, nil
	}
	profile, err := filepath.Abs(f.out)
	if err != nil {
		return u, err
	}
	world, err := readTraces(ctx, s, f.outcomes)
	if err != nil {
		return u, err
	}
	enforced := *policy
	enforced.Mode, enforced.Fit = "enforce", nil
	if u.Without, err = forecast.New(ctx, &enforced, world, forecast.Options{Seed: planSeed}); err != nil {
		return u, err
	}
	enforced.Fit = &policies.Fit{Profile: profile}
	u.With, err = forecast.New(ctx, &enforced, world, forecast.Options{Seed: planSeed})
	return u, err
}

// isTraces reports whether a path is a store, or a file whose first record is a trace.
func isTraces(path string) bool {
	if isStore(path) {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var first struct {
		Decisions []json.RawMessage `json:"decisions"`
	}
	return json.NewDecoder(io.LimitReader(file, 16<<20)).Decode(&first) == nil && first.Decisions != nil
}

// policyRival is the policy without the profile, on the outcomes that the profile was fitted to.
type policyRival struct {
	Policy         string  `json:"policy"`
	CostUSD        float64 `json:"cost_usd"`
	Quality        float64 `json:"quality"`
	QualityStdErr  float64 `json:"quality_std_error"`
	RecommendsThis bool    `json:"recommended"` // keep the policy without the profile
	// IsMeasured reports that the outcomes include runs of the policy itself.
	IsMeasured bool `json:"measured,omitempty"`
	// Labels describes the qualities where nothing judged the answers. They then do not recommend what costs more, since
	// whoever asks the reference model more often also agrees with it more often.
	Labels string `json:"labels,omitempty"`
}

// measuredPolicy returns the means of the policy's own runs, which collect --agent records, or nil without any.
func measuredPolicy(t *outcome.Table) *policyRival {
	m := t.Index(collect.PolicyName)
	if m < 0 {
		return nil
	}
	r, n, squares := &policyRival{IsMeasured: true}, 0.0, 0.0
	for q := range t.Queries {
		usd, quality := outcome.At(t.CostUSD, q, m), outcome.At(t.Quality, q, m)
		if !math.IsNaN(usd + quality) {
			n++
			r.CostUSD, r.Quality, squares = r.CostUSD+usd, r.Quality+quality, squares+quality*quality
		}
	}
	if n == 0 {
		return nil
	}
	r.CostUSD, r.Quality = r.CostUSD/n, r.Quality/n
	r.QualityStdErr = math.Sqrt(max(0, squares/n-r.Quality*r.Quality) / n)
	return r
}

// rivalOf compares a profile with the policy without it, or returns nil if that does not compare answers by itself.
// The profile is better if it costs at least 3 % less at no less quality, or has a quality higher by two standard
// errors at no higher cost. It is not better if it costs more, in use or on these outcomes, than a policy that is as
// good within two standard errors.
func rivalOf(ctx context.Context, p *fit.Profile, policy *policies.Policy, t *outcome.Table, measured *policyRival, u forecastInUse) (*policyRival, error) {
	if policy == nil || measured == nil && t.Answers == nil || !slices.ContainsFunc(policy.Estimators, func(e policies.Estimator) bool { return e.BuiltIn() }) {
		return nil, nil
	}
	r := measured
	if r == nil {
		own, err := forecast.New(ctx, policy, &forecast.Table{Outcomes: t.Complete()}, forecast.Options{})
		if err != nil || own.Queries == 0 {
			return nil, err
		}
		r = &policyRival{CostUSD: own.CostUSD, Quality: own.Quality, QualityStdErr: own.QualityStdError}
	}
	r.Policy, r.Labels = policy.Path, t.Labels
	r.RecommendsThis = r.beats(p, u) || t.Labels == "" && !r.isBeatenBy(p, u)
	return r, nil
}

// beats reports whether the policy without the profile is right at least as often at a lower cost, in use if that is
// known. Labels that may be wrong are wrong for both.
func (r *policyRival) beats(p *fit.Profile, u forecastInUse) bool {
	usd, quality := expectedOf(p)
	without := r.CostUSD
	if u.With != nil {
		usd, without = u.With.CostUSD, u.Without.CostUSD
	}
	return r.Quality >= quality && usd > (1+costTolerance)*without
}

// expectedOf returns the cost and the quality of a query with a profile: on queries not seen, if there is a budget.
func expectedOf(p *fit.Profile) (usd, quality float64) {
	if h := p.HeldOut; h != nil {
		return h.CostUSD, h.Quality
	}
	return p.Expected.CostUSD, p.Expected.Quality
}

// isBeatenBy reports whether a profile is better in the sense of [rivalOf].
func (r *policyRival) isBeatenBy(p *fit.Profile, u forecastInUse) bool {
	usd, quality := expectedOf(p)
	isCheaper := usd <= 0.97*r.CostUSD && quality >= r.Quality
	isBetter := quality > r.Quality+2*r.QualityStdErr && usd <= r.CostUSD
	isOver := p.Budget.USD > 0 && r.CostUSD > p.Budget.USD*(1+fit.Tolerance) || p.Kept != nil || p.Served != nil
	isDearer := usd > (1+costTolerance)*r.CostUSD || u.With != nil && u.With.CostUSD > (1+costTolerance)*u.Without.CostUSD
	isKept := isDearer && r.Quality+2*r.QualityStdErr >= quality
	return isBetter || !isKept && (isCheaper || isOver)
}

func (r *policyRival) print(w *printer, profile string) {
	on := "on the same queries, each by itself"
	if r.IsMeasured {
		on = "in its own runs among these outcomes"
	}
	what := fmt.Sprintf("%s without a profile costs %s USD a query at %s %% %s", r.Policy, dollars(r.CostUSD), percent(r.Quality), on)
	if r.Labels != "" {
		what += " (" + r.Labels + ")"
	}
	switch {
	case r.RecommendsThis:
		w.f("%s: KEEP IT AS IT IS, %s is not expected to be better\n", what, profile)
	case strings.HasPrefix(r.Labels, "verdicts on runs"):
		w.f("%s\nTHESE LABELS HARDLY SHOW WHICH OF THE TWO IS BETTER: a run's verdict applies to all its steps. Use a holdout of the policy in use\n", what)
	case r.Labels != "":
		w.f("%s\nTHESE LABELS DO NOT SHOW WHICH OF THE TWO IS BETTER: a policy that asks the reference model more often agrees with it more often. Record verdicts on runs (stepfall trace --run RUN --verdict passed), or use a holdout of the policy in use\n", what)
	default:
		w.f("%s: %s is expected to be better, or to keep the requested quality or budget\n", what, profile)
	}
}

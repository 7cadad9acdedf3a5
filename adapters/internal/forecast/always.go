package forecast

import (
	"context"
	"math"
	"slices"

	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/policies"
)

// Always is the cost of always asking one model on the same queries.
type Always struct {
	Model string `json:"model"`
	// CostUSD is the mean over the queries that the model could be asked.
	CostUSD float64 `json:"cost_usd"`
	// Quality is the mean quality of its answers, where all of them are judged.
	Quality float64 `json:"quality,omitempty"`
	// Share is the policy's cost on those queries divided by CostUSD, and ShareStdError its standard error.
	Share         float64 `json:"share"`
	ShareStdError float64 `json:"share_std_error"`
}

// RepeatInterval returns the interval of two standard deviations for the mean cost of as many further queries, which is as
// uncertain as this one. It is symmetric in the logarithm, since costs are skewed.
func RepeatInterval(usd, stdError float64) (low, high float64) {
	if usd <= 0 {
		return 0, 0
	}
	factor := math.Exp(2 * math.Sqrt2 * stdError / usd)
	return usd / factor, usd * factor
}

// compareToBaseline compares f with always asking p's baseline, or else its most expensive model; nil if there is
// nothing to compare.
func (f *Forecast) compareToBaseline(ctx context.Context, p *policies.Policy, w World, o Options) (*Always, error) {
	if len(p.Models) < 2 || p.Mode == string(middleware.Off) {
		return nil, nil
	}
	own := *p
	own.Mode, own.Holdout, own.Budget = string(middleware.Off), nil, policies.Budget{}
	own.Verifiers = nil // verdicts cannot change the choice
	if own.Baseline == "" {
		own.Baseline = p.Dearest()
	}
	base, err := New(ctx, &own, w, Options{Estimator: o.Estimator, Seed: o.Seed})
	if err != nil {
		return nil, err
	}
	a := &Always{Model: own.Baseline}
	if base.Guessed.Answers == 0 {
		a.Quality = base.Judged.Mean
	}
	answered := func(i int) bool { return base.samples[i].answered }
	usd, n := 0.0, 0
	for i := range f.samples {
		if answered(i) {
			a.CostUSD += base.samples[i].usd
			usd += f.samples[i].usd
			n++
		}
	}
	if !(a.CostUSD > 0) {
		return nil, nil
	}
	a.Share = usd / a.CostUSD
	a.CostUSD /= float64(n)
	rests := Forecast{samples: slices.Clone(f.samples), resampled: f.resampled}
	for i := range rests.samples {
		s := &rests.samples[i]
		s.answered = answered(i)
		s.usd -= a.Share * base.samples[i].usd
	}
	_, rest, _ := rests.figure(func(s *sample) (float64, bool) { return s.usd, s.answered })
	a.ShareStdError = rest / a.CostUSD
	return a, nil
}

package savings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/adapters/internal/say"
	"github.com/stepfall/stepfall/middleware"
	"github.com/stepfall/stepfall/sdk"
)

// Result is the balance of an [Account].
type Result struct {
	// Steps is the number of steps, of which Unanswered got no answer. Shadow runs and embeddings do not count as
	// steps.
	Steps      int `json:"steps"`
	Unanswered int `json:"unanswered"`
	// Read counts the traces: steps, embeddings, and shadows with or without a call.
	Read int `json:"-"`
	// Embeddings counts embedding calls.
	Embeddings int `json:"embeddings,omitempty"`
	// SpentUSD is the total; ShadowUSD is the part that went to Shadows runs of the mode shadow.
	SpentUSD  float64 `json:"spent_usd"`
	ShadowUSD float64 `json:"shadow_usd,omitempty"`
	Shadows   int     `json:"shadow_runs,omitempty"`
	// Baseline is the model to compare with, or "".
	Baseline string `json:"baseline,omitempty"`
	// Compared counts the steps that could have been asked of the baseline; ComparedUSD is the cost of these and of
	// the shadow runs.
	Compared    int     `json:"compared,omitempty"`
	ComparedUSD float64 `json:"compared_usd,omitempty"`
	// BaselineUSD is what always asking the baseline would have cost on those steps: measured on Measured of them,
	// and estimated on Estimated.
	BaselineUSD float64 `json:"baseline_usd,omitempty"`
	Measured    int     `json:"measured,omitempty"`
	Estimated   int     `json:"estimated,omitempty"`
	// TwoStdErrorsUSD is the half width of the interval of BaselineUSD and of SavedUSD. It is meaningless where
	// HasInterval is false: too few steps asked the baseline.
	TwoStdErrorsUSD float64 `json:"two_std_errors_usd,omitempty"`
	HasInterval     bool    `json:"has_interval,omitempty"`
	// Drawn reports that the estimate rests on steps in which the baseline was asked at random. Otherwise they are
	// not a fair sample, and the interval allows for that.
	Drawn    bool    `json:"drawn,omitempty"`
	SavedUSD float64 `json:"saved_usd"`
	// Quality is the quality of the returned answers, BaselineQuality what the baseline's would be.
	Quality         Quality `json:"quality"`
	BaselineQuality Quality `json:"baseline_quality,omitzero"`
	// Runs is the share of successful runs among those with a reported verdict.
	Runs Quality `json:"runs,omitzero"`
	// DiscardedUSD is the part of the spend that went to answers that were not returned, VerdictsUSD the part that
	// went to judges.
	DiscardedUSD float64 `json:"discarded_usd,omitempty"`
	VerdictsUSD  float64 `json:"verdicts_usd,omitempty"`
	// Holdout is the measured comparison with runs that used the baseline; nil without a holdout.
	Holdout *holdout.Comparison `json:"holdout,omitempty"`
}

// Quality is the quality of answers, in [0, 1]: measured, or guessed.
type Quality struct {
	Mean float64 `json:"mean"`
	// N is the number of answers that were judged, or guessed at.
	N int `json:"n"`
	// Low and High are two standard errors around a measured mean (Wilson).
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// By names the verifiers that measured it; if empty, it is guessed.
	By []string `json:"measured_by,omitempty"`
	// Passed is the share of answers that passed, where some of the judges have known error rates: Mean is then the
	// posterior given the verdicts. 0 otherwise.
	Passed float64 `json:"passed,omitempty"`
	// Unjudged is the number of further answers whose verdict was not bought or was inconclusive, and Overall the
	// mean of all: measured for the judged ones, estimated for the others. A strategy that buys verdicts leaves
	// unjudged the answers to which it has no better alternative.
	Unjudged int     `json:"unjudged,omitempty"`
	Overall  float64 `json:"overall,omitempty"`
}

// IsMeasured reports whether quality was measured rather than guessed.
func (q *Quality) IsMeasured() bool { return len(q.By) > 0 }

// Result returns the balance of the steps so far.
func (a *Account) Result() Result { return a.Beside(a.Baseline) }

// Beside is Result with another baseline; "" is the model with the highest expected cost. The comparison with a
// holdout does not depend on the baseline.
func (a *Account) Beside(baseline string) (r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r = Result{Steps: a.steps, Read: a.read, Unanswered: a.unanswered, SpentUSD: a.spent, ShadowUSD: a.shadowed, Shadows: a.shadows, Embeddings: a.embeddings, Quality: a.quality(), DiscardedUSD: a.discarded, VerdictsUSD: a.verdicts}
	r.Runs = a.qualityOfRuns()
	if c := a.holdout.Compare(); c.Baseline.Runs > 0 {
		r.Holdout = &c
	}
	defer r.round()
	names := a.candidates()
	if len(names) < 2 {
		return r
	}
	if baseline == "" {
		baseline = names[len(names)-1]
	}
	m := a.models[baseline]
	if m == nil {
		return r
	}
	r.Baseline = baseline
	r.Measured, r.Estimated = m.ran, m.estimated
	r.Compared, r.ComparedUSD = m.ran+m.estimated+m.failed, m.spent+a.shadowed
	cost := a.baselineCost(m, m)
	r.BaselineUSD, r.TwoStdErrorsUSD = cost.usd(everyone), cost.twoStdErrors()
	r.HasInterval, r.Drawn = cost.hasInterval, cost.drawn && r.Estimated > 0
	r.SavedUSD = r.BaselineUSD - r.ComparedUSD
	r.BaselineQuality = Quality{Mean: m.quality.value(), N: m.quality.n}
	return r
}

func (r *Result) round() {
	for _, usd := range [...]*float64{&r.SpentUSD, &r.ShadowUSD, &r.ComparedUSD, &r.BaselineUSD, &r.TwoStdErrorsUSD, &r.SavedUSD, &r.DiscardedUSD, &r.VerdictsUSD} {
		*usd = sdk.RoundUSD(*usd)
	}
}

// BaselineCost returns the baseline's cost in one of the steps, and whether that is known or can be estimated.
func (a *Account) BaselineCost(t *sdk.Trace, baseline string) (float64, bool) {
	if t.Mode == middleware.ShadowAlternative || !sdk.HasChoice(t.Mode) || len(t.Decisions) == 0 {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := t.Belief(baseline)
	if b == nil {
		return 0, false
	}
	var one modelSums
	share, isCacheable := (*history)(nil).cachedShare(t, b, a.hasMarks)
	one.add(t, b, share, isCacheable)
	return a.baselineCost(a.of(baseline), &one).usd(everyone), true
}

// qualityOfRuns returns the share of passed runs among those with a step and a verdict.
func (a *Account) qualityOfRuns() Quality {
	var ends mean
	for _, v := range a.runs {
		if !v.judged || !v.hasStep {
			continue
		}
		ends.n++
		if v.passed {
			ends.sum++
		}
	}
	return ends.quality("reported verdicts")
}

// quality returns the measured quality or, if nothing measured it, the estimated one.
func (s *sums) quality() Quality {
	var passed mean
	var passes, erring int
	var by []string
	for _, name := range slices.Sorted(maps.Keys(s.judged)) {
		v := s.judged[name]
		if !v.measuresQuality() {
			continue
		}
		by = append(by, cmp.Or(name, "a verifier"))
		passed.n += v.passed + v.failed
		passed.sum += v.right
		passes += v.passed
		erring += v.erring
	}
	if passed.n > 0 {
		q := passed.quality(by...)
		if erring > 0 {
			q.Passed = float64(passes) / float64(passed.n)
		}
		if s.guessed.n > 0 {
			all := passed
			all.merge(&s.guessed)
			q.Unjudged, q.Overall = s.guessed.n, all.value()
		}
		return q
	}
	return Quality{Mean: s.guessed.value(), N: s.guessed.n}
}

// measuresQuality reports whether the verdicts measure quality: not if the verifier only finds faults or is always
// inconclusive.
func (v *verdicts) measuresQuality() bool {
	return v.passed > 0 || v.failed > 0 && v.inconclusive == 0
}

// Measures reports whether a verifier's verdicts measure quality, as far as the steps show.
func (a *Account) Measures(verifier string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.judged[verifier]
	return v == nil && !sdk.IsCheck(verifier) || v != nil && v.measuresQuality()
}

func (m *mean) quality(by ...string) Quality {
	if m.n == 0 {
		return Quality{}
	}
	q := Quality{Mean: m.value(), N: m.n, By: by}
	q.Low, q.High = Wilson(q.Mean, float64(m.n))
	return q
}

// Wilson returns the Wilson interval of two standard errors around a share of n.
func Wilson(share, n float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 2.0
	centre := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return max(0, centre-half), min(1, centre+half)
}

// Share returns the saving as a share of the baseline's cost.
func (r *Result) Share() float64 {
	if r.BaselineUSD == 0 {
		return 0
	}
	return r.SavedUSD / r.BaselineUSD
}

// ShareTwoStdErrors returns the half width of the interval of Share.
func (r *Result) ShareTwoStdErrors() float64 {
	if r.BaselineUSD == 0 {
		return 0
	}
	return r.TwoStdErrorsUSD * r.ComparedUSD / (r.BaselineUSD * r.BaselineUSD)
}

// IsMeasured reports whether the baseline's cost is known on every step, or on enough of
// them for an interval.
func (r *Result) IsMeasured() bool { return r.Baseline != "" && r.HasInterval }

// String describes in two sentences the cost compared with always asking the baseline, and the quality. It is empty
// without steps.
func (r *Result) String() string {
	if r.Steps == 0 && r.Shadows == 0 {
		return ""
	}
	spent := fmt.Sprintf("spent %.6f USD", r.SpentUSD)
	if r.Shadows > 0 {
		spent += fmt.Sprintf(", %.6f of it on %s", r.ShadowUSD, say.Count(int64(r.Shadows), "shadow run"))
	}
	text := strings.TrimSpace(spent + r.comparison() + " " + r.qualities())
	switch q := &r.Runs; {
	case q.N > 0 && q.Mean == 0:
		text += fmt.Sprintf(" Runs: all %d with a reported verdict were reported as failed.", q.N)
	case q.N > 0:
		text += fmt.Sprintf(" Runs: %.0f %% of %d with a reported verdict were right (%.0f to %.0f %%).", 100*q.Mean, q.N, 100*q.Low, 100*q.High)
	}
	if warning := r.Excess(); warning != "" {
		text += " " + warning
	}
	if r.Holdout != nil {
		text = strings.TrimSpace(r.Holdout.String() + " " + text + " " + r.Holdout.Pending())
	}
	return text
}

// excess is the factor over the baseline's cost that is worth a warning, from excessSteps steps on.
const (
	excess      = 1.05
	excessSteps = 20
)

// Excess returns a warning that more was spent than always asking the baseline would have cost, and on what. It is
// empty unless the excess is above 5 % and significant. Shadow runs are requested and do not count.
func (r *Result) Excess() string {
	over := -r.SavedUSD - r.ShadowUSD
	if r.BaselineUSD <= 0 || r.Compared < excessSteps || r.ComparedUSD-r.ShadowUSD <= excess*r.BaselineUSD || over <= r.TwoStdErrorsUSD {
		return ""
	}
	var on []string
	for _, part := range []struct {
		usd  float64
		what string
	}{{r.DiscardedUSD, "on unused answers"}, {r.VerdictsUSD, "on judging answers"}} {
		if part.usd > over/10 {
			on = append(on, fmt.Sprintf("%.6f USD %s", part.usd, part.what))
		}
	}
	text := fmt.Sprintf("Warning: this costs %.0f %% more than always asking %s", 100*over/r.BaselineUSD, say.Short(r.Baseline))
	if len(on) > 0 {
		text += ": " + strings.Join(on, ", ")
	}
	return text + "."
}

func (r *Result) comparison() string {
	name := say.Short(r.Baseline)
	switch {
	case r.Baseline == "":
		return "; there is no other model to compare with."
	case r.Steps > 0 && r.Unanswered == r.Steps && r.Measured == 0:
		return fmt.Sprintf("; no step got an answer to compare with always asking %s.", name)
	}
	of := fmt.Sprintf("%d steps", r.Steps)
	if r.Steps == 1 {
		of = "step"
	}
	on := fmt.Sprintf("the same %s", of)
	if r.Compared < r.Steps {
		on = fmt.Sprintf("the %d of %s that could have asked it", r.Compared, of)
	}
	if math.Abs(r.SpentUSD-r.ComparedUSD) > 1e-12 {
		on += fmt.Sprintf(", which cost %.6f", r.ComparedUSD)
	}
	word, by, share := "saved", r.SavedUSD, 100*r.Share()
	if by < 0 {
		word, by, share = "spent more", -by, -share
	}
	interval, missing := "", ""
	switch {
	case r.Estimated > 0 && !r.HasInterval:
		missing = ", no interval: too few steps asked it"
	case r.Estimated > 0 || r.TwoStdErrorsUSD > 0:
		interval = fmt.Sprintf(" ± %.6f", r.TwoStdErrorsUSD)
	}
	return fmt.Sprintf("; always asking %s would have cost %.6f on %s: %s %.6f%s (%.0f %%%s). Its cost is %s%s.",
		name, r.BaselineUSD, on, word, by, interval, share, missing, r.Basis(), r.explainMissing(of))
}

// Basis describes on how many steps the baseline's cost is measured, and how it is estimated on the others.
func (r *Result) Basis() string {
	switch {
	case r.Compared == 1 && r.Estimated == 1:
		return "estimated"
	case r.Compared == 1:
		return "measured"
	case r.Measured == r.Compared:
		return "measured on all of them"
	case r.Estimated > 0:
		text := fmt.Sprintf("measured on %d of them and estimated on %d", r.Measured, r.Estimated)
		if r.HasInterval && !r.Drawn {
			text += " from steps that were not drawn at random: ± allows for a bias"
		}
		return text
	}
	return fmt.Sprintf("measured on %d of them", r.Measured)
}

func (r *Result) explainMissing(of string) string {
	switch {
	case r.Unanswered == 0:
		return ""
	case r.Steps == 1:
		return "; it got no answer"
	}
	return fmt.Sprintf("; %d of %s got no answer and count as no saving", r.Unanswered, of)
}

// qualities leaves guesses out where runs have verdicts.
func (r *Result) qualities() string {
	if r.Runs.N > 0 && r.Quality.N > 0 && !r.Quality.IsMeasured() {
		return ""
	}
	text := "Quality: " + r.Quality.String()
	if b := &r.BaselineQuality; r.Runs.N == 0 && r.Baseline != "" && b.N > 0 {
		text += fmt.Sprintf("; %s is estimated at %.2f", say.Short(r.Baseline), b.Mean)
	}
	return text + "."
}

// String describes the mean and its basis.
func (q *Quality) String() string {
	switch {
	case q.N == 0:
		return "no answer to judge"
	case !q.IsMeasured():
		return fmt.Sprintf("estimated at %.2f, no verifier judged the answers", q.Mean)
	}
	text := fmt.Sprintf("%.0f %% of %s right (%.0f to %.0f %%) by %s",
		100*q.Mean, say.Count(int64(q.N), "judged answer"), 100*q.Low, 100*q.High, strings.Join(q.By, ", "))
	if q.Passed > 0 {
		text += fmt.Sprintf(", which passed %.0f %%, corrected for the judge's error rates", 100*q.Passed)
	}
	if q.Unjudged > 0 {
		text += fmt.Sprintf("; with estimates for the %d not judged, %.0f %% of all", q.Unjudged, 100*q.Overall)
	}
	return text
}

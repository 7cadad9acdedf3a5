package cli

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk/fit"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// benefit compares the cost of a query with the profile to that of always asking one model, and of the policy without
// the profile: on traces where they allow a forecast, else on the fitted outcomes.
type benefit struct {
	CostUSD   float64 `json:"cost_usd"`
	Model     string  `json:"always"`
	AlwaysUSD float64 `json:"always_usd"`
	// WithoutUSD is the cost under the policy without the profile; 0 if unknown.
	WithoutUSD float64 `json:"without_profile_usd,omitempty"`
	// Runs is nil where queries are no steps of runs, where no run has a verdict and no step the truth, and where the labels
	// take one model's answers for right.
	Runs *rightRuns `json:"runs,omitempty"`

	profile, policy string
	labels          string // see [outcome.Table]
	isPolicyWorse   bool   // on outcomes with recorded truth
	queries, models int
	gain            float64 // in quality, over always asking the model; 0 if unknown
}

// rightRuns compares shares of right runs, which follow from the qualities of single steps: a run is right only if each of
// its steps is. Steps of a run do not fail independently, so where enough runs that the one model did alone have verdicts,
// their share is Always, and the other shares are multiplied by as much as its own.
type rightRuns struct {
	// Judged is the number of those runs; 0 where they are too few.
	Judged int     `json:"judged_runs,omitempty"`
	Steps  float64 `json:"steps"`
	Right  float64 `json:"right"`
	Always float64 `json:"always"`
	// Without is the share under the policy without the profile; nil if unknown.
	Without *float64 `json:"without_profile,omitempty"`
}

func rightRunsOf(p *fit.Profile, t *outcome.Table, always int, rival *policyRival) *rightRuns {
	steps := p.Data.StepsPerRun
	isUnknown := t.Labels != "" && (!strings.HasPrefix(t.Labels, "verdicts on runs") || strings.Contains(t.Labels, "agreement with"))
	if steps == 0 || isUnknown {
		return nil
	}
	_, quality := expectedOf(p)
	right := t.MeanQualities()[always]
	if p.Data.Inferred > 0 { // the table has verdicts
		right = p.Models[always].Right
	}
	r, scale := &rightRuns{Steps: steps, Always: math.Pow(right, steps)}, 1.0
	if share, n := t.RunsRight(always); n >= enoughRuns && r.Always > 0 {
		scale, r.Always, r.Judged = share/r.Always, share, n
	}
	r.Right = min(1, scale*math.Pow(quality, steps))
	if rival != nil && !rival.IsMeasured {
		without := min(1, scale*math.Pow(rival.Quality, steps))
		r.Without = &without
	}
	return r
}

// enoughRuns is the number of runs with verdicts from which their share counts.
const enoughRuns = 20

// print prints the shares for a profile; r can be nil.
func (r *rightRuns) print(w *printer, b *benefit) {
	if r == nil {
		return
	}
	w.f("RUNS RIGHT, if a run has %.1f steps and each must be right: about %s %% with %s, %s %% always asking %s", r.Steps, percent(r.Right), b.profile, percent(r.Always), b.Model)
	if r.Judged > 0 {
		w.f(" (the verdicts on %d runs that it did alone)", r.Judged)
	}
	if r.Without != nil {
		w.f(", %s %% with %s without a profile", percent(*r.Without), b.policy)
	}
	if b.labels != "" {
		w.f(" (as far as these labels tell: %s)", b.labels)
	}
	w.f("\n")
}

// costTolerance is the relative difference of costs below which they count as equal.
const costTolerance = 0.02

func benefitOf(p *fit.Profile, path string, policy *policies.Policy, t *outcome.Table, rival *policyRival, u forecastInUse) benefit {
	b := benefit{profile: path, labels: t.Labels, queries: p.Data.Complete, models: len(t.Models)}
	cost, quality := expectedOf(p)
	b.CostUSD = cost
	costs, qualities := t.AlwaysUSD(), t.MeanQualities()
	always := floats.MaxIdx(costs)
	for m, usd := range costs { // of models that cost about the same, one would take the best
		if usd >= (1-costTolerance)*floats.Max(costs) && qualities[m] > qualities[always] {
			always = m
		}
	}
	if policy != nil {
		b.policy = policy.Path
		if m := t.Index(policy.Baseline); m >= 0 {
			always = m
		}
	}
	b.Model, b.AlwaysUSD = t.Models[always], costs[always]
	if t.Labels == "" && p.Data.Inferred == 0 && u.With == nil {
		b.gain = quality - qualities[always]
	}
	if rival != nil {
		b.WithoutUSD, b.isPolicyWorse = rival.CostUSD, rival.Labels == "" && !rival.RecommendsThis
	}
	b.Runs = rightRunsOf(p, t, always, rival)
	if u.With != nil {
		b.CostUSD, b.WithoutUSD = u.With.CostUSD, u.Without.CostUSD
		if a := u.With.Always; a != nil {
			b.Model, b.AlwaysUSD = a.Model, a.CostUSD
		}
	}
	return b
}

// savesNothing reports whether a query costs about as much as with one model, or more.
func (b *benefit) savesNothing() bool {
	return b.AlwaysUSD > 0 && b.CostUSD >= (1-costTolerance)*b.AlwaysUSD
}

// isDearer reports whether a query costs more than without the profile.
func (b *benefit) isDearer() bool {
	return !b.isPolicyWorse && b.WithoutUSD > 0 && b.CostUSD > (1+costTolerance)*b.WithoutUSD
}

// String explains why the profile saves nothing, and what would help; it is empty where it saves.
func (b *benefit) String() string {
	if b.AlwaysUSD == 0 {
		return fmt.Sprintf("NOTHING CAN BE SAVED: always asking %s costs nothing", b.Model)
	}
	if b.models < 2 {
		return fmt.Sprintf("NOTHING TO CHOOSE: %s is the only model", b.Model)
	}
	fault := "SAVES LESS THAN THE POLICY WITHOUT IT"
	switch {
	case b.savesNothing():
		fault = "SAVES NOTHING"
	case !b.isDearer():
		return ""
	}
	text := fmt.Sprintf("%s %s: a query costs %s USD, %.0f %% of always asking %s", b.profile, fault, dollars(b.CostUSD), 100*b.CostUSD/b.AlwaysUSD, b.Model)
	if b.gain >= 0.005 {
		text += fmt.Sprintf(", and its quality is %.1f points higher", 100*b.gain)
	}
	if !b.isPolicyWorse && b.WithoutUSD > 0 && b.WithoutUSD < (1-costTolerance)*math.Min(b.CostUSD, b.AlwaysUSD) {
		text += fmt.Sprintf(". Keep %s as it is: %s USD, %.0f %%", b.policy, dollars(b.WithoutUSD), 100*b.WithoutUSD/b.AlwaysUSD)
	}
	return text + fmt.Sprintf(". Add labelled runs (these have %s with every model's answer), or set a budget below that", count(b.queries, "query"))
}

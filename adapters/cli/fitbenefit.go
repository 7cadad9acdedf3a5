package cli

import (
	"fmt"
	"math"

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

	profile, policy string
	isPolicyWorse   bool // on outcomes with recorded truth
	queries, models int
}

// costTolerance is the relative difference of costs below which they count as equal.
const costTolerance = 0.02

func benefitOf(p *fit.Profile, path string, policy *policies.Policy, t *outcome.Table, rival *policyRival, u forecastInUse) benefit {
	b := benefit{CostUSD: p.Expected.CostUSD, profile: path, queries: p.Data.Complete, models: len(t.Models)}
	if p.HeldOut != nil {
		b.CostUSD = p.HeldOut.CostUSD
	}
	always := dearestOf(t)
	if policy != nil {
		b.policy = policy.Path
		if m := t.Index(policy.Baseline); m >= 0 {
			always = m
		}
	}
	b.Model, b.AlwaysUSD = t.Models[always], t.MeanCosts()[always]
	if rival != nil {
		b.WithoutUSD, b.isPolicyWorse = rival.CostUSD, rival.Labels == "" && !rival.RecommendsThis
	}
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
	if !b.isPolicyWorse && b.WithoutUSD > 0 && b.WithoutUSD < (1-costTolerance)*math.Min(b.CostUSD, b.AlwaysUSD) {
		text += fmt.Sprintf(". Keep %s as it is: %s USD, %.0f %%", b.policy, dollars(b.WithoutUSD), 100*b.WithoutUSD/b.AlwaysUSD)
	}
	return text + fmt.Sprintf(". Add labelled runs (these have %s with every model's answer), or set a budget below that", count(b.queries, "query"))
}

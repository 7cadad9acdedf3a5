package policies

import (
	"fmt"
	"path"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/feature"
)

// Empty reports whether there are no conditions.
func (w When) Empty() bool {
	return w.Groups == nil && w.Tools == nil && w.Tenants == nil && w.Labels == nil && w.Checks == nil && w.Setbacks == 0
}

// Matches reports whether q meets every condition.
func (w When) Matches(q *sdk.Query) bool { return w.Why(q) == "" }

// Why returns which condition q does not meet, or "" if it meets all of them.
func (w When) Why(q *sdk.Query) string {
	hasChecks := len(q.Checks.FailToPass)+len(q.Checks.PassToPass) > 0 || q.WorkDir != ""
	switch setbacks := feature.Setbacks(q.Features); {
	case w.Groups != nil && !anyGlob(w.Groups, q.Group):
		return fmt.Sprintf("its group %q is not in %q", q.Group, w.Groups)
	case w.Tenants != nil && !anyGlob(w.Tenants, q.Tenant):
		return fmt.Sprintf("its tenant %q is not in %q", q.Tenant, w.Tenants)
	case w.Tools != nil && !slices.ContainsFunc(q.Tools, func(t sdk.Tool) bool { return anyGlob(w.Tools, t.Name) }):
		return fmt.Sprintf("it offers none of the tools %q", w.Tools)
	case w.Checks != nil && *w.Checks && !hasChecks:
		return "it names no tests that decide"
	case w.Checks != nil && !*w.Checks && hasChecks:
		return "it names tests that decide"
	case setbacks < float64(w.Setbacks):
		return fmt.Sprintf("its run has had %v setbacks, fewer than %d", setbacks, w.Setbacks)
	}
	for _, key := range sortedKeys(w.Labels) {
		if v, ok := q.Labels[key]; !ok || !glob(w.Labels[key], v) {
			return fmt.Sprintf("its label %s is %q, not %q", key, v, w.Labels[key])
		}
	}
	return ""
}

func (w When) onlyWithChecks() bool { return w.Checks != nil && *w.Checks }

func anyGlob(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return glob(p, text) })
}

func glob(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return ok && err == nil || pattern == text
}

// choice is the strategy and the candidates of a policy for one query.
type choice struct {
	// Match is the name of the match block, or "" if none applies.
	Match    string
	Strategy *Strategy
	// Candidates marks the models, in the order of the policy, that can run.
	Candidates []bool
}

// Choose returns the strategy and the candidates for q: those of the first match block that applies, or the
// policy's own.
func (p *Policy) Choose(q *sdk.Query) choice {
	c := choice{Strategy: &p.Strategy, Candidates: make([]bool, len(p.Models))}
	var models []string
	for i := range p.Matches {
		if m := &p.Matches[i]; m.When.Matches(q) {
			c.Match, c.Strategy, models = m.Name, m.Strategy, m.Models
			break
		}
	}
	for i := range p.Models {
		c.Candidates[i] = models == nil || slices.Contains(models, p.Models[i].Name)
	}
	return c
}

// CountsSetbacks reports whether any block has a condition on the number of setbacks.
func (p *Policy) CountsSetbacks() bool {
	return slices.ContainsFunc(p.Matches, func(m Match) bool { return m.When.Setbacks > 0 }) ||
		slices.ContainsFunc(p.Verifiers, func(v Verifier) bool { return v.When.Setbacks > 0 }) ||
		slices.ContainsFunc(p.Estimators, func(e Estimator) bool { return e.When.Setbacks > 0 })
}

// Verifies reports whether a verifier of the policy judges answers of model to q and can pass them.
func (p *Policy) Verifies(q *sdk.Query, model string) bool {
	return slices.ContainsFunc(p.Verifiers, func(v Verifier) bool {
		return v.judgesModel(model) && v.Applies(q)
	})
}

// Setting returns the strategy as a setting of package cascade.
func (s *Strategy) Setting() cascade.Setting {
	c := cascade.Setting{
		Name: s.Kind, Lambdas: s.Lambda, Thresholds: s.Threshold, Gamma: s.Gamma, MaxDepth: s.MaxDepth,
		Scale: s.Scale, Order: s.Order, LastAnswer: s.Answer == "last", NodeLimit: s.NodeLimit,
	}
	if s.Kind == cascade.NameCascadeRoute && s.Variant != "" && s.Variant != "exact" {
		c.Name += "_" + s.Variant
	}
	if c.Name == cascade.NameCascadeRouteNoExpect {
		c.Scale, c.NoExpect = 0, true
	}
	return c
}

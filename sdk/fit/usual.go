package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/replay"
)

// Offset is the usual error of out-of-fold estimates on the steps that the fitted strategy takes over the
// outcomes of the fit. A strategy calls the models that it estimates highest, so on its steps even good
// estimates have a small bias.
type Offset struct {
	// Of names the estimate: "quality of m", "cost of m", "cost of verdicts of j" or "quality in group
	// g", with the suffix ", asked by chance" for models that the strategy left out.
	Of string `json:"of"`
	// Count is the number of outcomes or, for weighted ones, the effective number.
	Count float64 `json:"count"`
	// Off is the mean of outcome less estimate, for costs of their logarithms, and Variance the
	// variance of a single difference.
	Off      float64 `json:"off"`
	Variance float64 `json:"variance"`
}

// The names of tallies, or their prefixes and suffix.
const (
	ofQuality  = "quality of "
	ofCost     = "cost of "
	ofVerdicts = ofCost + "verdicts of "
	ofGroup    = "quality in group "
	byChance   = ", asked by chance"
	// withoutTools separates costs of models with prompt caches: some providers cache only prompts with tools.
	withoutTools = ", without tools"
)

// tally sums differences between outcomes and estimates.
type tally struct {
	n, weights, squares    float64
	expected, observed     float64
	off, offSquared, aside float64
	paid                   float64 // of costs: what was observed, with what caches saved
}

// add counts one outcome: expected and observed values, the difference to test (off), and its expected
// variance (aside), 0 if unknown.
func (t *tally) add(expected, observed, off, aside, weight float64) {
	t.n++
	t.weights, t.squares = t.weights+weight, t.squares+weight*weight
	t.expected, t.observed = t.expected+weight*expected, t.observed+weight*observed
	t.off, t.offSquared, t.aside = t.off+weight*off, t.offSquared+weight*off*off, t.aside+weight*aside
}

func (t *tally) offset(of string) Offset {
	mean := t.off / t.weights
	// The expected variance is a lower bound, since a few outcomes can vary less by chance.
	return Offset{of, t.weights * t.weights / t.squares, mean, max(t.offSquared/t.weights-mean*mean, t.aside/t.weights)}
}

type tallies map[string]*tally

func (t tallies) of(name string) *tally {
	if t[name] == nil {
		t[name] = &tally{}
	}
	return t[name]
}

// addCall counts one call: the estimates just before it, and the outcomes. quality is NaN if unknown.
func (t tallies) addCall(model, how string, mean, quality, weight float64) {
	if !math.IsNaN(quality) {
		t.of(ofQuality+model+how).add(mean, quality, quality-mean, bernoulliVariance(mean), weight)
	}
}

// addCallCost counts the cost of a call as it would be without prompt caches: how much of a prompt is cached depends on who
// answered before, and says nothing about the estimates. saved is what the cache saved, NaN if unknown.
func (t tallies) addCallCost(m *Model, how string, hasTools bool, expected, paid, saved, weight float64) {
	of := ofCost + m.Name + how
	if math.IsNaN(saved) {
		saved = m.CachedUSD
	}
	if m.CachedUSD > 0 && !hasTools {
		of += withoutTools
	}
	t.addCost(of, expected+m.CachedUSD, paid+saved, paid, weight)
}

func (t tallies) addCost(of string, expected, observed, paid, weight float64) {
	if expected > 0 && observed > 0 {
		t.of(of).add(expected, observed, math.Log(observed/expected), 0, weight)
		t.of(of).paid += weight * paid
	}
}

func (t tallies) addStep(group string, mean, quality, spread, judged float64) {
	if judged > 0 {
		t.of(ofGroup+group).add(mean/judged, quality/judged, (quality-mean)/judged, spread/judged/judged, 1)
	}
}

// bernoulliVariance returns the variance of an outcome of probability p, which is clamped to [0.01, 0.99].
func bernoulliVariance(p float64) float64 {
	return min(max(p, 0.01), 0.99) * (1 - min(max(p, 0.01), 0.99))
}

// tallyErrors replays a fitted strategy over outcomes and returns the errors of the estimates and of e's
// prices of verdicts.
func tallyErrors(s cascade.Strategy, t *outcome.Table, models []Model, e *estimate.Estimator, r *estimate.Replay) []Offset {
	all := tallies{}
	addCall := func(q, m int, how string, state *cascade.State, weight float64) {
		all.addCall(t.Models[m], how, state.Beliefs[m].Mean, t.Quality[q][m], weight)
		all.addCallCost(&models[m], how, t.HasTools(q), state.Costs[m], t.CostUSD[q][m], outcome.At(t.CachedUSD, q, m), weight)
	}
	var of string
	var prices [][]float64
	for judge := range e.VerdictsUSD {
		of, prices = ofVerdicts+judge, t.VerdictCosts(judge)
	}
	for q := range t.Queries {
		var mean, quality, spreads float64
		var judged []int // models whose first look, the verdict, was paid for
		replay.NewWalker(r.Start(q), t.Quality[q], t.CostUSD[q]).Walk(s, 0.5, func(turn *replay.Turn) {
			state, m := &turn.State, turn.Decision.Run
			if m != cascade.Stop && prices != nil && (turn.Decision.Look || !cascade.Buys(s)) && !slices.Contains(judged, m) {
				judged = append(judged, m)
				all.addCost(of, state.Beliefs[m].Look.CostUSD, prices[q][m], prices[q][m], 1)
			}
			switch {
			case m != cascade.Stop && !turn.Decision.Look:
				v, p := t.Quality[q][m], state.Beliefs[m].Mean
				addCall(q, m, "", state, 1)
				mean, quality, spreads = mean+p, quality+v, spreads+bernoulliVariance(p)
			case m == cascade.Stop:
				all.addStep(t.Group(q), mean, quality, spreads, float64(len(state.Ran)))
				left := float64(len(t.Models) - len(state.Ran))
				for m := range t.Models {
					if !slices.Contains(state.Ran, m) {
						addCall(q, m, byChance, state, 1/left)
					}
				}
			}
		})
	}
	var out []Offset
	for of, tally := range all {
		out = append(out, tally.offset(of))
	}
	slices.SortFunc(out, func(a, b Offset) int { return cmp.Compare(a.Of, b.Of) })
	return out
}

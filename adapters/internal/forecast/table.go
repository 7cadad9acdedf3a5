package forecast

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/feature"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Table is a world of recorded outcomes. A model is found by its name in the policy, or by its served name.
type Table struct {
	Outcomes *outcome.Table
	Seed     uint64
}

// Len implements [World].
func (t *Table) Len() int { return len(t.Outcomes.Queries) }

// Query implements [World].
func (t *Table) Query(n int) *sdk.Query {
	o := t.Outcomes
	q := &sdk.Query{ID: o.Queries[n], Group: o.Group(n), Features: map[string]float64{}}
	if text := o.Prompt(n); text != "" {
		q.Messages = []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{sdk.TextPart(text)}}}
	}
	q.InputTokens = o.PromptTokens(n)
	for i, name := range o.Models {
		if v := outcome.At(o.Ante, n, i); !math.IsNaN(v) {
			q.Features[estimate.FeatureAnte+name] = v
		}
	}
	if n := o.Troubles(n); n > 0 {
		q.Features[feature.ToolErrors] = n
	}
	if o.Judged() {
		q.Checks.FailToPass = []string{"recorded"}
	}
	return q
}

// VerdictUSD implements [verdictCosts].
func (t *Table) VerdictUSD(n int, verifier, model string) (float64, bool) {
	own := func(judge string) [][]float64 { return t.Outcomes.Signals[judge+sdk.SignalCostUSD] }
	prices := own(verifier)
	if prices == nil && !slices.ContainsFunc(t.Outcomes.Judges(), func(judge string) bool { return own(judge) != nil }) {
		prices = t.Outcomes.VerdictsUSD
	}
	if i := t.Outcomes.Index(model); i >= 0 && outcome.At(prices, n, i) >= 0 {
		return prices[n][i], true
	}
	known, sum := 0, 0.0
	for _, row := range prices {
		for _, usd := range row {
			if usd >= 0 {
				known, sum = known+1, sum+usd
			}
		}
	}
	return sum / float64(max(1, known)), known > 0
}

// Outcome implements [World].
func (t *Table) Outcome(n int, m Model) Outcome {
	o, i := t.Outcomes, t.index(m)
	if i < 0 || math.IsNaN(outcome.At(o.Quality, n, i)) {
		return Outcome{Quality: draw(t.Seed, n, m, m.Quality)}
	}
	positive := func(matrix [][]float64) float64 {
		if v := outcome.At(matrix, n, i); v > 0 {
			return v
		}
		return 0
	}
	out := Outcome{
		Quality: o.Quality[n][i], Judged: true, Known: true, Text: o.Answer(n, i), CostUSD: positive(o.CostUSD), Free: outcome.At(o.CostUSD, n, i) == 0,
		Usage:   sdk.Usage{InputTokens: int(math.Round(positive(o.InputTokens))), OutputTokens: int(math.Round(positive(o.OutputTokens)))},
		Signals: map[string]float64{},
	}
	if v := outcome.At(o.Post, n, i); !math.IsNaN(v) {
		out.Signals[estimate.SignalPost] = v
	}
	if o.Verdicts != nil {
		out.Verdicts = map[string]float64{}
		addValues(out.Verdicts, o.Verdicts, n, i)
	}
	maps.Copy(out.Signals, out.Verdicts) // for verifiers with bought verdicts
	addValues(out.Signals, o.Signals, n, i)
	return out
}

func (t *Table) index(m Model) int {
	if i := t.Outcomes.Index(m.Name); i >= 0 {
		return i
	}
	served := m.Served
	if base, number, further := strings.Cut(m.Name, "#"); further && base != "" {
		served += "#" + number // a second sample is another answer
	}
	return slices.IndexFunc(t.Outcomes.Models, func(name string) bool { return name == served || strings.HasSuffix(name, "/"+served) })
}

// addValues adds the recorded values of a model's answer, by name.
func addValues(to map[string]float64, matrices map[string][][]float64, n, i int) {
	for name, matrix := range matrices {
		if v := outcome.At(matrix, n, i); !math.IsNaN(v) {
			to[name] = v
		}
	}
}

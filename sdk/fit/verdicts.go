package fit

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// readVerdicts returns a table with the verdicts of fallible judges, as a router sees them, and sets the
// judges' rates in the options; it reports whether these were learned. In a table that is not verified,
// the judges' verdicts are the qualities. In a verified one the qualities are verdicts, not the truth,
// except for [outcome.Table.StepVerdicts], and are replaced by their posteriors given everything known
// about the query. Rates that are not given are learned from the recorded outcomes if there is a single
// judge; for several judges only the joint verdict is recorded.
func readVerdicts(met, t *outcome.Table, o *estimate.Options) (read *outcome.Table, learned bool) {
	judges, together := map[string]cascade.Rates{}, cascade.Rates{FalsePass: 1}
	for _, name := range o.JudgeOrder {
		rates, known := o.Judges[name]
		if !known {
			rates = cascade.LearnRates(0, 0, 0, 0)
		}
		judges[name], together = rates, together.And(rates)
		learned = !known && t.Verified && len(o.JudgeOrder) == 1
	}
	own, verdicts := *t, t.Quality
	if t.Verified {
		known := &together
		if learned {
			known = nil
		}
		model := fitVerdicts(met, known)
		own.Quality, verdicts = model.posteriors(t)
		if learned {
			judges[o.JudgeOrder[0]] = model.rates
		}
	}
	own.Verified, own.Verdicts, o.Judges = false, map[string][][]float64{}, judges
	for name := range judges {
		own.Verdicts[name] = verdicts
	}
	return &own, learned
}

// countTruths returns the numbers of answers with and without a known truth in a table whose qualities are
// verdicts.
func countTruths(t *outcome.Table) (truths, verdicts int) {
	for _, answers := range judgedAnswers(t) {
		for _, a := range answers {
			if math.IsNaN(a.truth) {
				verdicts++
			} else {
				truths++
			}
		}
	}
	return truths, verdicts
}

// withVerdictCosts returns a table whose costs include those of the verdicts, if recorded: an answer
// without a verdict gets the mean of its model.
func withVerdictCosts(t *outcome.Table, judges []string) *outcome.Table {
	prices := t.VerdictCosts(slices.Concat(judges, t.Judges())...)
	if prices == nil {
		return t
	}
	own := *t
	own.CostUSD = nil
	for q, row := range t.CostUSD {
		row = slices.Clone(row)
		for m := range row {
			row[m] += prices[q][m]
		}
		own.CostUSD = append(own.CostUSD, row)
	}
	return &own
}

package outcome_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// A table that a program made wrongly is refused with what is wrong and where.
func TestTablesOfPrograms(t *testing.T) {
	inf := math.Inf(1)
	for want, spoil := range map[string]func(*outcome.Table){
		"":                                       func(o *outcome.Table) { o.Quality[0][0] = math.NaN() },
		"query q1: quality has 1 values for 2":   func(o *outcome.Table) { o.Quality[1] = o.Quality[1][:1] },
		"cost_usd: 1 rows for 2 queries":         func(o *outcome.Table) { o.CostUSD = o.CostUSD[:1] },
		"query q0, model b: quality 1.5 is not":  func(o *outcome.Table) { o.Quality[0][1] = 1.5 },
		"query q1, model a: cost_usd +Inf is":    func(o *outcome.Table) { o.CostUSD[1][0] = inf },
		"query q1, model a: cost_usd -1 is not":  func(o *outcome.Table) { o.CostUSD[1][0] = -1 },
		"query q0, model a: score +Inf is not":   func(o *outcome.Table) { o.Signals = map[string][][]float64{"score": {{inf, 0}, {0, 0}}} },
		"query q0, model a: verdict_j 0.5 is no": func(o *outcome.Table) { o.Verdicts = map[string][][]float64{"j": {{0.5, 0}, {0, 0}}} },
		"model b occurs twice":                   func(o *outcome.Table) { o.Models[0] = "b" },
		"1 groups for 2 queries":                 func(o *outcome.Table) { o.Groups = []string{"g"} },
		"query q1: answers has 0 values":         func(o *outcome.Table) { o.Answers = [][]string{{"", ""}, {}} },
		"run_verdicts: 0 rows for 2 queries":     func(o *outcome.Table) { o.RunVerdicts = [][]float64{} },
		"outcomes of no model":                   func(o *outcome.Table) { o.Models = nil },
	} {
		table := &outcome.Table{
			Models: []string{"a", "b"}, Queries: []string{"q0", "q1"},
			Quality: [][]float64{{0, 1}, {1, 1}}, CostUSD: [][]float64{{1, 2}, {1, 2}},
		}
		table.Models, table.Queries = slices.Clone(table.Models), slices.Clone(table.Queries)
		spoil(table)
		if err := table.Validate(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

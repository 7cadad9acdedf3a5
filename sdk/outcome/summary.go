package outcome

import (
	"cmp"
	"math"
	"slices"
)

// Summary summarises the contents of a table.
type Summary struct {
	Queries int
	// Complete is the number of queries with the quality and cost of every model.
	Complete int
	// Groups are sorted by size, the largest first.
	Groups []groupSummary
	// Models is sorted by mean cost, with unknown costs last.
	Models []modelSummary
	// The oracle's mean over complete queries of the best quality, and of the cost of the
	// cheapest model that has it. NaN without complete queries.
	OracleQuality, OracleCostUSD float64
	// These report which columns the table has.
	Prompts, Answers, Tokens, Latency, Ante, Post bool
	Verified                                      bool
	// Signals has the judges' verdicts, as verdict_NAME, after the signals.
	Signals []string
}

type groupSummary struct {
	Name    string
	Queries int
}

// modelSummary has a model's means over the queries on which the values are known.
type modelSummary struct {
	Name             string
	Quality, CostUSD float64
	// Missing is the number of queries without the model's quality or cost.
	Missing int
	// Pareto says that no other model is at least as good and cheaper.
	Pareto bool
}

// Describe summarises the table.
func (t *Table) Describe() Summary {
	s := Summary{
		Queries: len(t.Queries), OracleQuality: math.NaN(), OracleCostUSD: math.NaN(),
		Prompts: t.Prompts != nil, Answers: t.Answers != nil, Tokens: t.OutputTokens != nil,
		Latency: t.LatencySeconds != nil, Ante: t.Ante != nil, Post: t.Post != nil,
		Verified: t.Verified, Signals: t.SignalNames(),
	}
	for _, judge := range t.Judges() {
		s.Signals = append(s.Signals, colVerdict+judge)
	}
	counts := map[string]int{}
	for q := range t.Queries {
		counts[t.Group(q)]++
	}
	for name, n := range counts {
		s.Groups = append(s.Groups, groupSummary{name, n})
	}
	slices.SortFunc(s.Groups, func(a, b groupSummary) int {
		return cmp.Or(cmp.Compare(b.Queries, a.Queries), cmp.Compare(a.Name, b.Name))
	})
	costs, qualities := t.MeanCosts(), t.MeanQualities()
	for m, name := range t.Models {
		one := modelSummary{Name: name, Quality: qualities[m], CostUSD: costs[m], Pareto: isPareto(costs, qualities, m)}
		for q := range t.Queries {
			if math.IsNaN(t.Quality[q][m]) || math.IsNaN(At(t.CostUSD, q, m)) {
				one.Missing++
			}
		}
		s.Models = append(s.Models, one)
	}
	slices.SortStableFunc(s.Models, func(a, b modelSummary) int {
		return cmp.Or(cmp.Compare(oneIf(math.IsNaN(a.CostUSD)), oneIf(math.IsNaN(b.CostUSD))), cmp.Compare(a.CostUSD, b.CostUSD))
	})
	complete := t.Complete()
	if s.Complete = len(complete.Queries); s.Complete > 0 {
		s.OracleQuality, s.OracleCostUSD = complete.oracle()
	}
	return s
}

func isPareto(costs, qualities []float64, m int) bool {
	for other := range costs {
		if qualities[other] >= qualities[m] && costs[other] < costs[m] || qualities[other] > qualities[m] && costs[other] == costs[m] {
			return false
		}
	}
	return !math.IsNaN(costs[m])
}

// oracle returns the mean quality and cost of the cheapest best answer to each query of a
// complete table.
func (t *Table) oracle() (quality, costUSD float64) {
	n := float64(len(t.Queries))
	for q, row := range t.Quality {
		top, cost := math.Inf(-1), math.Inf(1)
		for m, v := range row {
			if c := t.CostUSD[q][m]; v > top || v == top && c < cost {
				top, cost = v, c
			}
		}
		quality += top / n
		costUSD += cost / n
	}
	return quality, costUSD
}

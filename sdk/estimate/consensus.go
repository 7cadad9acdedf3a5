package estimate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Consensus replaces labels that are agreement with a reference model by the probability that each
// answer is right. The reference is then one more witness that can err, and the probabilities
// follow from how the answers agree ([OfPriors], after Dawid and Skene, 1979) and from the verdicts
// on runs, however few: a run is right if every answer that it took is. Steps with fewer than three answers
// keep their labels. A table whose labels are others, or that has no answers, no costs or only
// two models, is returned unchanged.
//
// On recorded calls of eleven models, the mean of these qualities is within 7 points of the
// share of right answers of each model.
func Consensus(t *outcome.Table) (*outcome.Table, error) {
	others, isAgreement := strings.CutSuffix(t.Labels, "agreement with "+t.Reference)
	if !isAgreement || t.Index(t.Reference) < 0 || t.Answers == nil || t.CostUSD == nil || len(t.Models) < 3 {
		return t, nil
	}
	priced := make([]sdk.Model, len(t.Models))
	for i, usd := range t.MeanCosts() {
		priced[i] = sdk.Model{Name: t.Models[i]}
		if !math.IsNaN(usd) {
			priced[i].Price.Output = usd
		}
	}
	replay, err := OfPriors(priced, make([]float64, len(priced))).On(t)
	if err != nil {
		return nil, fmt.Errorf("weighing answers: %w", err)
	}
	c := *t
	c.Labels = others + "how the answers of all models agree"
	c.Quality = make([][]float64, len(t.Quality))
	beliefs, costs := make([]cascade.Belief, len(priced)), make([]float64, len(priced))
	weighed := make([]bool, len(t.Quality))
	for q, row := range t.Quality {
		c.Quality[q] = append([]float64(nil), row...)
		isJudged := takenInRun(t, q) >= 0
		var asked []int
		for m, answer := range t.Answers[q] {
			if answer != "" && (isJudged || !math.IsNaN(row[m])) {
				asked = append(asked, m)
			}
		}
		if len(asked) < 3 {
			continue // of two different answers, nothing shows which is right
		}
		weighed[q] = true
		replay.Start(q).Believe(asked, beliefs, costs)
		for _, m := range asked {
			c.Quality[q][m] = beliefs[m].Mean
		}
	}
	heedRuns(&c, weighed)
	return &c, nil
}

// takenInRun returns the model whose answer a step's run took, or -1 if the run has no verdict.
func takenInRun(t *outcome.Table, q int) int {
	if t.RunVerdicts == nil {
		return -1
	}
	return slices.IndexFunc(t.RunVerdicts[q], func(v float64) bool { return !math.IsNaN(v) })
}

// heedRuns conditions the probabilities of weighed steps on the verdicts on their runs. A run with answers that are
// right with probabilities p is right with their product P. If it was, each of them is right; if it was not, each is with
// (p - P) / (1 - P). Another answer to a step gains what the taken one loses.
func heedRuns(t *outcome.Table, weighed []bool) {
	isRight := map[string]float64{} // by run, without its verdict
	usual := t.MeanQualities()
	for q := range t.Queries {
		if m := takenInRun(t, q); m >= 0 {
			p, known := isRight[t.Runs[q]]
			if !known {
				p = 1
			}
			if weighed[q] {
				p *= t.Quality[q][m]
			} else {
				p *= usual[m]
			}
			isRight[t.Runs[q]] = p
		}
	}
	const rounding = 1e-9
	for q, row := range t.Quality {
		m := takenInRun(t, q)
		if m < 0 || !weighed[q] {
			continue
		}
		before, run, verdict := row[m], isRight[t.Runs[q]], t.RunVerdicts[q][m]
		after := verdict + (1-verdict)*max(before-run, 0)/max(1-run, rounding)
		for i, answer := range t.Answers[q] {
			switch {
			case answer == t.Answers[q][m]:
				row[i] = after
			case answer != "":
				row[i] *= (1 - after) / max(1-before, rounding)
			}
		}
	}
}

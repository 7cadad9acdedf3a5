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

// Priors for answers that can be compared, fitted to function calls (BFCL, eleven models)
// and to final answers in mathematics and code (ZeroEval): the slope (how much more likely
// models are to be right on a query that is easy for others), and the Spread and Differ of
// [agreement].
const (
	usualSlope  = 3
	usualSpread = 2
	usualDiffer = 0.03
)

// Prior qualities of models without a stated one: that of the cheapest, the increase per
// doubling of the price, and the maximum. The maximum is less than the estimate of two
// answers that agree, so that no single answer is accepted for its price alone.
const (
	cheapestQuality    = 0.8
	qualityPerDoubling = 0.02
	bestQuality        = 0.89
)

// OfPriors returns a latent estimator for models without any outcomes: only the agreement
// of their answers changes its estimates. A mean quality of 0 means the prior at the model's
// price. All its cost estimates are 0.
func OfPriors(models []sdk.Model, quality []float64) *Estimator {
	e := &latent{
		Nodes: easeNodes(), Groups: []string{}, Mean: []float64{0}, PerLength: []perLength{{}}, Shift: [][]float64{make([]float64, len(models))},
		Agree: []agreement{{Spread: usualSpread, Differ: usualDiffer}},
	}
	names := make([]string, len(models))
	for i, mean := range PriorMeans(models, quality) {
		names[i] = models[i].Name
		// The mean of sigmoid(base + slope·z) over a standard normal z is near
		// sigmoid(base / sqrt(1 + pi·slope²/8)) (MacKay, 1992).
		e.Base = append(e.Base, logit(mean)*math.Sqrt(1+math.Pi*usualSlope*usualSlope/8))
		e.Slope = append(e.Slope, usualSlope)
	}
	e.prepare()
	return &Estimator{Models: names, Quality: e, Cost: &costMean{CostUSD: make([]float64, len(models))}}
}

// PriorMeans returns the mean qualities that [OfPriors] uses.
func PriorMeans(models []sdk.Model, quality []float64) []float64 {
	cheapest := math.Inf(1)
	for i := range models {
		if p := priceOf(&models[i]); p > 0 {
			cheapest = min(cheapest, p)
		}
	}
	means := slices.Clone(quality)
	for i := range models {
		if means[i] == 0 {
			doublings := math.Log2(max(priceOf(&models[i])/cheapest, 1))
			means[i] = min(cheapestQuality+qualityPerDoubling*doublings, bestQuality)
		}
	}
	return means
}

// priceOf returns the price of a model's answer per token of it, with a prompt of three
// times its length.
func priceOf(m *sdk.Model) float64 { return 3*m.Price.Input + m.Price.Output }

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

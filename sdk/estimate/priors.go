package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
)

// What is usual of answers that can be compared, as fitted to function calls (BFCL,
// eleven models) and to final answers of mathematics and code (ZeroEval): how much more
// likely models are to be right on a query that is easy for others, how many kinds of
// wrong answers there are, and the share of right answers that are written differently.
const (
	usualSlope  = 3
	usualSpread = 2
	usualDiffer = 0.03
)

// Qualities that are believed of models of which nothing is said: that of the cheapest,
// what each doubling of the price adds, and the most: less than what agreement of two is
// worth, so that no answer is believed alone for its price.
const (
	cheapestQuality    = 0.8
	qualityPerDoubling = 0.02
	bestQuality        = 0.89
)

// OfPriors returns the latent estimator of what is believed of models before there is
// any outcome: only the agreement of their answers moves its estimates. A mean quality of
// 0 stands for what is usual at the model's price. It knows no costs.
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

// PriorMeans returns the mean qualities that [OfPriors] goes by.
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

// priceOf returns what a model's answer costs for each token of it, with a prompt of
// three times its length.
func priceOf(m *sdk.Model) float64 { return 3*m.Price.Input + m.Price.Output }

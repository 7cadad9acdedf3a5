package estimate

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
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

package fit

import (
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// verdictRounds is how often qualities that are verdicts are estimated anew.
const verdictRounds = 6

// ratesOf returns how often the judges err together.
func ratesOf(o estimate.Options) (rates cascade.Rates) {
	for _, judge := range o.JudgeOrder {
		rates = rates.And(o.Judges[judge])
	}
	return rates
}

// canBe reports whether judges that err at such rates can have passed what they did: not where
// they passed more of a model's answers than if all were right. Verdicts tell nothing of the
// truth at rates that cannot be.
func canBe(t *outcome.Table, o estimate.Options) bool {
	most := 1 - ratesOf(o).FalseReject
	return !t.Verified || !slices.ContainsFunc(passShares(t), func(share float64) bool { return share > most })
}

// passShares returns the share of each model's answers that verdicts passed, whatever they are sure of.
func passShares(t *outcome.Table) []float64 {
	own := *t
	own.Quality = make([][]float64, len(t.Quality))
	for q, row := range t.Quality {
		own.Quality[q] = slices.Clone(row)
		for m, verdict := range row {
			if !math.IsNaN(verdict) {
				own.Quality[q][m] = 0
				if verdict >= 0.5 {
					own.Quality[q][m] = 1
				}
			}
		}
	}
	return own.MeanQualities()
}

// asEvidence returns a table without verdicts as use will take what judges say that err at known
// rates: their verdicts are as the qualities have it. Those of a verified table are verdicts and
// not the truth, and what these tell of it takes their place: what a quality estimator believes
// of each answer given all verdicts on its query, fitted to such beliefs in turn (expectation
// maximisation). It begins with the share of right answers by which a model passes as often as
// it does.
func asEvidence(t *outcome.Table, o estimate.Options) (*outcome.Table, error) {
	own := *t
	own.Verified, own.Verdicts = false, map[string][][]float64{}
	for _, judge := range o.JudgeOrder {
		own.Verdicts[judge] = t.Quality
	}
	if !t.Verified {
		return &own, nil
	}
	own.Quality = make([][]float64, len(t.Quality))
	rates, shares := ratesOf(o), passShares(t)
	for q, row := range t.Quality {
		own.Quality[q] = slices.Clone(row)
		for m, verdict := range row {
			if !math.IsNaN(verdict) {
				right := clampShare((shares[m] - rates.FalsePass) / (1 - rates.FalsePass - rates.FalseReject))
				own.Quality[q][m] = posterior(rates, right, verdict)
			}
		}
	}
	for range verdictRounds {
		fitted, err := estimate.Fit(&own, o)
		if err != nil {
			return nil, err
		}
		if own.Quality, err = posteriors(fitted, &own); err != nil {
			return nil, err
		}
	}
	return &own, nil
}

func posterior(r cascade.Rates, prior, verdict float64) float64 {
	right, wrong := r.Likelihoods(verdict >= 0.5)
	return cascade.Posterior(prior, right, wrong)
}

// posteriors returns what an estimator believes of every answer of a table that has a verdict,
// given all verdicts on its query.
func posteriors(e *estimate.Estimator, t *outcome.Table) ([][]float64, error) {
	replay, err := e.On(t)
	if err != nil {
		return nil, err
	}
	beliefs, costs := make([]cascade.Belief, len(t.Models)), make([]float64, len(t.Models))
	quality := make([][]float64, len(t.Quality))
	for q, row := range t.Quality {
		var ran []int
		for m, v := range row {
			if !math.IsNaN(v) {
				ran = append(ran, m)
			}
		}
		replay.Start(q).Believe(ran, beliefs, costs)
		quality[q] = slices.Clone(row)
		for _, m := range ran {
			quality[q][m] = beliefs[m].Mean
		}
	}
	return quality, nil
}

// withVerdictCosts returns a table whose costs are those of the answers with the verdicts on them,
// as far as these are recorded.
func withVerdictCosts(t *outcome.Table, judges []string) *outcome.Table {
	own := *t
	for _, judge := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(judges, t.Judges())))) {
		prices := t.Signals[judge+sdk.SignalCostUSD]
		if prices == nil {
			continue
		}
		costs := make([][]float64, len(own.CostUSD))
		for q, row := range own.CostUSD {
			costs[q] = slices.Clone(row)
			for m, usd := range prices[q] {
				if usd > 0 {
					costs[q][m] += usd
				}
			}
		}
		own.CostUSD = costs
	}
	return &own
}

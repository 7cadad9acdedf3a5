package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// costFactor models the logarithms of the models' costs as normal around a mean that
// depends on the group and the length of the prompt, and as correlated through one
// latent factor of the query:
//
//	log cost_i = mean_i + Load_i·f + noise_i,  f ~ N(0, 1).
//
// The cost of a model that has run updates the factor, and with it the predictions for
// the others.
type costFactor struct {
	costMeans
	Load []float64 `json:"load"`
	// Noise is a variance.
	Noise []float64 `json:"noise"`
	// Quality has the mean qualities of the models if a check judges the answers: hard
	// queries are expensive, so a verdict updates the factor too. The loads and noises of
	// the verdicts follow those of the costs.
	Quality []float64 `json:"quality,omitempty"`
	// Factor scales the predictions so that their mean is the mean cost; 0 for a free model.
	Factor []float64 `json:"factor"`
}

const (
	factorRounds  = 40
	loadPrecision = 5 // of the prior that shrinks loads to 0, in outcomes
	leastNoise    = 1e-3
)

func (e *costFactor) fit(t *outcome.Table) {
	residual, tries := e.costMeans.fit(t), triesOf(t.Models)
	if n := len(t.Models); t.Verified {
		e.Quality = t.MeanQualities()
		pool(tries, e.Quality)
		for q, row := range t.Quality {
			for i, v := range row {
				residual[q] = append(residual[q], v-e.Quality[i])
			}
		}
		for _, own := range slices.Clone(tries) {
			verdicts := make([]int, len(own))
			for k, i := range own {
				verdicts[k] = n + i
			}
			tries = append(tries, verdicts)
		}
	}
	e.factorise(residual, tries)
	e.Factor = e.factors(t, func(i int) float64 { return e.Load[i]*e.Load[i] + e.Noise[i] })
}

// factorise fits loads and noises to the residuals of the means, which are NaN if
// unknown, by expectation maximisation. All samples of a model share them.
func (e *costFactor) factorise(residual [][]float64, tries [][]int) {
	n := len(residual[0])
	e.Load, e.Noise = make([]float64, n), make([]float64, n)
	for i := range n {
		m := columnMoments(residual, i)
		e.Noise[i] = m.m2/max(m.n, 1)/2 + leastNoise
	}
	pool(tries, e.Noise)
	for i, half := range e.Noise {
		e.Load[i] = math.Sqrt(half)
		if i >= len(e.PerLength) {
			e.Load[i] = 0
		}
	}
	ff, rf, rr, count := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for range factorRounds {
		clear(ff)
		clear(rf)
		clear(rr)
		clear(count)
		for _, row := range residual {
			f := noFactor
			for i, r := range row {
				if !math.IsNaN(r) {
					f.observe(e.Load[i], e.Noise[i], r)
				}
			}
			for i, r := range row {
				if !math.IsNaN(r) {
					ff[i] += f.variance + f.mean*f.mean
					rf[i] += r * f.mean
					rr[i] += r * r
					count[i]++
				}
			}
		}
		for _, sums := range [][]float64{ff, rf, rr, count} {
			pool(tries, sums)
		}
		for i := range n {
			if count[i] > 1 {
				e.Load[i] = rf[i] / (ff[i] + loadPrecision)
				e.Noise[i] = max(rr[i]-e.Load[i]*rf[i], 0)/count[i] + leastNoise
			}
		}
	}
}

// factor is the posterior of the factor, which is normal.
type factor struct{ mean, variance float64 }

// noFactor is the prior of the factor.
var noFactor = factor{0, 1}

// observe updates the posterior with one log cost, less its mean.
func (f *factor) observe(load, noise, residual float64) {
	gain := f.variance * load / (load*load*f.variance + noise)
	f.mean += gain * (residual - load*f.mean)
	f.variance -= gain * load * f.variance
}

func (e *costFactor) Kind() string { return KindCostLatent }

func (e *costFactor) check(models int) error {
	columns := models + len(e.Quality)
	if e.Quality != nil && len(e.Quality) != models || len(e.Load) != columns || len(e.Noise) != columns || len(e.Factor) != models {
		return fmt.Errorf("parameters do not fit %d models", models)
	}
	return e.costMeans.check(models)
}

func (e *costFactor) Cursor() costCursor {
	n := len(e.PerLength)
	return &costFactorCursor{costFactor: e, mean: make([]float64, n), known: make([]float64, n)}
}

type costFactorCursor struct {
	*costFactor
	factor factor
	mean   []float64 // of the log costs before any run
	known  []float64 // cost of a model that has run, else NaN
}

func (c *costFactorCursor) Begin(q *queryFacts) {
	c.at(c.mean, q)
	c.factor = noFactor
	for i := range c.known {
		c.known[i] = math.NaN()
	}
}

func (c *costFactorCursor) Observe(model int, r *runFacts) {
	if n := len(c.PerLength); c.Quality != nil && !math.IsNaN(r.Verdict) {
		c.factor.observe(c.Load[n+model], c.Noise[n+model], r.Verdict-c.Quality[model])
	}
	if math.IsNaN(r.CostUSD) {
		return
	}
	c.known[model] = r.CostUSD
	if r.CostUSD > 0 && c.Factor[model] > 0 {
		c.factor.observe(c.Load[model], c.Noise[model], math.Log(r.CostUSD)-c.mean[model])
	}
}

func (c *costFactorCursor) Costs(dst []float64) {
	for i := range c.known {
		load := c.Load[i]
		dst[i] = c.known[i]
		if math.IsNaN(dst[i]) {
			dst[i] = c.Factor[i] * math.Exp(c.mean[i]+load*c.factor.mean+(load*load*c.factor.variance+c.Noise[i])/2)
		}
	}
}

package eval

import (
	"math"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// The rows that need no estimator are computed on the test half, with hindsight.

// linearInterpolation mixes the single models on the hull at random.
func linearInterpolation(_ []float64, f *Frame) Curve { return upperHull(f.Models) }

// bestSingle always runs the model of highest mean quality.
func bestSingle(_ []float64, f *Frame) Curve { return Curve{f.Models[f.Best]} }

// randomChoice mixes the cheapest and the best single model at random.
func randomChoice(_ []float64, f *Frame) Curve {
	return NewCurve([]Point{f.Models[f.Cheapest], f.Models[f.Best]})
}

// oracle knows every outcome and runs, on each query, the model of highest quality
// less lambda times cost.
func oracle(o *outcome.Table, lambdas []float64) *Sample {
	s := NewSample(lambdas, len(o.Quality))
	for l, lambda := range lambdas {
		for q := range o.Quality {
			chosen, value := 0, math.Inf(-1)
			for m, quality := range o.Quality[q] {
				v := quality
				if lambda > 0 {
					v -= lambda * o.CostUSD[q][m]
				}
				if v > value || v == value && o.CostUSD[q][m] < o.CostUSD[q][chosen] {
					chosen, value = m, v
				}
			}
			s.Cost[l][q], s.Quality[l][q], s.Steps[l][q] = o.CostUSD[q][chosen], o.Quality[q][chosen], 1
		}
	}
	return s
}

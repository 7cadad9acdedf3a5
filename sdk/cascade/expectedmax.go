package cascade

import "math"

// ExpectedMax returns E[max(X_1, ..., X_n)] of independent beliefs, normal,
// Bernoulli or mixed; a belief with StdDev 0 is deterministic.
//
// With v the greatest of the deterministic entries (-Inf if there is none),
//
//	E[max] = v + integral from v to Inf of (1 - F_1(x)···F_n(x)) dx,
//
// by Gauss-Legendre quadrature on panels that are no wider than a few of the
// narrowest deviations that vary there. The absolute error is below 1e-9 for
// qualities and deviations in [0, 1]. The maximum of nothing is -Inf; a NaN makes
// the result NaN.
func ExpectedMax(beliefs []Belief) float64 {
	var fixed [16]law
	ls := laws(fixed[:0])
	floor := math.Inf(-1)
	for _, b := range beliefs {
		if math.IsNaN(b.Mean) || math.IsNaN(b.StdDev) && !b.Bernoulli {
			return math.NaN()
		}
		l := b.law(1)
		if !l.two && l.dev == 0 {
			floor = max(floor, l.mean)
			continue
		}
		ls = append(ls, l)
	}
	return ls.expectedMax(floor)
}

// negligible is the deviation below which a belief counts as deterministic; the
// error of that is at most 0.4 times as large.
const negligible = 1e-12

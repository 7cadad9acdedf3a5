package cascade

import "math"

// ExpectedMax returns E[max(X_1, ..., X_n)] of independent beliefs, normal,
// Bernoulli or mixed; a belief with StdDev 0 is deterministic.
//
// With v the greatest deterministic entry (-Inf if there is none),
//
//	E[max] = v + integral from v to Inf of (1 - F_1(x)···F_n(x)) dx,
//
// by Gauss-Legendre quadrature on panels that are no wider than four of the
// narrowest deviations that vary there, split where a distribution function jumps.
// For Bernoullis alone it is exactly 1 - (1 - p_1)···(1 - p_n). The absolute error
// is below 1e-9 for qualities and deviations in [0, 1]. The maximum of nothing is
// -Inf; a NaN makes the result NaN. It does not allocate for up to 16 beliefs that
// are not deterministic.
func ExpectedMax(beliefs []Belief) float64 {
	var fixed [16]law
	ls, floor := laws(fixed[:0]), negInf
	for _, b := range beliefs {
		if math.IsNaN(b.Mean) || math.IsNaN(b.StdDev) && !b.Bernoulli {
			return math.NaN()
		}
		if l := b.law(1); l.isTwoPoint || l.dev > 0 {
			ls = append(ls, l)
		} else {
			floor = max(floor, l.mean)
		}
	}
	return ls.expectedMax(floor)
}

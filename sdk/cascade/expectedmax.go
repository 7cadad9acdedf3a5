package cascade

import "math"

// ExpectedMax returns E[max(X_1, ..., X_n)] of independent beliefs, normal,
// Bernoulli or mixed; a belief with StdDev 0 is deterministic.
//
// With v the greatest of the deterministic entries (-Inf if there is none),
//
//	E[max] = v + integral from v to Inf of (1 - F_1(x)···F_n(x)) dx,
//
// by Gauss-Legendre quadrature on panels that are no wider than four of the
// narrowest deviations that vary there, split where a distribution function jumps;
// Bernoullis alone come out as 1 - (1 - p_1)···(1 - p_n), exactly. The absolute
// error is below 1e-9 for qualities and deviations in [0, 1]. The maximum of
// nothing is -Inf; a NaN makes the result NaN. Up to 16 beliefs that are not
// deterministic are worked on without allocation.
func ExpectedMax(beliefs []Belief) float64 {
	var fixed [16]law
	ls, floor := gather(fixed[:0], beliefs, negInf)
	return ls.expectedMax(floor)
}

// ExpectedGain returns E[(max(X_1, ..., X_n) - floor)^+], what independent beliefs
// are expected to add to a sure floor: ExpectedMax of all less the floor, but with
// relative accuracy 1e-9 however far the floor lies above. It is 0 for no beliefs
// and NaN when anything is.
func ExpectedGain(floor float64, beliefs []Belief) float64 {
	var fixed [16]law
	ls, v := gather(fixed[:0], beliefs, floor)
	if math.IsNaN(v) || math.IsInf(floor, 0) && len(beliefs) > 0 {
		return max(ls.expectedMax(v)-floor, 0)
	}
	return v - floor + ls.expectedGain(v)
}

// gather appends the laws of the beliefs that are not deterministic, and returns
// the greatest of the others and floor; NaN if anything is NaN.
func gather(ls laws, beliefs []Belief, floor float64) (laws, float64) {
	for _, b := range beliefs {
		if math.IsNaN(b.Mean) || math.IsNaN(b.StdDev) && !b.Bernoulli {
			return nil, math.NaN()
		}
		if l := b.law(1); l.two || l.dev > 0 {
			ls = append(ls, l)
		} else {
			floor = max(floor, l.mean)
		}
	}
	return ls, floor
}

package cascade

import "math"

const (
	invSqrt2   = 1 / math.Sqrt2
	invSqrt2Pi = 1 / (math.SqrtPi * math.Sqrt2)
)

// normalCDF returns the distribution function of the standard normal, with
// relative accuracy in the lower tail.
func normalCDF(z float64) float64 { return 0.5 * math.Erfc(-z*invSqrt2) }

func normalPDF(z float64) float64 { return invSqrt2Pi * math.Exp(-0.5*z*z) }

// normalExcess returns E[(Z + z)^+] = phi(z) + z Phi(z) for a standard normal Z,
// with relative accuracy for all z. The two terms cancel in the lower tail, where
// a continued fraction takes over.
func normalExcess(z float64) float64 {
	if z > -4 {
		return normalPDF(z) + z*normalCDF(z)
	}
	// The repeated integral of the upper tail at x = -z, by the continued fraction
	// i1(x) / i0(x) = 1 / (x + 2/(x + 3/(x + ...))), i0(x) = Phi(-x).
	x := -z
	if math.IsInf(x, 1) {
		return 0
	}
	f := x
	for k := 40.0; k >= 2; k-- {
		f = x + k/f
	}
	return normalCDF(z) / f
}

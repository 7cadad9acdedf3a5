package cascade

import "math"

// gauss12 holds the positive half of the Gauss-Legendre rule of 12 nodes on [-1, 1].
var gauss12 = [...]struct{ x, w float64 }{
	{0.1252334085114688, 0.24914704581340277},
	{0.36783149899818013, 0.2334925365383548},
	{0.5873179542866171, 0.20316742672306592},
	{0.7699026741943047, 0.16007832854334622},
	{0.9041172563704748, 0.10693932599531843},
	{0.9815606342467191, 0.04717533638651183},
}

// reach is the distance from its mean, in deviations, beyond which a normal counts
// as certain: the excess there is below 1e-11 deviations.
const reach = 6.5

// panelWidth is the width of a panel in units of the narrowest deviation that varies
// on it, for an absolute error of E[max] below 1e-11 of that deviation.
const panelWidth = 4

// laws are independent distributions.
type laws []law

// support returns an interval that contains the maximum of the laws and floor,
// except with negligible probability.
func (ls laws) support(floor float64) (lo, hi float64) {
	lo, hi = floor, floor
	for i := range ls {
		l := &ls[i]
		a, b := l.mean-reach*l.dev, l.mean+reach*l.dev
		if l.isTwoPoint {
			a, b = l.lo, l.hi
		}
		lo, hi = max(lo, a), max(hi, b)
	}
	return lo, hi
}

// resolve returns the width of a panel on which the laws that vary between a and b
// are smooth enough for the rule, or +Inf if none varies. panel is that width in
// deviations.
func (ls laws) resolve(a, b, panel float64) float64 {
	width := math.Inf(1)
	for i := range ls {
		l := &ls[i]
		if l.dev > 0 && b > l.mean-reach*l.dev && a < l.mean+reach*l.dev {
			width = min(width, panel*l.dev)
		}
	}
	return width
}

// jump returns the first point strictly between a and b at which a law's
// distribution function jumps, or b.
func (ls laws) jump(a, b float64) float64 {
	for i := range ls {
		b = ls[i].jump(a, b)
	}
	return b
}

func (l *law) jump(a, b float64) float64 {
	switch {
	case l.isTwoPoint:
		return cut(a, cut(a, b, l.hi), l.lo)
	case l.dev == 0:
		return cut(a, b, l.mean)
	}
	return b
}

// cut returns t if it lies between a and b, else b.
func cut(a, b, t float64) float64 {
	if t > a {
		return min(t, b)
	}
	return b
}

// panels calls yield for consecutive panels that cover [lo, hi], each narrow
// enough for the laws that vary on it; flat says that none does.
func (ls laws) panels(lo, hi, panel float64, yield func(a, b float64, flat bool)) {
	for a := lo; a < hi; {
		stop := ls.jump(a, hi)
		for a < stop {
			b := stop
			var w float64
			for {
				w = ls.resolve(a, b, panel)
				if b-a <= w {
					break
				}
				// Divide into equal panels if they are few, and in half if a narrow
				// law far away would make them many.
				parts := math.Ceil((b - a) / w)
				if parts > 4 {
					parts = 2
				}
				next := a + (b-a)/parts
				if next == a || next == b {
					break
				}
				b = next
			}
			yield(a, b, math.IsInf(w, 1))
			a = b
		}
	}
}

// below returns the integral of F_1···F_n from lo to hi.
func (ls laws) below(lo, hi float64) float64 {
	sum := 0.0
	ls.panels(lo, hi, panelWidth, func(a, b float64, flat bool) {
		c, h := 0.5*(a+b), 0.5*(b-a)
		if flat {
			sum += 2 * h * ls.cdf(c)
			return
		}
		part := 0.0
		for _, g := range gauss12 {
			part += g.w * (ls.cdf(c-h*g.x) + ls.cdf(c+h*g.x))
		}
		sum += h * part
	})
	return sum
}

// cdf returns the distribution function of the maximum of the laws.
func (ls laws) cdf(x float64) float64 {
	p := 1.0
	for i := range ls {
		p *= ls[i].cdf(x)
	}
	return p
}

// expectedMax returns E[max(floor, X_1, ..., X_n)].
func (ls laws) expectedMax(floor float64) float64 {
	lo, hi := ls.support(floor)
	return hi - ls.below(lo, hi)
}

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

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

package cascade

import (
	"math"
	"sync"
)

// The curve tabulates the standard normal on [-curveEnd, curveEnd] with
// curveSteps points per deviation. Between two points it is a cubic with the
// function's own slopes at both: the error of Phi and of the excess is below
// 1/384·h⁴·max|f””| < 3e-9. Two loads and a dozen multiplications replace an
// exponential and an error function; the search needs hundreds of values per
// decision.
const (
	curveEnd   = 8
	curveSteps = 32
)

type curve struct {
	points [2*curveEnd*curveSteps + 2]struct{ excess, cdf, pdf float64 }
	// logs has the logarithms of the midpoints of equal parts of [1, 2).
	logs [1 << logBits]struct{ inverse, log float64 }
}

// logBits is the number of leading fraction bits that select a part.
const logBits = 7

// sharedCurve returns the table, which is computed on first use.
var sharedCurve = sync.OnceValue(func() *curve {
	c := new(curve)
	for i := range c.points {
		z := float64(i)/curveSteps - curveEnd
		p := &c.points[i]
		p.excess, p.cdf, p.pdf = normalExcess(z), normalCDF(z), normalPDF(z)/curveSteps
	}
	for i := range c.logs {
		middle := 1 + (float64(i)+0.5)/(1<<logBits)
		c.logs[i].inverse, c.logs[i].log = 1/middle, math.Log(middle)
	}
	return c
})

// excess returns E[(Z + z)^+] to 3e-9.
func (c *curve) excess(z float64) float64 {
	u := (z + curveEnd) * curveSteps
	if !(u > 0) {
		return 0
	}
	if u >= 2*curveEnd*curveSteps {
		return z
	}
	i := int(u)
	u -= float64(i)
	a, b := &c.points[i], &c.points[i+1]
	return hermite(u, a.excess, b.excess, a.cdf*(1.0/curveSteps), b.cdf*(1.0/curveSteps))
}

// upper returns 1 - Phi(z) to 3e-9.
func (c *curve) upper(z float64) float64 {
	u := (curveEnd - z) * curveSteps
	if !(u > 0) {
		return 0
	}
	if u >= 2*curveEnd*curveSteps {
		return 1
	}
	i := int(u)
	u -= float64(i)
	a, b := &c.points[i], &c.points[i+1]
	return hermite(u, a.cdf, b.cdf, a.pdf, b.pdf)
}

// log returns the logarithm of a normal positive number to 2e-13.
func (c *curve) log(x float64) float64 {
	bits := math.Float64bits(x)
	exponent := float64(int(bits>>52) - 1023)
	at := &c.logs[bits>>(52-logBits)&(1<<logBits-1)]
	r := math.Float64frombits(bits&(1<<52-1)|1023<<52)*at.inverse - 1
	return exponent*math.Ln2 + at.log + r*(1-r*(1.0/2-r*(1.0/3-r*(1.0/4))))
}

// hermite evaluates at u in [0, 1] the cubic with values f0, f1 and slopes d0, d1
// at the ends.
func hermite(u, f0, f1, d0, d1 float64) float64 {
	df := f1 - f0
	return f0 + u*(d0+u*((3*df-2*d0-d1)+u*(d0+d1-2*df)))
}

// excessOver returns E[(X - t)^+] of a law, by the curve.
func (c *curve) excessOver(l *law, t float64) float64 {
	if l.dev == 0 {
		return l.excess(t)
	}
	return l.dev * c.excess((l.mean-t)/l.dev)
}

// upperAt returns P(X > x) of a law, by the curve.
func (c *curve) upperAt(l *law, x float64) float64 {
	if l.dev == 0 {
		return 1 - l.cdf(x)
	}
	return c.upper((x - l.mean) / l.dev)
}

// uppers fills in P(X > x) of a law at many points.
func (c *curve) uppers(l *law, points, into []float64) {
	if l.dev == 0 {
		for j, x := range points {
			into[j] = c.upperAt(l, x)
		}
		return
	}
	inverse := 1 / l.dev
	for j, x := range points {
		into[j] = c.upper((x - l.mean) * inverse)
	}
}

// pairExcess returns E[(X - Y)^+] of two independent laws.
func (c *curve) pairExcess(x, y *law) float64 {
	switch {
	case !x.isTwoPoint && !y.isTwoPoint:
		dev := math.Sqrt(x.dev*x.dev + y.dev*y.dev)
		if dev == 0 {
			return max(x.mean-y.mean, 0)
		}
		return dev * c.excess((x.mean-y.mean)/dev)
	case y.isTwoPoint:
		return y.p*c.excessOver(x, y.hi) + (1-y.p)*c.excessOver(x, y.lo)
	}
	return x.p*below(c, y, x.hi) + (1-x.p)*below(c, y, x.lo)
}

// below returns E[(t - Y)^+].
func below(c *curve, y *law, t float64) float64 { return t - y.mean + c.excessOver(y, t) }

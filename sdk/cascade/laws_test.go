package cascade

import (
	"math"
	"testing"
)

// The values of a law at its own points and just next to them.
func TestLawsAtTheirPoints(t *testing.T) {
	two, point, normal := law{mean: 0.5, isTwoPoint: true, lo: 0.2, hi: 0.8, p: 0.5}, law{mean: 0.4}, law{mean: 0.4, dev: 0.2}
	tail := func(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
	c := sharedCurve()
	for _, test := range []struct {
		l              law
		x, cdf, excess float64
	}{
		{two, 0.1, 0, 0.4}, {two, 0.2, 0.5, 0.3}, {two, 0.5, 0.5, 0.15}, {two, 0.8, 1, 0}, {two, 0.9, 1, 0},
		{point, 0.3, 0, 0.1}, {point, 0.4, 1, 0}, {point, 0.5, 1, 0},
		{normal, 0.4, 0.5, 0.2 / math.Sqrt(2*math.Pi)}, {normal, 0.6, 1 - tail(1), 0.2 * (math.Exp(-0.5)/math.Sqrt(2*math.Pi) - tail(1))},
	} {
		if got := test.l.cdf(test.x); math.Abs(got-test.cdf) > 1e-12 {
			t.Errorf("%+v: P(X <= %v) = %v, want %v", test.l, test.x, got, test.cdf)
		}
		if got := test.l.excess(test.x); math.Abs(got-test.excess) > 1e-12 {
			t.Errorf("%+v: E[(X - %v)^+] = %v, want %v", test.l, test.x, got, test.excess)
		}
		into := make([]float64, 1)
		c.uppers(&test.l, []float64{test.x}, into)
		if math.Abs(into[0]-(1-test.cdf)) > 4e-9 || math.Abs(c.excessOver(&test.l, test.x)-test.excess) > 4e-9 || c.upperAt(&test.l, test.x) != into[0] {
			t.Errorf("%+v at %v, by the curve: %v and %v", test.l, test.x, into[0], c.excessOver(&test.l, test.x))
		}
	}
}

// E[(X - Y)^+] of every kind of two laws equals the sum over Y.
func TestPairExcess(t *testing.T) {
	c := sharedCurve()
	all := []law{{mean: 0.5, isTwoPoint: true, lo: 0.2, hi: 0.8, p: 0.5}, {mean: 0.3, isTwoPoint: true, lo: 0, hi: 1, p: 0.3}, {mean: 0.4}, {mean: 0.7}, {mean: 0.4, dev: 0.2}, {mean: 0.6, dev: 0.05}}
	for i := range all {
		for j := range all {
			x, y := &all[i], &all[j]
			want := 0.0
			switch {
			case y.isTwoPoint:
				want = y.p*x.excess(y.hi) + (1-y.p)*x.excess(y.lo)
			case y.dev == 0:
				want = x.excess(y.mean)
			default:
				const n = 20000
				for k := range n {
					z := -8 + 16*(float64(k)+0.5)/n
					want += 16.0 / n * normalPDF(z) * x.excess(y.mean+y.dev*z)
				}
			}
			if got := c.pairExcess(x, y); math.Abs(got-want) > 1e-7 {
				t.Errorf("%+v over %+v: %v, want %v", x, y, got, want)
			}
		}
	}
}

// below reports true only for reservation values that are below, and for nearly all of them.
func TestBelowIsSure(t *testing.T) {
	c := sharedCurve()
	for _, l := range []law{{mean: 0.5, isTwoPoint: true, lo: 0.2, hi: 0.8, p: 0.5}, {mean: 0.4}, {mean: 0.4, dev: 0.2}, {mean: 0.4, dev: 1e-3}} {
		for price := 0.001; price < 1; price *= 1.3 {
			r := c.reservation(&l, price)
			for _, by := range []float64{1e-7, 0.01, 0.3} {
				if c.below(&l, r-by, price) {
					t.Errorf("%+v at %v: its reservation value %v is said to lie below %v", l, price, r, r-by)
				}
				if !c.below(&l, r+max(by, 1e-5), price) && l.excess(r+max(by, 1e-5)) < price-1e-8 {
					t.Errorf("%+v at %v: its reservation value %v is not known to lie below %v", l, price, r, r+max(by, 1e-5))
				}
			}
		}
	}
}

// A model with a look on offer has the law after the look if that is worth its price, be the look a
// number or a verdict.
func TestBoxesWithALook(t *testing.T) {
	x, err := newIndex(Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	verdict := Look{Bernoulli: true, Judge: Rates{0.1, 0.05}, CostUSD: 0.01}
	for name, c := range map[string]struct {
		b    Belief
		want law
		paid float64 // for the look
	}{
		"nothing to buy":             {Belief{Mean: 0.5, StdDev: 0.2}, law{mean: 0.5, dev: 0.2}, 0},
		"a number":                   {Belief{Mean: 0.5, Look: Look{StdDev: 0.3, CostUSD: 0.01}}, law{mean: 0.5, dev: 0.3}, 0.01},
		"a number more":              {Belief{Mean: 0.5, StdDev: 0.4, Look: Look{StdDev: 0.3, CostUSD: 0.01}}, law{mean: 0.5, dev: 0.5}, 0.01},
		"too dear":                   {Belief{Mean: 0.5, StdDev: 0.4, Look: Look{StdDev: 0.3, CostUSD: 1}}, law{mean: 0.5, dev: 0.4}, 0},
		"a verdict":                  {Belief{Mean: 0.5, Look: verdict}, (&Belief{Mean: 0.5, Judge: verdict.Judge}).ruled(1), 0.01},
		"half of it is known before": {Belief{Mean: 0.5, Shared: 0.5, Look: verdict}, (&Belief{Mean: 0.5, Judge: verdict.Judge}).ruled(0.5), 0.01},
		"the verdict itself":         {Belief{Mean: 0.5, Bernoulli: true, Look: verdict}, (&Belief{Mean: 0.5, Judge: verdict.Judge}).ruled(1), 0.01},
		"nobody looks":               {Belief{Mean: 0.5, Unseen: true, Look: verdict}, law{mean: 0.5}, 0},
	} {
		got, r := x.box(c.b, 0.1, 1)
		want := x.curve.reservation(&c.want, 0.1+c.paid)
		if got.isTwoPoint != c.want.isTwoPoint || !near(got.mean, c.want.mean) || !near(got.dev, c.want.dev) || !near(got.lo, c.want.lo) || !near(got.hi, c.want.hi) || !near(got.p, c.want.p) || math.Abs(r-want) > 1e-12 {
			t.Errorf("%s: %+v of %v, want %+v of %v", name, got, r, c.want, want)
		}
	}
	// Of several looks each has a number of its own, beside those of other models.
	for _, c := range []struct {
		d    Decision
		seen []int
		want int
	}{
		{Decision{Run: 2}, []int{1, 2}, 2}, {Decision{Run: 2, Look: true}, []int{1, 2}, 5}, {Decision{Run: 2, Look: true}, []int{1, 2, 5, 4}, 8}, {Decision{Run: 0, Look: true}, []int{1, 4, 0}, 3},
	} {
		if got := c.d.Mark(c.seen, 3); got != c.want {
			t.Errorf("%+v after %v: %d, want %d", c.d, c.seen, got, c.want)
		}
	}
}

// ruled returns the law of an estimate after a verdict, from Bayes' rule.
func (b *Belief) ruled(scale float64) law {
	p, fp, fr := b.Mean, b.Judge.FalsePass, b.Judge.FalseReject
	pass := p*(1-fr) + (1-p)*fp
	hi, lo := p*(1-fr)/pass, p*fr/(1-pass)
	if scale != 1 {
		lo, hi = p*(1-scale)+scale*lo, p+scale*(hi-p)
	}
	return law{mean: p, lo: lo, hi: hi, p: pass, isTwoPoint: true}
}

// Logarithms and exponentials of the relaxation have the stated accuracy over their whole domain.
func TestRoughNumbers(t *testing.T) {
	c := sharedCurve()
	for x := -705.0; x < 705; x += 0.37 {
		want := math.Exp(min(max(x, -700), 700))
		if got := roughExp(x); math.Abs(got/want-1) > 2e-5 {
			t.Fatalf("exp(%v) is %v, want %v", x, got, want)
		}
	}
	for _, p := range []float64{0, 1e-12, 1e-5, 0.99999e-4, 1e-4, 0.3, 0.999, 1 - 1e-15} {
		if got, want := c.minusLog1m(p), min(-math.Log1p(-p), longest); math.Abs(got-want) > 1e-11*max(1, want)+1e-3*max(0, want-30) {
			t.Errorf("-log(1 - %v) is %v, want %v", p, got, want)
		}
	}
	if got := c.minusLog1m(1); got != longest {
		t.Errorf("-log 0 is %v", got)
	}
	for n := range 7 {
		mass, a := []float64{1, 2, 3, 4, 5, 6, 7}[:n], []float64{0.5, 1, 1.5, 2, 2.5, 3, 3.5}[:n]
		var first, second float64
		for j, m := range mass {
			first, second = first+m*a[j], second+m*a[j]*a[j]
		}
		if f, s := moments(mass, a); math.Abs(f-first) > 1e-12 || math.Abs(s-second) > 1e-12 || math.Abs(dot(mass, a)-first) > 1e-12 {
			t.Errorf("of %d: %v, %v and %v; want %v, %v", n, f, s, dot(mass, a), first, second)
		}
	}
}

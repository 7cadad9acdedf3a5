package cascade

import (
	"math"
	"testing"
)

// The defining equation, over all magnitudes of the price, in relative terms.
func TestReservationValueSolvesItsEquation(t *testing.T) {
	c := sharedCurve()
	for _, b := range []Belief{
		{Mean: 0.5, StdDev: 0.1}, {Mean: -3, StdDev: 2}, {Mean: 0.9, StdDev: 1e-6}, {Mean: 0.7, StdDev: 1},
		{Mean: 0.5, Bernoulli: true}, {Mean: 1e-9, Bernoulli: true}, {Mean: 1, Bernoulli: true}, {Mean: 0, Bernoulli: true},
		{Mean: 0.25},
	} {
		last := math.Inf(1)
		for e := -200.0; e < 30; e += 0.25 {
			price := math.Pow(10, e/10)
			for _, scale := range []float64{1, 0.5} {
				l := b.law(scale)
				r := c.reservation(&l, price)
				if scale == 1 {
					if got := ReservationValue(b, price); got != r {
						t.Fatalf("ReservationValue %v, want %v", got, r)
					}
					if r > last {
						t.Errorf("%+v: rises with the price at %v", b, price)
					}
					last = r
				}
				if r < l.mean-price-1e-12*(1+price) {
					t.Errorf("%+v at %v: %v lies below the mean less the price", b, price, r)
				}
				// The rounding of r changes the excess by up to ulp(r)·P(X >= r).
				rounding := 4e-16 * (math.Abs(r) + math.Abs(l.mean) + l.dev) * (1 - l.cdf(r-1e-9*l.dev-1e-9))
				if got := l.excess(r); math.Abs(got-price) > 1e-12*price+rounding {
					t.Errorf("%+v scale %v price %v: r %v has excess %v", b, scale, price, r, got)
				}
			}
		}
	}
	if r := ReservationValue(Belief{Mean: 0.5, StdDev: 0.1}, 0); !math.IsInf(r, 1) {
		t.Errorf("a free normal has reservation value %v", r)
	}
	if r := ReservationValue(Belief{Mean: 0.25, Bernoulli: true}, 0.1); math.Abs(r-0.6) > 1e-15 {
		t.Errorf("Bernoulli(1/4) at 0.1: %v, want 1 - 0.1/0.25", r)
	}
	for _, r := range []float64{
		ReservationValue(Belief{Mean: 0.5}, -1), ReservationValue(Belief{Mean: math.NaN()}, 1),
		ReservationValue(Belief{Mean: 0.5, StdDev: -1}, 1), ReservationValue(Belief{Mean: 2, Bernoulli: true}, 1),
	} {
		if !math.IsNaN(r) {
			t.Errorf("bad input gives %v", r)
		}
	}
}

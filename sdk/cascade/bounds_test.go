package cascade

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestBoundsKeepTheSearchSmall checks how many items of random states each of the search's bounds leaves,
// alone and in sequence, against recorded numbers: a looser bound leads to the same decisions, but later.
// If fewer are left than before, record the new numbers.
func TestBoundsKeepTheSearchSmall(t *testing.T) {
	type counts struct{ singles, pivot, thresholds, dominators, items, open, tried int }
	for _, test := range []struct {
		models, dense, room int
		kept                counts
	}{
		{6, 1000, 0, counts{2211, 2144, 1903, 2002, 1660, 1506, 5377}},
		{16, 1000, 0, counts{5461, 5527, 5138, 4463, 3710, 2399, 15662}},
		{40, 1000, 0, counts{12672, 13813, 13701, 10219, 8840, 2264, 13135}},
		{16, 2, 0, counts{5461, 5527, 5138, 4463, 3710, 549, 1051}},
		{40, 2, 0, counts{12672, 13813, 13701, 10219, 8840, 974, 2950}},
		{16, 2, 3, counts{4852, 4351, 4235, 3517, 3133, 868, 3780}},
	} {
		t.Run(fmt.Sprintf("models=%d/dense=%d/room=%d", test.models, test.dense, test.room), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(test.models), 8))
			w := newSearch()
			var got counts
			for range 500 {
				s := randomState(rng, test.models)
				r, err := newCascadeRoute(Params{Lambdas: []float64{math.Exp(-6 * rng.Float64())}, MaxDepth: test.room}, exactSearch)
				if err != nil {
					t.Fatal(err)
				}
				if r.relaxFrom = test.dense; r.DepthReached(s) {
					continue
				}
				_, floor := s.best()
				w.open, w.nodes = w.open[:0], 0
				w.choose(r, s, floor)
				got.items, got.open, got.tried = got.items+len(w.items), got.open+len(w.open), got.tried+w.nodes
				left := func(bound func()) int {
					w.collect(r, s)
					bound()
					return len(w.items)
				}
				var pivot item
				w.bar = negInf
				got.singles += left(func() { pivot = w.singles() })
				got.pivot += left(func() { w.removeDominated(&pivot) })
				got.thresholds += left(w.thresholds)
				got.dominators += left(w.dominators)
			}
			g, k := reflect.ValueOf(got), reflect.ValueOf(test.kept)
			for i := range g.NumField() {
				if now, before := g.Field(i).Int(), k.Field(i).Int(); max(now-before, before-now) > before/500 {
					t.Errorf("%s: %d, %d before", g.Type().Field(i).Name, now, before)
				}
			}
			if t.Failed() {
				t.Logf("%+v", got)
			}
		})
	}
}

// TestCurveIsAsCloseAsItSays compares logarithms, tails and gains of looks with the standard
// library and with sums over a fine grid.
func TestCurveIsAsCloseAsItSays(t *testing.T) {
	c, rng := sharedCurve(), rand.New(rand.NewPCG(3, 9))
	for range 2000 {
		if x := math.Exp(40 * (rng.Float64() - 0.5)); math.Abs(c.log(x)-math.Log(x)) > 2e-13*max(1, math.Abs(math.Log(x))) {
			t.Fatalf("log %v is %v, want %v", x, c.log(x), math.Log(x))
		}
	}
	for _, test := range []struct {
		l       law
		x, want float64
	}{
		{law{mean: 0.4, dev: 0.2}, 0.5, 0.5 * math.Erfc(0.5/math.Sqrt2)},
		{law{mean: 0.4, dev: 0.2}, 0.3, 0.5 * math.Erfc(-0.5/math.Sqrt2)},
		{law{isTwoPoint: true, lo: 0, hi: 1, p: 0.3}, -0.1, 1},
		{law{isTwoPoint: true, lo: 0, hi: 1, p: 0.3}, 0, 0.3},
		{law{isTwoPoint: true, lo: 0, hi: 1, p: 0.3}, 1, 0},
		{law{mean: 0.4}, 0.39, 1},
		{law{mean: 0.4}, 0.4, 0},
	} {
		if got := c.upperAt(&test.l, test.x); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("P(X > %v) is %v, want %v", test.x, got, test.want)
		}
	}
	x := &Index{curve: c}
	for range 40 {
		closed := make([]box, rng.IntN(4))
		for k := range closed {
			closed[k] = box{[]law{{mean: rng.Float64(), dev: 0.3 * rng.Float64()}, {isTwoPoint: true, lo: 0.1, hi: 0.9, p: rng.Float64()}, {mean: rng.Float64()}}[rng.IntN(3)], rng.Float64()}
		}
		mean, beside := rng.Float64(), 1.2*rng.Float64()-0.3
		number, verdict := Look{StdDev: 0.05 + 0.3*rng.Float64()}, Look{Bernoulli: true, Judge: Rates{0.4 * rng.Float64(), 0.4 * rng.Float64()}}
		for _, after := range []law{number.law(mean, 1), verdict.law(mean, 1), verdict.law(mean, 0.6)} {
			if got, want := x.lookGain(&after, beside, closed), gainOnGrid(&after, beside, closed); math.Abs(got-want) > 2e-4 {
				t.Errorf("a look that makes %.3f %+v beside %.3f and %v gains %.5f, want %.5f", mean, after, beside, closed, got, want)
			}
		}
	}
}

// gainOnGrid is lookGain by its definition: the difference of the expected final values with
// the estimate after the look and before it.
func gainOnGrid(after *law, beside float64, closed []box) float64 {
	const n, low, high = 40_000, -3.0, 4.0
	const step = (high - low) / n
	worth := make([]float64, n+1) // of holding low + i·step, with the boxes still closed
	worth[n] = high
	at := func(i int) float64 { return low + float64(i)*step }
	for i := n - 1; i >= 0; i-- {
		none := 1.0 // nothing that is found in the boxes is more
		for _, b := range closed {
			if m := at(i) + step/2; m < b.reservation {
				none *= b.law.cdf(m)
			}
		}
		worth[i] = worth[i+1] - step*none
	}
	of := func(v float64) float64 { return worth[int(math.Round((max(v, beside)-low)/step))] }
	gain := -of(after.mean)
	if after.isTwoPoint {
		return gain + after.p*of(after.hi) + (1-after.p)*of(after.lo)
	}
	for i := range n {
		z := (at(i) + step/2 - after.mean) / after.dev
		gain += step / after.dev * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * of(at(i)+step/2)
	}
	return gain
}

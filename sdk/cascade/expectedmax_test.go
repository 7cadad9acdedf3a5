package cascade

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// orderStatistic has E[max] of n independent standard normals: 1/sqrt(pi) and
// 3/(2 sqrt(pi)) for 2 and 3; for 4 and 5 from the closed forms with
// arcsin(1/3), 3/sqrt(pi)·(1/2 + asin(1/3)/pi) and 5/sqrt(pi)·(1/4 + 3 asin(1/3)/(2 pi)).
var orderStatistic = map[int]float64{
	1: 0,
	2: 1 / math.SqrtPi,
	3: 1.5 / math.SqrtPi,
	4: 3 / math.SqrtPi * (0.5 + math.Asin(1.0/3)/math.Pi),
	5: 5 / math.SqrtPi * (0.25 + 1.5*math.Asin(1.0/3)/math.Pi),
}

func TestExpectedMaxOfEqualNormals(t *testing.T) {
	for n, want := range orderStatistic {
		for _, dev := range []float64{1e-6, 0.01, 0.3, 1} {
			beliefs := make([]Belief, n)
			for i := range beliefs {
				beliefs[i] = Belief{Mean: 0.4, StdDev: dev}
			}
			if got := ExpectedMax(beliefs); math.Abs(got-0.4-dev*want) > 3e-11*dev+1e-15 {
				t.Errorf("%d normals of deviation %v: %v, want %v", n, dev, got, 0.4+dev*want)
			}
		}
	}
}

// clark is Clark's formula (1961) for E[max] of two normals.
func clark(m1, m2, s1, s2, correlation float64) float64 {
	theta := math.Sqrt(s1*s1 + s2*s2 - 2*correlation*s1*s2)
	a := (m1 - m2) / theta
	return m1*normalCDF(a) + m2*normalCDF(-a) + theta*normalPDF(a)
}

func TestExpectedMaxOfTwoIsClarks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		a := Belief{Mean: rng.Float64(), StdDev: math.Exp(-10 * rng.Float64())}
		b := Belief{Mean: rng.Float64(), StdDev: math.Exp(-10 * rng.Float64())}
		want := clark(a.Mean, b.Mean, a.StdDev, b.StdDev, 0)
		if got := ExpectedMax([]Belief{a, b}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%+v %+v: %v, want %v", a, b, got, want)
		}
	}
}

// reference integrates with far more nodes than any rule here uses, over pieces
// that end wherever a law begins, ends or jumps.
func reference(floor float64, beliefs []Belief) float64 {
	cuts := []float64{}
	hi := floor
	for _, b := range beliefs {
		l := b.law(1)
		if l.isTwoPoint {
			cuts = append(cuts, l.lo, l.hi)
			hi = max(hi, l.hi)
			continue
		}
		for z := -10.0; z <= 10; z += 0.5 {
			cuts = append(cuts, l.mean+z*l.dev)
		}
		hi = max(hi, l.mean+10*l.dev)
	}
	lo := hi
	for _, c := range cuts {
		lo = min(lo, c)
	}
	lo = max(lo, floor)
	below := 0.0
	for a := lo; a < hi; {
		b := hi
		for _, c := range cuts {
			if c > a {
				b = min(b, c)
			}
		}
		below += quad.Fixed(func(x float64) float64 {
			p := 1.0
			for _, bl := range beliefs {
				l := bl.law(1)
				p *= l.cdf(x)
			}
			return p
		}, a, b, 8, quad.Legendre{}, 0)
		a = b
	}
	return hi - below
}

func TestExpectedMaxAgainstFineQuadrature(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	worst := 0.0
	for trial := range 150 {
		n := 1 + rng.IntN(9)
		s := randomState(rng, n)
		var random []Belief
		floor := negInf
		for _, b := range s.Beliefs {
			if !b.Bernoulli && b.StdDev == 0 {
				floor = max(floor, b.Mean)
			} else {
				random = append(random, b)
			}
		}
		if len(random) == 0 {
			continue
		}
		want := reference(floor, random)
		got := ExpectedMax(s.Beliefs)
		worst = max(worst, math.Abs(got-want))
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("trial %d: %v, want %v\n%+v", trial, got, want, s.Beliefs)
		}
	}
	t.Logf("greatest error %.1e", worst)
}

func TestExpectedMaxOfBernoullisIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		fail := 1.0
		beliefs := make([]Belief, 1+rng.IntN(12))
		for i := range beliefs {
			beliefs[i] = Belief{Mean: rng.Float64(), Bernoulli: true}
			fail *= 1 - beliefs[i].Mean
		}
		if got := ExpectedMax(beliefs); math.Abs(got-(1-fail)) > 1e-15 {
			t.Errorf("%v, want %v", got, 1-fail)
		}
		v := rng.Float64()
		with := append(beliefs, Belief{Mean: v})
		if got, want := ExpectedMax(with), v+(1-v)*(1-fail); math.Abs(got-want) > 1e-15 {
			t.Errorf("over %v: %v, want %v", v, got, want)
		}
	}
}

func TestExpectedMaxOfNothingAndOfNaN(t *testing.T) {
	if got := ExpectedMax(nil); !math.IsInf(got, -1) {
		t.Errorf("maximum of nothing is %v", got)
	}
	for _, b := range [][]Belief{
		{{Mean: math.NaN()}}, {{Mean: 1}, {Mean: 0, StdDev: math.NaN()}}, {{Mean: math.NaN(), Bernoulli: true}, {Mean: 1, StdDev: 1}},
	} {
		if got := ExpectedMax(b); !math.IsNaN(got) {
			t.Errorf("%+v: %v", b, got)
		}
	}
	if got := ExpectedMax([]Belief{{Mean: 0.3}, {Mean: 0.7}}); got != 0.7 {
		t.Errorf("deterministic: %v", got)
	}
}

// The excess of one, phi(z) - z·(1 - Phi(z)), was worked out with 150 digits.
func TestExcessHasRelativeAccuracyInTheTails(t *testing.T) {
	for _, c := range []struct{ z, excess float64 }{
		{3, 3.8215431704772358e-04}, {4, 7.1452584324056669e-06}, {5, 5.3461655338328152e-08},
		{10, 7.4745602545893284e-25}, {14, 5.5114047019792708e-46},
	} {
		if got := normalExcess(-c.z); math.Abs(got/c.excess-1) > 2e-12 {
			t.Errorf("excess at %v: %v, want %v", -c.z, got, c.excess)
		}
		l := law{mean: 0.2, dev: 0.05}
		if got, want := l.excess(0.2+0.05*c.z), 0.05*c.excess; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("at z = %v: %v, want %v", c.z, got, want)
		}
	}
}

// The quadrature of the search is coarser than ExpectedMax; its error must stay
// below half of the margin from which its decisions are the accurate ones.
func TestSearchQuadrature(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	worst := 0.0
	for range 2000 {
		s := randomState(rng, 1+rng.IntN(8))
		q := newSearch()
		q.floor = negInf
		if rng.IntN(2) == 0 {
			q.floor = rng.Float64()
		}
		var ls laws
		for i, b := range s.Beliefs {
			q.items = append(q.items, item{law: b.law(1), model: i})
			ls = append(ls, b.law(1))
		}
		q.tabulate()
		k := len(q.node)
		value := q.upper
		for j, w := range q.weight {
			for i := range q.items {
				w *= 1 - q.tail[i*k+j]
			}
			value -= w
		}
		worst = max(worst, math.Abs(value-ls.withPointsOver(q.floor)))
	}
	t.Logf("greatest error %.1e", worst)
	if worst > 5e-7 {
		t.Errorf("greatest error %v", worst)
	}
}

func (ls laws) withPointsOver(floor float64) float64 {
	return append(laws{{mean: floor}}, ls...).expectedMax(floor)
}

func BenchmarkExpectedMax(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{2, 5, 11} {
		normal, verified := uniformState(rng, n).Beliefs, uniformState(rng, n).Beliefs
		for i := range verified {
			verified[i].Bernoulli = true
		}
		for _, c := range []struct {
			name    string
			beliefs []Belief
		}{{"normal", normal}, {"bernoulli", verified}} {
			b.Run(c.name+"/n="+string(rune('0'+n/10))+string(rune('0'+n%10)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					ExpectedMax(c.beliefs)
				}
			})
		}
	}
}

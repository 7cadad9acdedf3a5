package cascade

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// Lemma: E[max] is submodular. What an item adds to a set, it adds at most to any
// larger one; and it adds nothing negative.
func TestExpectedMaxIsSubmodular(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for range 500 {
		s := randomState(rng, 2+rng.IntN(6))
		perm := rng.Perm(len(s.Beliefs))
		small := 1 + rng.IntN(len(perm)-1)
		large := small + rng.IntN(len(perm)-small)
		of := func(extra bool, n int) float64 {
			var b []Belief
			for _, i := range perm[:n] {
				b = append(b, s.Beliefs[i])
			}
			if extra {
				b = append(b, s.Beliefs[perm[len(perm)-1]])
			}
			return ExpectedMax(b)
		}
		if large == len(perm) {
			continue
		}
		gainSmall, gainLarge := of(true, small)-of(false, small), of(true, large)-of(false, large)
		if gainLarge > gainSmall+2e-10 || gainLarge < -2e-10 {
			t.Errorf("gains %v over %d and %v over %d: %+v", gainSmall, small, gainLarge, large, s.Beliefs)
		}
	}
}

// Lemma: a model whose gain over some part of a supermodel is below its price is in
// no optimal supermodel that contains the part.
func TestNegativeGainsLeaveOptimalSupermodels(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 2))
	found := 0
	for range 60 {
		n := 3 + rng.IntN(4)
		s := uniformState(rng, n)
		lambda := 0.5 * rng.Float64()
		tau, top := bruteForce(s, lambda, 1, 0)
		for set := 1; set < len(tau); set++ {
			if tau[set] < top-1e-9 {
				continue
			}
			for part := (set - 1) & set; part > 0; part = (part - 1) & set {
				for i := range n {
					if set>>i&1 == 1 && part>>i&1 == 0 && tau[part|1<<i] < tau[part]-1e-9 {
						t.Errorf("optimal %b holds %d, which lowers tau of its part %b", set, i, part)
					}
				}
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no optimal supermodel has a proper part")
	}
}

func TestSlowDecidesAsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	for trial := range 400 {
		s := randomState(rng, 1+rng.IntN(9))
		p := Params{Lambdas: []float64{math.Pow(10, -3*rng.Float64())}, MaxDepth: rng.IntN(6)}
		exact, err1 := newCascadeRoute(p, exactSearch)
		slow, err2 := newCascadeRoute(p, slowSearch)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		a, b := exact.Decide(s), slow.Decide(s)
		if a == b {
			continue
		}
		// Apart only where two supermodels are nearly or, among free models, quite equal.
		tau, top := bruteForce(s, exact.params.Lambdas[0], 1, p.MaxDepth)
		for _, run := range []int{a.Run, b.Run} {
			best := negInf
			for set := range tau {
				if cheapestNew(s, set) == run {
					best = max(best, tau[set])
				}
			}
			if best < top-1e-7 {
				t.Errorf("trial %d: exact runs %d, slow %d; %d is worth %v of %v", trial, a.Run, b.Run, run, best, top)
			}
		}
	}
}

// choices are, for each query, the quality and cost of each alternative.
type choices [][]struct{ quality, cost float64 }

// linearProgramme returns the greatest mean quality of a random choice of one
// alternative for each query whose mean cost is the budget.
func (c choices) linearProgramme(t *testing.T, budget float64) float64 {
	t.Helper()
	n := 0
	for _, q := range c {
		n += len(q)
	}
	// One row for each query (its probabilities add up to 1) and one for the cost.
	a, b, objective := mat.NewDense(len(c)+1, n, nil), make([]float64, len(c)+1), make([]float64, n)
	k := 0
	for i, q := range c {
		b[i] = 1
		for _, o := range q {
			a.Set(i, k, 1)
			a.Set(len(c), k, o.cost)
			objective[k] = -o.quality / float64(len(c))
			k++
		}
	}
	b[len(c)] = budget * float64(len(c))
	opt, _, err := lp.Simplex(objective, a, b, 1e-12, nil)
	if err != nil {
		t.Fatal(err)
	}
	return -opt
}

// critical returns the lambdas at which the best alternative of some query changes.
func (c choices) critical() []float64 {
	lambdas := []float64{0}
	for _, q := range c {
		for i := range q {
			for j := range q {
				if dc := q[i].cost - q[j].cost; dc > 1e-9 {
					if l := (q[i].quality - q[j].quality) / dc; l > 0 {
						lambdas = append(lambdas, l)
					}
				}
			}
		}
	}
	return lambdas
}

// mixed checks the theorem on optimal routing: for the budget there are a lambda
// and a gamma for which choose, following the cheapest of tied optima with
// probability gamma and the dearest otherwise, spends the budget in expectation,
// and no random choice does better.
func (c choices) mixed(t *testing.T, budget float64, choose func(query int, lambda float64, cheap bool) int) {
	t.Helper()
	mean := func(lambda float64, cheap bool) (quality, cost float64) {
		for x := range c {
			o := c[x][choose(x, lambda, cheap)]
			quality += o.quality / float64(len(c))
			cost += o.cost / float64(len(c))
		}
		return quality, cost
	}
	for _, lambda := range c.critical() {
		q1, c1 := mean(lambda, true)
		q2, c2 := mean(lambda, false)
		if c1 > c2+1e-12 {
			t.Fatalf("lambda %v: the cheapest costs %v, the dearest %v", lambda, c1, c2)
		}
		if budget < c1-1e-12 || budget > c2+1e-12 {
			continue
		}
		gamma := 1.0
		if c2 > c1 {
			gamma = (c2 - budget) / (c2 - c1)
		}
		if spent := gamma*c1 + (1-gamma)*c2; math.Abs(spent-budget) > 1e-9 {
			t.Errorf("budget %v: spends %v", budget, spent)
		}
		got, want := gamma*q1+(1-gamma)*q2, c.linearProgramme(t, budget)
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("budget %v: lambda %v gamma %v reach %v, the linear programme %v", budget, lambda, gamma, got, want)
		}
		return
	}
	t.Errorf("budget %v: no lambda meets it", budget)
}

// budgets returns some between the cost of the cheapest choices and of the best.
func (c choices) budgets(rng *rand.Rand, n int) []float64 {
	low, high := 0.0, 0.0
	for _, q := range c {
		cheapest, best := q[0], q[0]
		for _, o := range q {
			if o.cost < cheapest.cost {
				cheapest = o
			}
			if o.quality > best.quality {
				best = o
			}
		}
		low += cheapest.cost / float64(len(c))
		high += best.cost / float64(len(c))
	}
	var b []float64
	for range n {
		b = append(b, low+(high-low)*(0.15+0.8*rng.Float64()))
	}
	return b
}

func TestRouteMeetsAnyBudgetOptimally(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for range 15 {
		states := make([]*State, 8)
		table := make(choices, len(states))
		for x := range states {
			states[x] = uniformState(rng, 4)
			for i, b := range states[x].Beliefs {
				// Better models are dearer, or the cheapest would always win.
				states[x].Costs[i] = b.Mean*b.Mean + 0.3*rng.Float64()
				table[x] = append(table[x], struct{ quality, cost float64 }{b.Mean, states[x].Costs[i]})
			}
		}
		for _, budget := range table.budgets(rng, 3) {
			// Below the cheapest optimum at the greatest critical lambda there is nothing
			// to gain by mixing; uniformState's budgets lie above.
			table.mixed(t, budget, func(x int, lambda float64, cheap bool) int {
				gamma := 0.0
				if cheap {
					gamma = 1
				}
				r, err := newRoute(Params{Lambdas: []float64{lambda}, Gamma: gamma})
				if err != nil {
					t.Fatal(err)
				}
				return r.Decide(states[x]).Run
			})
		}
	}
}

// The same theorem over supermodels is what makes the choice of cascade_route
// optimal at each turn.
func TestCascadeRouteChoosesSupermodelsOptimally(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 2))
	for range rounds(8) {
		const n = 3
		states := make([]*State, 6)
		table := make(choices, len(states))
		for x := range states {
			s := uniformState(rng, n)
			for i := range s.Beliefs {
				s.Beliefs[i].StdDev = 0.4
				s.Costs[i] = 0.1 + 0.3*rng.Float64()
			}
			states[x] = s
			for set := 1; set < 1<<n; set++ {
				var b []Belief
				for i := range n {
					if set>>i&1 == 1 {
						b = append(b, s.Beliefs[i])
					}
				}
				table[x] = append(table[x], struct{ quality, cost float64 }{ExpectedMax(b), newCost(s, set)})
			}
		}
		for _, budget := range table.budgets(rng, 3) {
			table.mixed(t, budget, func(x int, lambda float64, cheap bool) int {
				p := Params{Lambdas: []float64{lambda}}
				if cheap {
					p.Gamma = 1
				}
				r, err := newCascadeRoute(p, exactSearch)
				if err != nil {
					t.Fatal(err)
				}
				w := newSearch()
				run, _ := w.choose(r, states[x], negInf)
				set := 0
				for _, k := range w.best {
					set |= 1 << w.items[k].model
				}
				if len(w.items) == 0 || run != cheapestNew(states[x], set) {
					t.Fatalf("runs %d of supermodel %b", run, set)
				}
				return set - 1
			})
		}
	}
}

// Corollary: when the estimates of what is to come do not depend on the query, a
// cascade that returns its last answer is a threshold cascade with
// tau_j = max over k > j of (mean_k - lambda·(c_(j+1) + ... + c_k)).
func TestCascadeWithConstantEstimatesIsThreshold(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	for range 200 {
		n := 2 + rng.IntN(4)
		s := uniformState(rng, n)
		prior := append([]Belief(nil), s.Beliefs...)
		lambda := rng.Float64()
		thresholds := make([]float64, n)
		for j := range n {
			thresholds[j] = negInf // nothing is to come
			cost := 0.0
			for k := j + 1; k < n; k++ {
				cost += s.Costs[k]
				thresholds[j] = max(thresholds[j], prior[k].Mean-lambda*cost)
			}
		}
		c, err1 := newCascade(Params{Lambdas: []float64{lambda}, Answer: Last, Gamma: 1})
		th, err2 := newThreshold(Params{Thresholds: thresholds, Answer: Last})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for range 20 {
			s.Ran, s.Beliefs = nil, append(s.Beliefs[:0], prior...)
			for {
				a, b := c.Decide(s), th.Decide(s)
				if a != b {
					t.Fatalf("after %v: cascade %+v, threshold %+v", s.Ran, a, b)
				}
				if a.Run == Stop {
					break
				}
				s.Ran = append(s.Ran, a.Run)
				s.Beliefs[a.Run] = Belief{Mean: rng.Float64()}
			}
		}
	}
}

// With the best answer returned, the rule is a threshold on the best post-hoc
// estimate: once a value stops the cascade, every higher one does.
func TestCascadeIsMonotoneInTheBestEstimate(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 2))
	for range rounds(300) {
		s := randomState(rng, 2+rng.IntN(6))
		s.Ran, s.Infeasible = []int{0}, nil
		for _, name := range []string{NameCascade, NameCascadeRoute, NameIndex} {
			st, err := New(name, Params{Lambdas: []float64{0.3 * rng.Float64()}, Gamma: 1})
			if err != nil {
				t.Fatal(err)
			}
			stopped := false
			for v := -0.5; v < 2; v += 0.01 {
				s.Beliefs[0].Mean = v
				stops := st.Decide(s).Run == Stop
				if stopped && !stops {
					t.Fatalf("%s: stops below %v and not there: %+v", name, v, s)
				}
				stopped = stops
			}
		}
	}
}

// adaptive is the value of a policy, or of the best of all policies, on models with
// two outcomes each: what the answer is worth less the price of what was run.
type twoPoint struct{ lo, hi, p, price float64 }

func bestPolicy(models []twoPoint, ran int, v float64) float64 {
	best := v
	for i, m := range models {
		if ran>>i&1 == 0 {
			best = max(best, -m.price+m.p*bestPolicy(models, ran|1<<i, max(v, m.hi))+(1-m.p)*bestPolicy(models, ran|1<<i, max(v, m.lo)))
		}
	}
	return best
}

// worth follows a strategy through every outcome.
func worth(st Strategy, models []twoPoint, s *State) float64 {
	d := st.Decide(s)
	if d.Run == Stop {
		return s.Beliefs[d.Answer].Mean
	}
	m := models[d.Run]
	next := func(v float64) float64 {
		n := *s
		n.Ran = append(append([]int(nil), s.Ran...), d.Run)
		n.Beliefs = append([]Belief(nil), s.Beliefs...)
		n.Beliefs[d.Run] = Belief{Mean: v}
		return worth(st, models, &n)
	}
	return -m.price + m.p*next(m.hi) + (1-m.p)*next(m.lo)
}

// Weitzman's theorem: no adaptive policy is worth more than index. The two-outcome
// laws are Bernoulli beliefs under a scale.
func TestIndexIsTheOptimalAdaptivePolicy(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	better := 0
	for trial := range 400 {
		n := 1 + rng.IntN(5)
		lambda, scale := 0.5*rng.Float64(), 1.0
		if trial%2 == 0 {
			scale = 0.1 + 0.9*rng.Float64()
		}
		s := uniformState(rng, n)
		models := make([]twoPoint, n)
		for i := range models {
			s.Beliefs[i].Bernoulli = true
			s.Costs[i] *= 0.7
			l := s.Beliefs[i].law(scale)
			models[i] = twoPoint{l.lo, l.hi, l.p, lambda * s.Costs[i]}
		}
		p := Params{Lambdas: []float64{lambda}, Scale: scale}
		want := bestPolicy(models, 0, -1e9)
		index, err := newIndex(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := worth(index, models, s); math.Abs(got-want) > 1e-7 {
			t.Errorf("trial %d: index is worth %v, the best policy %v", trial, got, want)
		}
		route, err := newCascadeRoute(p, exactSearch)
		if err != nil {
			t.Fatal(err)
		}
		if got := worth(route, models, s); got > want+1e-7 {
			t.Errorf("trial %d: cascade_route is worth %v, more than the best policy's %v", trial, got, want)
		} else if got < want-1e-6 {
			better++
		}
	}
	t.Logf("index beats cascade_route in %d of 400", better)
	if better == 0 {
		t.Error("index never beats cascade_route: the comparison shows nothing")
	}
}

// averageNormal returns E[f(Z)] of a standard normal Z by the midpoint rule, to 1e-5
// where f has no more than a kink.
func averageNormal(f func(z float64) float64) float64 {
	const end, points = 8.0, 2000
	sum := 0.0
	for k := range points {
		z := -end + 2*end/points*(float64(k)+0.5)
		sum += normalPDF(z) * f(z) * 2 * end / points
	}
	return sum
}

// A normal is the limit of discrete laws: against dynamic programming on a fine
// grid of its quantiles, with one normal to come after a Bernoulli and the reverse.
func TestIndexOrdersNormalsAndBernoullisByDynamicProgramming(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	clear := 0
	for range 2000 {
		s := uniformState(rng, 2)
		s.Beliefs[0].StdDev = 0.05 + 0.4*rng.Float64()
		s.Beliefs[1].Bernoulli = true
		lambda := 0.3 * rng.Float64()
		normal, coin := s.Beliefs[0].law(1), s.Beliefs[1].law(1)
		p0, p1 := lambda*s.Costs[0], lambda*s.Costs[1]
		// First the normal, then the coin where that is worth it: E[max(X, X + gain(X))].
		first := -p0 + averageNormal(func(z float64) float64 {
			x := normal.mean + normal.dev*z
			return x + max(0, coin.excess(x)-p1)
		})
		second := -p1
		for _, o := range []struct{ v, p float64 }{{coin.lo, 1 - coin.p}, {coin.hi, coin.p}} {
			second += o.p * (o.v + max(0, normal.excess(o.v)-p0))
		}
		if math.Abs(first-second) < 1e-4 {
			continue
		}
		clear++
		want := 0
		if second > first {
			want = 1
		}
		x, err := newIndex(Params{Lambdas: []float64{lambda}})
		if err != nil {
			t.Fatal(err)
		}
		if d := x.Decide(s); d.Run != want {
			t.Errorf("runs %d; normal first is worth %v, coin first %v: %+v lambda %v", d.Run, first, second, s, lambda)
		}
	}
	if clear < 500 {
		t.Errorf("only %d clear cases", clear)
	}
}

func ExampleIndex_reservationValues() {
	// A verifier will judge the answers: pass or fail.
	small, large := Belief{Mean: 0.5, Bernoulli: true}, Belief{Mean: 0.9, Bernoulli: true}
	const lambda = 0.2
	fmt.Printf("small: 1 - %.2f/0.5 = %.3f\n", lambda*0.1, ReservationValue(small, lambda*0.1))
	fmt.Printf("large: 1 - %.2f/0.9 = %.3f\n", lambda*1.0, ReservationValue(large, lambda*1.0))
	// Output:
	// small: 1 - 0.02/0.5 = 0.960
	// large: 1 - 0.20/0.9 = 0.778
}

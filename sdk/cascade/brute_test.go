package cascade

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteForce returns the greatest tau over all supermodels of s, what each
// supermodel is worth by the accurate rule, as a function of the models' bits.
func bruteForce(s *State, lambda, scale float64, maxDepth int) (tau []float64, top float64) {
	n := len(s.Beliefs)
	_, floor := s.best()
	ran := 0
	for _, i := range s.Ran {
		ran |= 1 << i
	}
	tau = make([]float64, 1<<n)
	top = math.Inf(-1)
	for set := range tau {
		tau[set] = math.Inf(-1)
		if set&ran != ran || maxDepth > 0 && bits.OnesCount(uint(set)) > max(maxDepth, len(s.Ran)) {
			continue
		}
		var ls laws
		cost, ok := 0.0, true
		for i := range n {
			if set>>i&1 == 0 || ran>>i&1 == 1 {
				continue
			}
			ok = ok && s.open(i)
			ls = append(ls, s.Beliefs[i].law(scale))
			cost += s.Costs[i]
		}
		if !ok || set == 0 {
			continue
		}
		tau[set] = ls.expectedMax(floor) - lambda*cost
		top = max(top, tau[set])
	}
	return tau, top
}

// cheapestNew returns the model of the set that a decision for it would run.
func cheapestNew(s *State, set int) int {
	run := Stop
	for i := range s.Beliefs {
		if set>>i&1 == 1 && s.open(i) && (run == Stop || s.Costs[i] < s.Costs[run]) {
			run = i
		}
	}
	return run
}

// randomState draws a state of every kind: models that have run, infeasible ones,
// equal, free, certain, dear and verified ones.
func randomState(rng *rand.Rand, n int) *State {
	s := uniformState(rng, n)
	wide := rng.IntN(4)
	for i := range s.Beliefs {
		b := &s.Beliefs[i]
		switch wide {
		case 1:
			b.StdDev = rng.Float64()
		case 2:
			b.StdDev = math.Exp(-8 * rng.Float64())
		case 3:
			b.StdDev, b.Mean = 0.5, 0.4+0.2*b.Mean
		}
		switch rng.IntN(12) {
		case 0:
			b.StdDev = 0
		case 1:
			s.Costs[i] = 0
		case 2:
			b.Mean = math.Round(b.Mean*4) / 4
			s.Costs[i] = math.Round(s.Costs[i]*4) / 4
		case 3, 4:
			b.Bernoulli = true
		case 5:
			k := rng.IntN(n)
			*b, s.Costs[i] = s.Beliefs[k], s.Costs[k]
		case 6:
			s.Costs[i] *= 100
		}
	}
	for i := range s.Beliefs {
		if rng.IntN(6) == 0 {
			s.Ran = append(s.Ran, i)
		} else if rng.IntN(10) == 0 {
			if s.Infeasible == nil {
				s.Infeasible = make([]bool, n)
			}
			s.Infeasible[i] = true
		}
	}
	if rng.IntN(2) == 0 {
		s.Ran = nil
	}
	return s
}

func TestCascadeRouteIsTheBruteForceOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ties, trials := 0, rounds(4000)
	for trial := range trials {
		n := 1 + rng.IntN(7)
		if trial%400 == 0 {
			n = 12 + rng.IntN(3)
		}
		s := randomState(rng, n)
		lambda := math.Pow(10, -3*rng.Float64())
		if rng.IntN(20) == 0 {
			lambda = 0
		}
		p := Params{Lambdas: []float64{lambda}, Gamma: float64(rng.IntN(2))}
		switch rng.IntN(4) {
		case 0:
			p.Scale = rng.Float64()
		case 1:
			p.NoExpect = true
		}
		if rng.IntN(3) == 0 {
			p.MaxDepth = 1 + rng.IntN(n)
		}
		r, err := newCascadeRoute(p, exactSearch)
		if err != nil {
			t.Fatal(err)
		}
		if trial%2 == 0 {
			r.relaxFrom = 1 // the relaxation, however few the models
		}
		d, plan := r.Plan(s, nil)
		if d.Approximate || d != r.Decide(s) {
			t.Fatalf("trial %d: %+v, node limit or another decision", trial, d)
		}
		tau, top := bruteForce(s, lambda, r.params.Scale, p.MaxDepth)
		planned := 0
		for _, i := range slices.Concat(s.Ran, plan) {
			planned |= 1 << i
		}
		if (len(plan) == 0) != (d.Run == Stop) || len(plan) > 0 && (tau[planned] < top-1e-6 || !slices.Contains(plan, d.Run)) {
			t.Fatalf("trial %d: plans %v after %v, worth %v of %v, and runs %d", trial, plan, s.Ran, tau[planned], top, d.Run)
		}
		if math.IsInf(top, -1) {
			if d.Run != Stop {
				t.Fatalf("trial %d: runs %d though nothing may run", trial, d.Run)
			}
			continue
		}
		found := math.Inf(-1)
		for set := range tau {
			if cheapestNew(s, set) == d.Run {
				found = max(found, tau[set])
			}
		}
		if found < top-1e-6 {
			t.Fatalf("trial %d: n %d lambda %v: runs %d, worth %v, best is %v\n%+v", trial, n, lambda, d.Run, found, top, s)
		}
		// Among the ties, the cheapest or the dearest, where the ties stand clear.
		pick, clear := -1, true
		for set := range tau {
			switch {
			case tau[set] >= top-1e-10:
				if pick < 0 || isPreferred(p.Gamma == 1, newCost(s, set), newCost(s, pick)) {
					pick = set
				}
			case tau[set] >= top-1e-6:
				clear = false
			}
		}
		if !clear {
			continue
		}
		ties++
		same := false
		for set := range tau {
			same = same || tau[set] >= top-1e-10 && cheapestNew(s, set) == d.Run && math.Abs(newCost(s, set)-newCost(s, pick)) < 1e-9
		}
		if !same {
			t.Errorf("trial %d: gamma %v: runs %d, the tied optimum %b runs %d\n%+v", trial, p.Gamma, d.Run, pick, cheapestNew(s, pick), s)
		}
	}
	if ties < trials/4 {
		t.Errorf("only %d states with clear ties", ties)
	}
}

func newCost(s *State, set int) float64 {
	cost := 0.0
	for i := range s.Beliefs {
		if set>>i&1 == 1 && s.open(i) {
			cost += s.Costs[i]
		}
	}
	return cost
}

// The relaxation and the plain branch and bound prove their results in different
// ways; beyond the reach of brute force they must still agree.
func TestRelaxationAgreesWithPlainBranchAndBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for trial := range 300 {
		s := randomState(rng, 15+rng.IntN(8))
		p := Params{Lambdas: []float64{math.Pow(10, -2.5*rng.Float64())}, Gamma: float64(rng.IntN(2)), NodeLimit: -1}
		if trial%4 == 0 {
			p.MaxDepth = 1 + rng.IntN(5) + len(s.Ran)
		}
		with, err := newCascadeRoute(p, exactSearch)
		if err != nil {
			t.Fatal(err)
		}
		without := *with
		with.relaxFrom, without.relaxFrom, without.relaxAfter = 1, math.MaxInt, math.MaxInt
		_, floor := s.best()
		a, b := newSearch(), newSearch()
		i, _ := a.choose(with, s, floor)
		j, _ := b.choose(&without, s, floor)
		worth := func(w *search) float64 {
			var set []int
			for _, k := range w.best {
				set = append(set, w.items[k].model)
			}
			return with.weigh(s, with.lambda(0), set).Tau
		}
		if i != j {
			if x, y := worth(a), worth(b); math.Abs(x-y) > 2e-8 {
				t.Errorf("trial %d: the relaxation runs %d, worth %v, the plain search %d, worth %v", trial, i, x, j, y)
			}
		}
	}
}

// The inequality that the relaxation's bound sums over the nodes, at one node.
func TestProductsLieAboveTheirLinearBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 3000 {
		n := 1 + rng.IntN(7)
		rest := make([]float64, n)
		for i := range rest {
			rest[i] = math.Pow(rng.Float64(), 1+5*rng.Float64())
		}
		p := math.Pow(rng.Float64(), 1+5*rng.Float64())
		alpha := p * (1 - math.Log(p))
		for set := range 1 << n {
			product, bound := 1.0, alpha
			for i, g := range rest {
				switch {
				case set>>i&1 == 0:
				case g > p:
					product *= g
					bound += p * math.Log(g)
				default:
					product *= g
					bound -= alpha - g
				}
			}
			if product < bound-1e-12 {
				t.Fatalf("p %v, %v, set %b: %v below %v", p, rest, set, product, bound)
			}
		}
	}
}

// With wide uncertainty and a small lambda nothing can be ruled out early, and the plain
// search takes seconds.
func TestHardStatesAreSolvedExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	most, open := 0, 0
	for _, lambda := range []float64{0.3, 0.1, 0.03, 0.01, 0.001, 1e-4, 1e-6} {
		for trial := range 40 {
			s := hardState(rng, 80, trial%2 == 0)
			if trial%4 < 2 {
				s.Ran = []int{0}
			}
			r, err := newCascadeRoute(Params{Lambdas: []float64{lambda}, Gamma: float64(trial % 3 / 2)}, exactSearch)
			if err != nil {
				t.Fatal(err)
			}
			_, floor := s.best()
			w := newSearch()
			if _, approximate := w.choose(r, s, floor); approximate {
				t.Errorf("lambda %v trial %d: node limit", lambda, trial)
			}
			most, open = max(most, w.nodes), max(open, len(w.open))
		}
	}
	t.Logf("at most %d sets valued, %d models left open by the relaxation", most, open)
}

package cascade

import (
	"math"
	"math/rand/v2"
	"testing"
)

// bruteForce returns the greatest tau over all supermodels of s, what each
// supermodel is worth by the accurate rule, as a function of the models' bits.
func bruteForce(s *State, lambda, scale float64) (tau []float64, top float64) {
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
		if set&ran != ran {
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

func TestCascadeRouteIsTheBruteForceOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for trial := range 400 {
		n := 1 + rng.IntN(8)
		s := RandomState(rng, n)
		lambda := rng.Float64()
		if trial%3 == 0 {
			lambda *= 0.1
		}
		if trial%2 == 0 {
			s.Ran = []int{rng.IntN(n)}
		}
		r, err := NewCascadeRoute(Params{Lambdas: []float64{lambda}}, Exact)
		if err != nil {
			t.Fatal(err)
		}
		d := r.Decide(s)
		tau, top := bruteForce(s, lambda, 1)
		found := math.Inf(-1)
		for set := range tau {
			if cheapestNew(s, set) == d.Run {
				found = max(found, tau[set])
			}
		}
		if found < top-1e-7 {
			t.Fatalf("trial %d: n %d lambda %v: runs %d, worth %v, best is %v", trial, n, lambda, d.Run, found, top)
		}
	}
}

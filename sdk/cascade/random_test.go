package cascade

import "math/rand/v2"

// uniformState returns a state of n models that have not run, as in the paper's
// study of run time: quality uniform in [0, 1] with standard deviation 0.1, and
// cost uniform in [0, 1].
func uniformState(rng *rand.Rand, n int) *State {
	s := &State{Beliefs: make([]Belief, n), Costs: make([]float64, n), Coin: rng.Float64()}
	for i := range n {
		s.Beliefs[i] = Belief{Mean: rng.Float64(), StdDev: 0.1}
		s.Costs[i] = rng.Float64()
	}
	return s
}

package cascade

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchStates are enough different states that no branch predictor learns them.
const benchStates = 1024

// BenchmarkDecide measures one decision on states like those of the paper's study
// of run time, with lambda uniform in [0, 1], before any model has run: there the
// search has the most to choose from.
func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{NameRoute, NameThreshold, NameCascade, NameCascadeRoute, NameIndex} {
		for _, n := range []int{3, 5, 11, 24, 40, 80} {
			b.Run(fmt.Sprintf("%s/n=%d", name, n), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(7, uint64(n)))
				benchDecide(b, name, func() (*State, Params) {
					s := uniformState(rng, n)
					if name == NameThreshold || name == NameCascade {
						s.Ran = []int{0}
					}
					return s, Params{Lambdas: []float64{rng.Float64()}, Thresholds: []float64{rng.Float64()}}
				})
			})
		}
	}
}

// BenchmarkDecideHard measures cascade_route where nothing can be ruled out at a
// glance: wide uncertainty and a small lambda.
func BenchmarkDecideHard(b *testing.B) {
	for _, n := range []int{11, 24, 80} {
		for _, lambda := range []float64{0.1, 0.01, 0.001} {
			for _, kind := range []string{"normal", "bernoulli"} {
				b.Run(fmt.Sprintf("%s/n=%d/lambda=%v", kind, n, lambda), func(b *testing.B) {
					rng := rand.New(rand.NewPCG(7, uint64(n)))
					benchDecide(b, NameCascadeRoute, func() (*State, Params) {
						return hardState(rng, n, kind == "bernoulli"), Params{Lambdas: []float64{lambda}}
					})
				})
			}
		}
	}
}

// hardState returns a state of models with probabilities near one half.
func hardState(rng *rand.Rand, n int, bernoulli bool) *State {
	s := uniformState(rng, n)
	for i := range s.Beliefs {
		s.Beliefs[i] = Belief{Mean: 0.4 + 0.2*s.Beliefs[i].Mean, StdDev: 0.5, Bernoulli: bernoulli}
	}
	return s
}

func benchDecide(b *testing.B, name string, draw func() (*State, Params)) {
	var base Strategy
	states := make([]*State, benchStates)
	strategies := make([]Strategy, benchStates)
	for k := range states {
		s, p := draw()
		if base == nil {
			var err error
			if base, err = New(name, p); err != nil {
				b.Fatal(err)
			}
		}
		values := p.Lambdas
		if name == NameThreshold {
			values = p.Thresholds
		}
		st, err := base.(Tunable).Tune(values, 0)
		if err != nil {
			b.Fatal(err)
		}
		states[k], strategies[k] = s, st
		st.Decide(s)
	}
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		strategies[k%benchStates].Decide(states[k%benchStates])
		k++
	}
}

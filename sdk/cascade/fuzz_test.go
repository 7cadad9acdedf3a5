package cascade

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// FuzzDecide reads a state from bytes, eight for each model, and holds every
// strategy to what holds for all decisions, and the exact search to brute force.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{}, 0.1, 0.5, uint8(0))
	f.Add([]byte("12345678abcdefgh--------zzzzzzzz"), 0.3, 1.0, uint8(3))
	f.Add(slices.Repeat([]byte{128, 0, 40, 0, 0, 1, 0, 0}, 9), 0.0, 0.0, uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, lambda, gamma float64, mode uint8) {
		const size = 8
		n := min(len(data)/size, 10)
		s := &State{Coin: 0.5}
		for i := range n {
			d := data[i*size:]
			b := Belief{Mean: float64(binary.LittleEndian.Uint16(d)) / 65535, StdDev: float64(binary.LittleEndian.Uint16(d[2:])) / 65535}
			b.Bernoulli = d[6]&1 == 1
			s.Beliefs = append(s.Beliefs, b)
			s.Costs = append(s.Costs, float64(binary.LittleEndian.Uint16(d[4:]))/16384)
			if d[6]&2 != 0 {
				s.Ran = append(s.Ran, i)
			}
			s.Infeasible = append(s.Infeasible, d[6]&4 != 0)
		}
		if n == 0 {
			if s.Validate() == nil {
				t.Fatal("a state without models is valid")
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		p := Params{Lambdas: []float64{lambda}, Gamma: gamma, MaxDepth: int(mode % 8), Scale: float64(mode>>4) / 15}
		if _, err := newRoute(p); err != nil {
			return
		}
		for _, name := range Names() {
			q := p
			if name == NameCascadeRouteSlow && n > 8 {
				q.MaxDepth = 3
			}
			d := checkDecision(t, name, newStrategy(t, name, q), s, q.MaxDepth)
			if name != NameCascadeRoute || d.Approximate || lambda > 1e6 {
				continue
			}
			scale := p.Scale
			if scale == 0 {
				scale = 1
			}
			tau, top := bruteForce(s, lambda, scale, p.MaxDepth)
			worth := negInf
			for set := range tau {
				if cheapestNew(s, set) == d.Run {
					worth = max(worth, tau[set])
				}
			}
			if worth < top-1e-6*max(1, math.Abs(top)) {
				t.Fatalf("runs %d, worth %v of %v: %+v, %+v", d.Run, worth, top, s, p)
			}
		}
	})
}

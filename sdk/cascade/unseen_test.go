package cascade

import (
	"math/rand/v2"
	"testing"
)

// If nothing judges answers, every strategy only routes: it runs the one model that Route
// would run (for threshold, the first whose mean reaches the threshold).
func TestUnseenIsRouting(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 2))
	for range rounds(2000) {
		s := randomState(rng, 1+rng.IntN(9))
		s.Ran, s.Infeasible = nil, nil
		for i := range s.Beliefs {
			s.Beliefs[i].Unseen = true
		}
		lambda := []float64{0, 1e-9, rng.Float64(), 5 * rng.Float64()}[rng.IntN(4)]
		p := Params{Lambdas: []float64{lambda}, Thresholds: []float64{rng.Float64()}, Gamma: rng.Float64()}
		route := newStrategy(t, NameRoute, p).Decide(s)
		for _, name := range Names() {
			x := newStrategy(t, name, p)
			d := x.Decide(s)
			if d.Run == Stop {
				t.Fatalf("%s runs nothing in %+v", name, s)
			}
			if got, want := s.Beliefs[d.Run].Mean-lambda*s.Costs[d.Run], s.Beliefs[route.Run].Mean-lambda*s.Costs[route.Run]; name != NameThreshold && got < want-2*tieTolerance {
				t.Errorf("%s runs model %d, worth %v; route runs %d, worth %v", name, d.Run, got, route.Run, want)
			}
			after := *s
			after.Ran = []int{d.Run}
			if again := x.Decide(&after); again.Run != Stop && lambda*after.Costs[again.Run] > 2*tieTolerance {
				t.Errorf("%s runs %d after %d, though nobody looked: %+v", name, again.Run, d.Run, s)
			}
		}
	}
}

func TestThresholdSkipsWhatIsKnownToFail(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.5, Unseen: true}, {Mean: 0.85, Unseen: true}, {Mean: 0.9, Unseen: true}}, Costs: []float64{1, 2, 3}}
	for _, tt := range []struct {
		threshold float64
		run       int
	}{{0.4, 0}, {0.8, 1}, {0.95, 2}} {
		if d := newStrategy(t, NameThreshold, Params{Thresholds: []float64{tt.threshold}}).Decide(s); d.Run != tt.run {
			t.Errorf("threshold %v runs model %d, want %d", tt.threshold, d.Run, tt.run)
		}
	}
	// A model that will be looked at is run first, as ever.
	s.Beliefs[0] = Belief{Mean: 0.5, StdDev: 0.2}
	if d := newStrategy(t, NameThreshold, Params{Thresholds: []float64{0.8}}).Decide(s); d.Run != 0 {
		t.Errorf("runs model %d before the one that will be looked at", d.Run)
	}
}

// Among models whose answers will be judged, one whose answer will not is a fallback: it
// never runs before them.
func TestUnseenRunsLast(t *testing.T) {
	s := &State{Beliefs: []Belief{{Mean: 0.3, Unseen: true}, {Mean: 0.5, Bernoulli: true}, {Mean: 0.6, Bernoulli: true}}, Costs: []float64{0.001, 0.01, 0.02}}
	for _, name := range []string{NameCascade, NameCascadeRoute, NameIndex} {
		x := newStrategy(t, name, Params{Lambdas: []float64{1}})
		if d := x.Decide(s); d.Run == 0 || d.Run == Stop {
			t.Errorf("%s runs model %d first", name, d.Run)
		}
		failed := &State{Beliefs: []Belief{{Mean: 0.3, Unseen: true}, {}, {}}, Costs: s.Costs, Ran: []int{1, 2}}
		if d := x.Decide(failed); name != NameCascade && d.Run != 0 {
			t.Errorf("%s does not fall back on model 0 when the others failed: %+v", name, d)
		}
	}
}

package cascade

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestExplanationsAgreeWithDecisions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 1 + rng.IntN(7)
		s := randomState(rng, n)
		for _, name := range Names() {
			st, err := New(name, Params{Lambdas: []float64{0.2 * rng.Float64()}})
			if err != nil {
				t.Fatal(err)
			}
			e := st.(Explainer).Explain(s)
			d := st.Decide(s)
			if e.Decision != d {
				t.Fatalf("%s: explains %+v, decides %+v", name, e.Decision, d)
			}
			if d.Run == Stop || len(e.Alternatives) == 0 || name == NameIndex {
				continue
			}
			// The best alternative that is shown contains the model to run, and no
			// neighbour that is shown beats it by more than the search's error.
			shown := slices.IndexFunc(e.Alternatives, func(a alternative) bool { return slices.Contains(a.Models, d.Run) })
			if name == NameCascadeRouteGreedy || shown < 0 && name == NameCascade {
				continue
			}
			if a := e.Alternatives[shown]; math.Abs(a.Tau-e.Alternatives[0].Tau) > 1e-6 && !math.IsInf(a.Tau, -1) && (name != NameCascade || len(s.Ran) != 0) {
				t.Errorf("%s: runs %d, whose best alternative %+v is below %+v", name, d.Run, a, e.Alternatives[0])
			}
		}
	}
}

// The threshold that is shown is the one that the last answer was held against.
func TestExplainShowsTheThresholdInForce(t *testing.T) {
	st := newStrategy(t, NameThreshold, Params{Thresholds: []float64{0.3, 0.7}}).(Explainer)
	s := State{Beliefs: make([]Belief, 4), Costs: make([]float64, 4)}
	for ran, want := range []float64{0, 0.3, 0.7, 0.7} {
		s.Ran = []int{0, 1, 2}[:ran]
		if got := st.Explain(&s).Threshold; got != want {
			t.Errorf("after %d answers: %v, want %v", ran, got, want)
		}
	}
}

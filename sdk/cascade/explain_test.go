package cascade

import (
	"cmp"
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

// The values of alternatives and options match their definitions, each set appears once, and the
// best is first.
func TestExplanationsAreRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-12 }
	for range 150 {
		s := randomState(rng, 1+rng.IntN(6))
		p := Params{Lambdas: []float64{0.05 * rng.Float64(), 0.3 * rng.Float64()}, MaxDepth: rng.IntN(4)}
		if rng.IntN(2) == 0 {
			p.Scale = 0.5
		}
		_, floor := s.best()
		for _, name := range []string{NameRoute, NameCascade, NameCascadeRoute, NameIndex} {
			if p.Answer = Best; name == NameCascade && rng.IntN(2) == 0 {
				p.Answer = Last
			}
			st := newStrategy(t, name, p)
			e := st.(Explainer).Explain(s)
			lambda := p.Lambdas[min(len(s.Ran), 1)]
			if name == NameRoute {
				lambda = p.Lambdas[0]
			}
			if e.Lambda != lambda {
				t.Fatalf("%s: lambda %v, want %v", name, e.Lambda, lambda)
			}
			of := func(models []int) float64 { // E[max] of what has run and these
				ls := laws{}
				for _, i := range models {
					if !slices.Contains(s.Ran, i) {
						ls = append(ls, s.Beliefs[i].law(cmp.Or(p.Scale, 1)))
					}
				}
				switch {
				case name == NameRoute:
					return s.Beliefs[models[0]].Mean
				case p.Answer == Last && len(models) > 0:
					return s.Beliefs[models[len(models)-1]].Mean
				}
				return ls.expectedMax(floor)
			}
			best := s.Ran
			for k, a := range e.Alternatives {
				cost := 0.0
				for _, i := range a.Models[min(len(s.Ran), len(a.Models)):] {
					cost += s.Costs[i]
				}
				if !slices.Equal(a.Models[:min(len(s.Ran), len(a.Models))], s.Ran) || !near(a.ExpectedMax, of(a.Models)) || !near(a.Cost, cost) || !near(a.Tau, a.ExpectedMax-lambda*cost) {
					t.Fatalf("%s: %+v is worth %v at cost %v, lambda %v", name, a, of(a.Models), cost, lambda)
				}
				for _, other := range e.Alternatives[:k] {
					if sameModels(other.Models, a.Models) {
						t.Fatalf("%s: %v is shown twice: %+v", name, a.Models, e)
					}
					if name == NameIndex && other.Reservation < a.Reservation || name != NameIndex && other.Tau < a.Tau {
						t.Fatalf("%s: not the best first: %+v", name, e.Alternatives)
					}
				}
				if p.MaxDepth > 0 && len(a.Models) > max(p.MaxDepth, len(s.Ran)) {
					t.Fatalf("%s: %v is more than %d models", name, a.Models, p.MaxDepth)
				}
			}
			for _, o := range e.Options {
				if o.Chosen && name == NameCascadeRoute {
					best = append(slices.Clone(best), o.Model)
				}
			}
			for _, o := range e.Options {
				if !s.open(o.Model) || !near(o.Price, lambda*s.Costs[o.Model]) {
					t.Fatalf("%s: %+v costs %v", name, o, s.Costs[o.Model])
				}
				switch name {
				case NameRoute:
					if o.Gain != s.Beliefs[o.Model].Mean || o.Chosen != (o.Model == e.Decision.Run) {
						t.Fatalf("%s: %+v, %+v", name, o, e.Decision)
					}
				case NameIndex:
					want := of([]int{o.Model}) - floor
					if len(s.Ran) == 0 {
						want = s.Beliefs[o.Model].Mean
					}
					if math.Abs(o.Gain-want) > 1e-9 || o.Chosen != (o.Model == e.Decision.Run) {
						t.Fatalf("%s: %+v gains %v", name, o, want)
					}
				case NameCascade:
					// What it adds to those before it on the way, of which the alternatives show each.
					k := slices.IndexFunc(e.Alternatives, func(a alternative) bool { return len(a.Models) > len(s.Ran) && a.Models[len(a.Models)-1] == o.Model })
					if models := e.Alternatives[k].Models; !(math.Abs(o.Gain-(of(models)-of(models[:len(models)-1]))) < 1e-9 || math.IsInf(o.Gain, 1) && len(models) == 1) || o.Chosen != (o.Model == e.Decision.Run) {
						t.Fatalf("%s: %+v gains %v after %v", name, o, of(models)-of(models[:len(models)-1]), models)
					}
				case NameCascadeRoute:
					without := slices.DeleteFunc(slices.Clone(best), func(i int) bool { return i == o.Model })
					with := append(slices.Clone(without), o.Model)
					if want := of(with) - of(without); !(math.Abs(o.Gain-want) < 1e-9 || math.IsInf(want, 0) && math.IsInf(o.Gain, 0)) || o.Pruned && o.Chosen {
						t.Fatalf("%s: %+v gains %v beside %v", name, o, want, best)
					}
				}
			}
		}
	}
}

func sameModels(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// The threshold in an explanation is the one that the last answer was compared with.
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

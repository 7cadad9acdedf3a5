package cascade

import (
	"math"
	"math/rand/v2"
	"testing"
)

// played simulates Weitzman's rule from a state many times and returns the mean quality of the
// answer less the price of further models.
func played(x *Index, s *State, lambda float64, first float64, draws [][]float64) float64 {
	sum := 0.0
	for _, draw := range draws {
		own := State{Beliefs: append([]Belief(nil), s.Beliefs...), Costs: s.Costs, Ran: append([]int(nil), s.Ran...)}
		own.Beliefs[s.Ran[0]].Mean = first
		paid := 0.0
		for {
			d := x.Decide(&own)
			if d.Run == Stop {
				sum += own.Beliefs[d.Answer].Mean - lambda*paid
				break
			}
			own.Ran = append(own.Ran, d.Run)
			own.Beliefs[d.Run].Mean = draw[d.Run]
			paid += own.Costs[d.Run]
		}
	}
	return sum / float64(len(draws))
}

// The computed gain of a look matches a simulation with and without its result.
func TestWhatALookGains(t *testing.T) {
	if testing.Short() {
		t.Skip("computing: it starts no goroutine")
	}
	const lambda, rounds = 1.0, 40000
	rng := rand.New(rand.NewPCG(1, 2))
	x, err := newIndex(Params{Lambdas: []float64{lambda}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		state State
		dev   float64
	}{
		{"one model left", State{Beliefs: []Belief{{Mean: 0.6}, {Mean: 0.85, StdDev: 0.1}}, Costs: []float64{0, 0.2}, Ran: []int{0}}, 0.3},
		{"a sure model left", State{Beliefs: []Belief{{Mean: 0.6}, {Mean: 0.9}}, Costs: []float64{0, 0.15}, Ran: []int{0}}, 0.25},
		{"another answer and two models", State{Beliefs: []Belief{{Mean: 0.5}, {Mean: 0.55}, {Mean: 0.7, StdDev: 0.2}, {Mean: 0.8, StdDev: 0.15}}, Costs: []float64{0, 0, 0.1, 0.3}, Ran: []int{0, 1}}, 0.2},
		{"nothing else", State{Beliefs: []Belief{{Mean: 0.5}}, Costs: []float64{0}, Ran: []int{0}}, 0.3},
	} {
		draws, results := make([][]float64, rounds), make([]float64, rounds)
		for k := range draws {
			draws[k] = make([]float64, len(c.state.Beliefs))
			for i, b := range c.state.Beliefs {
				draws[k][i] = b.Mean + b.StdDev*rng.NormFloat64()
			}
			results[k] = c.state.Beliefs[0].Mean + c.dev*rng.NormFloat64()
		}
		with := 0.0
		for k, v := range results {
			with += played(x, &c.state, lambda, v, draws[k:k+1]) / rounds
		}
		without := played(x, &c.state, lambda, c.state.Beliefs[0].Mean, draws)
		beside := negInf
		for _, i := range c.state.Ran[1:] {
			beside = max(beside, c.state.Beliefs[i].Mean)
		}
		got := x.lookGain(&law{mean: c.state.Beliefs[0].Mean, dev: c.dev}, beside, x.closedBoxes(&c.state, lambda, 0))
		if want := with - without; math.Abs(got-want) > 0.006 {
			t.Errorf("%s: a look is said to gain %.4f, and playing on gains %.4f", c.name, got, want)
		}
		// It is bought below that price, and not above it.
		for _, share := range []float64{0.9, 1.1} {
			s := c.state
			s.Beliefs = append([]Belief(nil), s.Beliefs...)
			s.Beliefs[0].Look = Look{StdDev: c.dev, CostUSD: share * max(got, 1e-6) / lambda}
			if d := x.Decide(&s); d.Look != (share < 1 && got > 1e-6) || d.Look && d.Run != 0 {
				t.Errorf("%s: at %.1f of its gain %.4f the decision is %+v", c.name, share, got, d)
			}
		}
	}
}

// A cheap look raises the reservation value of a model.
func TestALookBeforeTheRun(t *testing.T) {
	x, err := newIndex(Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	s := State{Beliefs: []Belief{{Mean: 0.6}, {Mean: 0.85}}, Costs: []float64{0.01, 0.2}}
	if d := x.Decide(&s); d.Run != 1 {
		t.Errorf("without a look: %+v, want the sure model", d)
	}
	s.Beliefs[0].Look = Look{StdDev: 0.35, CostUSD: 0.01}
	if d := x.Decide(&s); d.Run != 0 || d.Look {
		t.Errorf("with a cheap look: %+v, want the cheap model first", d)
	}
	s.Beliefs[0].Look.CostUSD = 0.5
	if d := x.Decide(&s); d.Run != 1 {
		t.Errorf("with a dear look: %+v, want the sure model", d)
	}
}

// A verdict is bought if one of its outcomes changes the decision, and not if both lead to the
// same one, however much it would change the estimate.
func TestAVerdictThatDecidesNothingIsNotBought(t *testing.T) {
	x, err := newIndex(Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	judge := Look{CostUSD: 0.01, Bernoulli: true, Judge: Rates{FalsePass: 0.1, FalseReject: 0.1}}
	for _, c := range []struct {
		name  string
		other Belief
		cost  float64
		want  bool
	}{
		// After a fail 0.14 is believed, after a pass 0.93.
		{"another model is worth its price after a fail", Belief{Mean: 0.7}, 0.3, true},
		{"nor is it after a fail", Belief{Mean: 0.7}, 0.6, false},
		{"the verdict is too dear", Belief{Mean: 0.7}, 0.54, false},
	} {
		s := State{Beliefs: []Belief{{Mean: 0.6, Look: judge}, c.other}, Costs: []float64{0, c.cost}, Ran: []int{0}}
		if d := x.Decide(&s); d.Look != c.want {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// A verdict on the best answer is also evidence of how hard the query is. Its gain matches a dynamic
// programme over two kinds of queries, given which both models fail independently.
func TestAVerdictTellsOfTheModelThatMayFollow(t *testing.T) {
	x, err := newIndex(Params{Lambdas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 2))
	bought := 0
	for range 500 {
		hard := rng.Float64()
		mean := func(p [2]float64) float64 { return hard*p[0] + (1-hard)*p[1] }
		kinds := func() [2]float64 { p := rng.Float64(); return [2]float64{p * rng.Float64(), p} }
		first, next := kinds(), kinds()
		both := mean([2]float64{first[0] * next[0], first[1] * next[1]})
		p, q := mean(first), mean(next)
		judge := Rates{0.3 * rng.Float64(), 0.3 * rng.Float64()}
		cost := 0.4 * rng.Float64()
		// After the verdict, the other model is right with the probability that is the mean over both kinds.
		gain := -max(p, q-cost)
		for _, passed := range []bool{true, false} {
			right, wrong := judge.Likelihoods(passed)
			said := p*right + (1-p)*wrong
			gain += max(p*right, both*right+(q-both)*wrong-said*cost)
		}
		s := State{Beliefs: []Belief{{Mean: p}, {Mean: q, Shared: (both - p*q) / (q * (1 - q))}}, Costs: []float64{0, cost}, Ran: []int{0}}
		for _, share := range []float64{0.99, 1.01} {
			s.Beliefs[0].Look = Look{Bernoulli: true, Judge: judge, CostUSD: share * max(gain, 1e-6)}
			if d := x.Decide(&s); d.Look != (share < 1 && gain > 1e-6) {
				t.Errorf("a verdict that gains %.4f is asked for at %.2f of that: %v, in %+v", gain, share, d.Look, s)
			}
		}
		if gain > 1e-6 {
			bought++
		}
	}
	if bought < 100 {
		t.Errorf("%d verdicts gain something", bought)
	}
}

package fit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// On known functions the estimator finds more than as many random samples do.
func TestTPEBeatsRandomSearch(t *testing.T) {
	long(t)
	functions := map[string]func(x []float64) float64{
		"peak": func(x []float64) float64 {
			sum := 0.0
			for i, v := range x {
				d := v - 0.2*float64(i+1)
				sum -= d * d
			}
			return sum
		},
		"one of three counts": func(x []float64) float64 { return -math.Abs(x[1] - 0.7) },
		"two that go together": func(x []float64) float64 {
			a, b, c := x[0]+x[1]-1, x[0]-0.7, x[2]-0.3
			return -5*a*a - b*b - c*c
		},
	}
	space := []interval{{0, 1}, {0, 1}, {0, 1}}
	for name, f := range functions {
		wins := 0
		const seeds, trials = 40, 60
		for seed := range uint64(seeds) {
			best := math.Inf(-1)
			evaluations := 0
			err := tpe(rand.New(rand.NewPCG(seed, 1)), space, trials, func(x []float64) (float64, error) {
				evaluations++
				for i, v := range x {
					if v < space[i].low || v > space[i].high {
						t.Fatalf("%v lies outside the space", x)
					}
				}
				v := f(x)
				best = max(best, v)
				return v, nil
			})
			if err != nil || evaluations != trials {
				t.Fatalf("%d evaluations, %v", evaluations, err)
			}
			rng, random := rand.New(rand.NewPCG(seed, 2)), math.Inf(-1)
			for range trials {
				random = max(random, f([]float64{rng.Float64(), rng.Float64(), rng.Float64()}))
			}
			if best > random {
				wins++
			}
		}
		// Of 40 fair tosses 28 or more are heads with a probability below 1 %.
		if wins < 28 {
			t.Errorf("%s: better than random in %d of %d", name, wins, seeds)
		}
	}
}

// No search is worse than one value for all depths on what it was fitted to, and all
// keep the budget, where ties are mixed by gamma too.
func TestSearchesAreNeverWorseThanConstant(t *testing.T) {
	if testing.Short() {
		t.Skip("fits two dozen times")
	}
	table := drawn(100, 3, 4)
	for _, name := range []string{cascade.NameIndex, cascade.NameCascadeRoute, cascade.NameThreshold} {
		for _, verified := range []bool{false, true} {
			table.Verified = verified
			const budget = 0.004
			var constant *Profile
			for _, search := range Searches() {
				p, err := Fit(context.Background(), table, Options{Strategy: name, BudgetUSD: budget, Search: search, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				if search == SearchConstant {
					constant = p
				}
				if !p.Budget.Reached {
					t.Errorf("%s, %s, verified %v: the budget is not reached", name, search, verified)
				}
				if p.Expected.Quality < constant.Expected.Quality {
					t.Errorf("%s, %s, verified %v: quality %v, constant %v", name, search, verified, p.Expected.Quality, constant.Expected.Quality)
				}
				if p.Expected.CostUSD > budget*(1+2*exact) {
					t.Errorf("%s, %s, verified %v: spends %v of %v", name, search, verified, p.Expected.CostUSD, budget)
				}
			}
		}
	}
}

// Verdicts leave a threshold two things to do; a coin spends the budget in between.
func TestThresholdMeetsABudgetBetweenVerdicts(t *testing.T) {
	long(t)
	table := drawn(200, 3, 5)
	table.Verified = true
	costs := table.MeanCosts()
	budget := 1.3 * costs[0]
	p, err := Fit(context.Background(), table, Options{Strategy: cascade.NameThreshold, BudgetUSD: budget})
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Strategy.Gamma; !(g > 0 && g < 1) || math.Abs(p.Expected.CostUSD-budget) > 2*exact*budget {
		t.Errorf("gamma %v, spends %v of %v", g, p.Expected.CostUSD, budget)
	}
	// What the profile's own strategy spends over many coins is what it says.
	replay, err := p.Estimator.On(table)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.NewStrategy(table.Models)
	if err != nil {
		t.Fatal(err)
	}
	beliefs, expected := make([]cascade.Belief, 3), make([]float64, 3)
	spent, steps := 0.0, 0.0
	for coin := 0.005; coin < 1; coin += 0.01 {
		for q := range table.Queries {
			reading, ran := replay.Start(q), []int{}
			for {
				reading.Believe(ran, beliefs, expected)
				d := s.Decide(&cascade.State{Beliefs: beliefs, Costs: expected, Ran: ran, Coin: coin})
				if d.Run == cascade.Stop {
					break
				}
				ran = append(ran, d.Run)
				spent += table.CostUSD[q][d.Run]
			}
			steps++
		}
	}
	if got := spent / steps; math.Abs(got-budget) > 0.02*budget {
		t.Errorf("over many coins the profile spends %v of %v", got, budget)
	}
}

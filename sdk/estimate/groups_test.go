package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// oneGroupEach returns outcomes of n queries, each in a group of its own.
func oneGroupEach(n int) *outcome.Table {
	rng := rand.New(rand.NewPCG(1, 2))
	t := &outcome.Table{Models: []string{"a", "b", "c"}, Verified: true}
	for q := range n {
		ease := rng.NormFloat64()
		quality, cost := make([]float64, 3), make([]float64, 3)
		for m := range quality {
			cost[m] = math.Exp(rng.NormFloat64() - ease)
			if rng.Float64() < sigmoid(ease+float64(m)-1) {
				quality[m] = 1
			}
		}
		t.Queries, t.Groups = append(t.Queries, fmt.Sprint("q", q)), append(t.Groups, fmt.Sprint("g", q))
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
	}
	return t
}

// The time of a fit must be linear in the number of groups, which can be single queries.
func BenchmarkFitGroups(b *testing.B) {
	for _, n := range []int{200, 800} {
		table := oneGroupEach(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Fit(table, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The regression without matrices is that of the normal equations.
func TestCostsByGroupSolveTheNormalEquations(t *testing.T) {
	table := oneGroupEach(30)
	for q := range table.Queries {
		table.Groups[q] = fmt.Sprint("g", q%4)
		table.InputTokens = append(table.InputTokens, []float64{float64(10 + q*q), math.NaN(), math.NaN()})
	}
	e := &costMeans{}
	e.fit(table)
	for i := range table.Models {
		// The gradient of the penalised squares is zero in each group and in the length.
		byGroup, byLength, overall := make([]float64, 4), -costLengthPrecision*e.PerLength[i], e.Mean[4][i]
		for q := range table.Queries {
			g := e.Groups.groupOf(table.Group(q))
			x := math.Log(float64(10+q*q)) - e.Center
			rest := math.Log(table.CostUSD[q][i]) - e.Mean[g][i] - e.PerLength[i]*x
			byGroup[g] += rest
			byLength += rest * x
		}
		for g, gradient := range byGroup {
			if gradient -= costGroupPrecision * (e.Mean[g][i] - overall); math.Abs(gradient) > 1e-9 {
				t.Errorf("model %d, group %d: a gradient of %v", i, g, gradient)
			}
		}
		if math.Abs(byLength) > 1e-9 {
			t.Errorf("model %d: a gradient of %v by the length", i, byLength)
		}
	}
}

package fit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// drawn returns outcomes of models of rising cost and quality on queries of one
// shared difficulty, with noisy signals before and after a run.
func drawn(queries, models int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 1))
	t := &outcome.Table{}
	for m := range models {
		t.Models = append(t.Models, fmt.Sprintf("m%d", m))
	}
	for q := range queries {
		t.Queries = append(t.Queries, fmt.Sprintf("q%d", q))
		t.Groups = append(t.Groups, []string{"a", "b"}[q%2])
		ease := rng.NormFloat64()
		quality, cost := make([]float64, models), make([]float64, models)
		for m := range models {
			if ease+0.3*float64(m)-0.5+0.8*rng.NormFloat64() > 0 {
				quality[m] = 1
			}
			cost[m] = 0.001 * math.Exp(0.7*float64(m)+0.3*rng.NormFloat64())
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
	}
	return estimate.Simulate(t, estimate.NoiseLevels()["medium"], seed)
}

func stageOf(t *testing.T, table *outcome.Table) *stage {
	t.Helper()
	_, r, _, err := estimate.FitFolds(table, 3, estimate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return newStage(table, r)
}

// Results copied from neighbouring values equal those of a replay, except for very few
// queries.
func TestExtendGivesWhatAReplayGives(t *testing.T) {
	queries := 150
	if testing.Short() {
		queries = 40
	}
	table := drawn(queries, 7, 1)
	for _, verified := range []bool{false, true} {
		table.Verified = verified
		s := stageOf(t, table)
		for _, name := range []string{cascade.NameRoute, cascade.NameCascadeRoute, cascade.NameCascade, cascade.NameIndex, cascade.NameThreshold} {
			c, err := newCandidate(name, cascade.Params{})
			if err != nil {
				t.Fatal(err)
			}
			values := startValues(name, table, 40)
			for _, part := range [][]float64{{values[0], values[39]}, values[10:20], values, {values[20] * 1.01, values[20] * 1.1}} {
				if err := s.extend(context.Background(), []*candidate{c}, [][]float64{part}); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.values) != 42 || !slices.IsSorted(c.values) {
				t.Fatalf("%s: values %v", name, c.values)
			}
			if differ, all := differences(t, s, c), len(c.values)*len(s.rows); differ*1000 > all {
				t.Errorf("%s, verified %v: %d of %d steps differ", name, verified, differ, all)
			}
		}
	}
}

// differences counts the steps whose replay differs from the candidate's results.
func differences(t *testing.T, s *stage, c *candidate) int {
	t.Helper()
	var strategies []cascade.Strategy
	for _, v := range c.values {
		strategy, err := c.base.Tune([]float64{v}, 1)
		if err != nil {
			t.Fatal(err)
		}
		strategies = append(strategies, strategy)
	}
	want, err := s.play(context.Background(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	differ := 0
	for i := range want {
		for q := range s.rows {
			if want[i].path[q] != c.results[i].path[q] || want[i].cost[q] != c.results[i].cost[q] {
				differ++
			}
		}
	}
	return differ
}

// The number of cores does not affect the result.
func TestFitIsTheSameOnOneCore(t *testing.T) {
	table := drawn(120, 4, 2)
	if testing.Short() {
		table = drawn(40, 3, 2)
	}
	options := Options{Strategy: cascade.NameCascadeRoute, BudgetUSD: 0.003, Seed: 3}
	many, err := Fit(context.Background(), table, options)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, err := Fit(context.Background(), table, options)
	if err != nil {
		t.Fatal(err)
	}
	a, err := many.bytes()
	if err != nil {
		t.Fatal(err)
	}
	b, err := one.bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a, b) {
		t.Error("the profile differs with the number of cores")
	}
}

func TestHalveFillsEveryGapOnce(t *testing.T) {
	const values = 11
	for _, ends := range [][2]int{{-1, values}, {-1, 4}, {3, values}, {2, 9}, {4, 5}} {
		done := map[int]bool{}
		for _, task := range plan(nil).halve(ends[0], ends[1], values) {
			if done[task.at] || task.at <= ends[0] || task.at >= ends[1] {
				t.Errorf("between %v: %d again or outside", ends, task.at)
			}
			for _, side := range []int{task.left, task.right} {
				if side >= 0 && side != ends[0] && side != ends[1] && !done[side] {
					t.Errorf("between %v: %d before its neighbour %d", ends, task.at, side)
				}
			}
			done[task.at] = true
		}
		if len(done) != ends[1]-ends[0]-1 {
			t.Errorf("between %v: %d filled", ends, len(done))
		}
	}
}

// A mean cost that exceeds the budget only by rounding counts as within it.
func TestABudgetIsNotMissedByRounding(t *testing.T) {
	sum := 0.0
	for range 30 {
		sum += 0.1
	}
	if m := meet([]Point{{Value: 1, CostUSD: sum / 30, Quality: 0.5}}, 0.1); sum/30 == 0.1 || m.over {
		t.Errorf("a mean cost of %v is over the budget of 0.1: %+v", sum/30, m)
	}
}

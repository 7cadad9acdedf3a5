package fit

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var targets = flag.Bool("targets", false, "measure the targets of verified cascades on SWE-bench's outcomes")

// verifiedRows are the strategies that are measured: what they believe and how they
// choose. The threshold cascade has a depth for each point, cheapest model first.
var verifiedRows = []struct{ quality, cost, strategy string }{
	{estimate.KindMean, estimate.KindCostMean, cascade.NameThreshold},
	{estimate.KindMean, estimate.KindCostMean, cascade.NameCascadeRoute},
	{estimate.KindLatent, estimate.KindCostLatent, cascade.NameCascadeRoute},
	{estimate.KindLatent, estimate.KindCostLatent, cascade.NameIndex},
}

// TestTargets prints what verified cascades reach on halves, fifths and, pooled over
// five folds, all of the outcomes:
//
//	go test ./sdk/fit -run Targets -args -targets
func TestTargets(t *testing.T) {
	if !*targets {
		t.Skip("measures on demand")
	}
	table := outcometest.Swebench(t)
	halves := func(seed uint64) [][2][]int {
		train, test := table.SplitRows(0.5, seed)
		return [][2][]int{{train, test}}
	}
	fifths := func(seed uint64) (parts [][2][]int) {
		fold := table.Folds(5, seed)
		for f := range 5 {
			var part [2][]int
			for q, of := range fold {
				at := 0
				if of == f {
					at = 1
				}
				part[at] = append(part[at], q)
			}
			parts = append(parts, part)
		}
		return parts
	}
	for _, m := range []struct {
		name   string
		split  func(seed uint64) [][2][]int
		seeds  uint64
		pooled bool
	}{{"halves", halves, 20, false}, {"fifths", fifths, 4, false}, {"five folds, pooled", fifths, 10, true}} {
		tallies := make([]tallyOf, len(verifiedRows))
		below := 0
		for seed := range m.seeds {
			pool := make([]swept, len(verifiedRows))
			for _, part := range m.split(seed) {
				sweeps := make([]swept, len(verifiedRows))
				for i, row := range verifiedRows {
					sweeps[i] = sweepVerified(t, table, part, row.quality, row.cost, row.strategy)
					pool[i] = pool[i].and(sweeps[i])
				}
				if !m.pooled {
					below += score(table, part, sweeps, tallies)
				}
			}
			if m.pooled {
				below += score(table, [2][]int{nil, pool[0].rows}, pool, tallies)
			}
		}
		fmt.Printf("%s, %d seeds; index below cascade_route (independent) by more than its interval: %d times\n", m.name, m.seeds, below)
		for i, row := range verifiedRows {
			a := &tallies[i]
			fmt.Printf("  %-7s %-14s AUC %.2f; cost at the best model's quality, of its cost: %.3f (median %.3f, of mean costs %.3f); of the train half's best: %.3f; quality at its cost %+.2f (train's best %+.2f)\n",
				row.quality, row.strategy, 100*average(a.area), average(a.share), median(a.share), average(a.reach)/average(a.best), average(a.shareOfTrain), 100*average(a.gain), 100*average(a.gainOfTrain))
		}
	}
}

// swept is what a strategy did on some rows, at each value.
type swept struct {
	rows    []int
	results []replayRow
}

func (s swept) and(o swept) swept {
	if s.results == nil {
		s.results = make([]replayRow, len(o.results))
	}
	s.rows = append(s.rows, o.rows...)
	for i := range o.results {
		s.results[i].cost = append(s.results[i].cost, o.results[i].cost...)
		s.results[i].quality = append(s.results[i].quality, o.results[i].quality...)
		s.results[i].steps = append(s.results[i].steps, o.results[i].steps...)
	}
	return s
}

// points of the rows at the given places.
func (s swept) points(places []int) []Point {
	out := make([]Point, len(s.results))
	for i := range out {
		out[i] = s.results[i].pointOn(0, places)
	}
	return out
}

func sweepVerified(t *testing.T, table *outcome.Table, part [2][]int, quality, cost, name string) swept {
	t.Helper()
	train, test := table.Rows(part[0]), table.Rows(part[1])
	e, err := estimate.Fit(train, estimate.Options{Quality: quality, Cost: cost})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.On(test)
	if err != nil {
		t.Fatal(err)
	}
	var strategies []cascade.Strategy
	add := func(p cascade.Params) {
		s, err := cascade.New(name, p)
		if err != nil {
			t.Fatal(err)
		}
		strategies = append(strategies, s)
	}
	if name == cascade.NameThreshold {
		order := orders(cascade.Params{}, train)
		for depth := range train.Models {
			add(cascade.Params{Order: order[len(order)-1], Thresholds: []float64{0.5}, MaxDepth: depth + 1})
		}
	} else {
		for _, lambda := range startValues(name, table, 120) {
			add(cascade.Params{Lambdas: []float64{lambda}, Gamma: 1})
		}
	}
	results, err := newStage(test, r).play(context.Background(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	return swept{part[1], results}
}

// tallyOf has one entry for each split.
type tallyOf struct{ area, share, shareOfTrain, reach, best, gain, gainOfTrain []float64 }

// score adds a split to the tallies, and returns 1 when the last row's area lies below
// the second's by more than the 95 % interval of their difference.
func score(table *outcome.Table, part [2][]int, sweeps []swept, tallies []tallyOf) int {
	test := table.Rows(part[1])
	places := make([]int, len(part[1]))
	for i := range places {
		places[i] = i
	}
	c, q := test.MeanCosts(), test.MeanQualities()
	best := bestSingle(c, q)
	known := best
	if part[0] != nil {
		train := table.Rows(part[0])
		known = bestSingle(train.MeanCosts(), train.MeanQualities())
	}
	for i, s := range sweeps {
		points := s.points(places)
		slices.SortFunc(points, func(a, b Point) int {
			return cmp.Or(cmp.Compare(a.CostUSD, b.CostUSD), cmp.Compare(a.Quality, b.Quality))
		})
		a := &tallies[i]
		// What is never reached counts as three times as dear.
		at := func(m int) float64 {
			if x := reach(points, q[m]); !math.IsNaN(x) {
				return x
			}
			return 3 * c[m]
		}
		a.area = append(a.area, area(test, points))
		a.reach, a.best = append(a.reach, at(best)), append(a.best, c[best])
		a.share, a.shareOfTrain = append(a.share, at(best)/c[best]), append(a.shareOfTrain, at(known)/c[known])
		a.gain, a.gainOfTrain = append(a.gain, qualityAt(points, c[best])-q[best]), append(a.gainOfTrain, qualityAt(points, c[known])-q[known])
	}
	// Paired, over queries drawn anew.
	rng := rand.New(rand.NewPCG(1, 1))
	differences := make([]float64, 200)
	for i := range differences {
		drawn, rows := make([]int, len(places)), make([]int, len(places))
		for k := range drawn {
			drawn[k] = rng.IntN(len(places))
			rows[k] = part[1][drawn[k]]
		}
		again := table.Rows(rows)
		differences[i] = area(again, sweeps[len(sweeps)-1].points(drawn)) - area(again, sweeps[1].points(drawn))
	}
	slices.Sort(differences)
	if differences[len(differences)*39/40] < 0 {
		return 1
	}
	return 0
}

func bestSingle(c, q []float64) int {
	best := 0
	for i := range q {
		if q[i] > q[best] || q[i] == q[best] && c[i] < c[best] {
			best = i
		}
	}
	return best
}

func median(x []float64) float64 {
	sorted := slices.Sorted(slices.Values(x))
	return sorted[len(sorted)/2]
}

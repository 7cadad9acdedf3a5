package fit

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var measure = struct {
	on                         *bool
	seeds                      *int
	sets, levels, kinds, names *string
}{
	flag.Bool("measure", false, "measure fitted strategies on halves of ZeroEval's outcomes"),
	flag.Int("seeds", 5, "number of halves"),
	flag.String("sets", "llama,gemma,3,5,11", "sets of models"),
	flag.String("levels", "", "noise of simulated signals; empty: real features"),
	flag.String("kinds", "auto", "quality estimators"),
	flag.String("names", "route,cascade_route,index", "strategies"),
}

// TestMeasure prints the mean AUC on test halves of strategies whose scale and depth
// were chosen on the train half, as Fit does without a budget:
//
//	go test ./sdk/fit -v -run Measure$ -args -measure -sets 11 -levels low,medium -kinds signal,latent -names index
func TestMeasure(t *testing.T) {
	if !*measure.on {
		t.Skip("measures on demand")
	}
	for set := range strings.SplitSeq(*measure.sets, ",") {
		for level := range strings.SplitSeq(*measure.levels, ",") {
			areas := map[string][]float64{}
			for seed := range uint64(*measure.seeds) {
				table := outcometest.Zeroeval(t, set)
				if level != "" {
					table = estimate.Simulate(table, estimate.NoiseLevels()[level], seed+100)
				}
				train, test := table.Split(0.5, seed)
				areas["linear"] = append(areas["linear"], linearArea(test))
				for kind := range strings.SplitSeq(*measure.kinds, ",") {
					for name := range strings.SplitSeq(*measure.names, ",") {
						row := kind + "/" + name
						areas[row] = append(areas[row], fittedArea(t, train, test, kind, name, seed))
					}
				}
			}
			fmt.Printf("%s %s:", set, level)
			for _, row := range slices.Sorted(maps.Keys(areas)) {
				fmt.Printf(" %s %.2f", row, 100*average(areas[row]))
			}
			fmt.Println()
		}
	}
}

// fittedArea is the AUC on the test half of a strategy fitted to the train half.
func fittedArea(t *testing.T, train, test *outcome.Table, kind, name string, seed uint64) float64 {
	t.Helper()
	return area(test, fittedPoints(t, train, test, kind, name, seed))
}

// fittedPoints is what a strategy fitted to the train half does on the test half.
func fittedPoints(t *testing.T, train, test *outcome.Table, kind, name string, seed uint64) []Point {
	t.Helper()
	o := estimate.Options{Quality: kind, Seed: seed}
	if kind == "auto" {
		o.Quality = ""
	}
	profile, err := Fit(context.Background(), train, Options{Strategy: name, Estimate: o, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return curvePoints(t, profile, test, startValues(name, train, 40))
}

// curvePoints is what a profile's strategy does on outcomes at each of the values.
func curvePoints(t *testing.T, profile *Profile, test *outcome.Table, values []float64) []Point {
	t.Helper()
	r, err := profile.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	params := cascade.Params{MaxDepth: profile.Strategy.MaxDepth, Scale: profile.Strategy.Scale, NoExpect: profile.Strategy.NoExpect}
	for _, model := range profile.Strategy.Order {
		params.Order = append(params.Order, test.Index(model))
	}
	base, err := cascade.New(profile.Strategy.Name, params)
	if err != nil {
		t.Fatal(err)
	}
	var strategies []cascade.Strategy
	for _, v := range values {
		s, err := base.(cascade.Tunable).Tune([]float64{v}, 1)
		if err != nil {
			t.Fatal(err)
		}
		strategies = append(strategies, s)
	}
	results, err := newStage(test, r).play(context.Background(), strategies)
	if err != nil {
		t.Fatal(err)
	}
	var points []Point
	for i, v := range values {
		points = append(points, results[i].point(v))
	}
	return points
}

// linearArea is the AUC of coin tosses between single models.
func linearArea(t *outcome.Table) float64 {
	c, q := t.MeanCosts(), t.MeanQualities()
	points := make([]Point, len(c))
	for i := range points {
		points[i] = Point{CostUSD: c[i], Quality: q[i]}
	}
	return area(t, hull(points))
}

func byCost(costs []float64) []int {
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	return order
}

// reach is the cost at which points first have a quality, NaN when none has.
func reach(points []Point, quality float64) float64 {
	s := slices.Clone(points)
	slices.SortFunc(s, func(a, b Point) int { return cmp.Compare(a.CostUSD, b.CostUSD) })
	for i, p := range s {
		if p.Quality < quality {
			continue
		}
		if i == 0 {
			return p.CostUSD
		}
		b := s[i-1]
		return b.CostUSD + (quality-b.Quality)/(p.Quality-b.Quality)*(p.CostUSD-b.CostUSD)
	}
	return math.NaN()
}

package fit

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// TestMeasureFitted prints mean AUC on test halves of strategies whose scale and
// depth were chosen on the train half, as Fit does without a budget.
func TestMeasureFitted(t *testing.T) {
	if !slices.Contains(strings.Split(flag.Lookup("test.run").Value.String(), "|"), "MeasureFitted") {
		t.Skip("measures on demand")
	}
	for set := range strings.SplitSeq(*sets, ",") {
		var tl tally
		for seed := range *seeds {
			table := measured(t, set, seed)
			train, test := table.Split(0.5, uint64(seed))
			linear, _, _ := linearArea(test)
			tl.add("linear", linear, 1)
			for kind := range strings.SplitSeq(*kinds, ",") {
				measureFitted(t, train, test, kind, uint64(seed), &tl)
			}
		}
		fmt.Printf("%s:", set)
		for _, n := range tl.order {
			fmt.Printf(" %s %s", n, tl.sum[n])
		}
		fmt.Println()
	}
}

// measured is a set of outcomes, with simulated signals when a level is asked for.
func measured(t *testing.T, set string, seed int) *outcome.Table {
	if set == "swe" {
		return outcometest.Swebench(t)
	}
	table := outcometest.Zeroeval(t, set)
	if *levels != "" {
		table = estimate.Simulate(table, estimate.NoiseLevels()[*levels], uint64(seed)+100)
	}
	return table
}

func measureFitted(t *testing.T, train, test *outcome.Table, kind string, seed uint64, tl *tally) {
	o := estimate.Options{Quality: kind, Seed: seed}
	if kind == "auto" {
		o.Quality = ""
	}
	replay, err := estimate.OutOfFold(train, 5, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := estimate.Fit(train, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.On(test)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(*names, ",") {
		list, err := candidates(name, cascade.Params{}, train)
		if err != nil {
			t.Fatal(err)
		}
		list, err = sweep(context.Background(), newStage(train, replay), name, list, 0)
		if err != nil {
			t.Fatal(err)
		}
		chosen := best(train, list, 0, (*candidate).points)
		values := startValues(name, train, *grid)
		var strategies []cascade.Strategy
		for _, v := range values {
			s, err := chosen.base.Tune([]float64{v}, 1)
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
		tl.add(kind+"/"+name, area(test, points), 1)
		if *verbose {
			fmt.Println(len(test.Models), name, chosen.params.Scale, chosen.params.MaxDepth, 100*area(test, points))
		}
	}
}

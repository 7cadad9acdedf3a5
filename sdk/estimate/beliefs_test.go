package estimate_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

var update = flag.Bool("update", false, "write testdata/beliefs.txt anew")

// What every kind of estimator believes after a small fit, before any model has run,
// after the first and after the first two, is kept in testdata/beliefs.txt. That these
// numbers are right is what the golden tests are for; here none of them changes unseen.
func TestBeliefsDoNotChangeUnseen(t *testing.T) {
	const file = "testdata/beliefs.txt"
	plain := madeUp(40)
	noisy := estimate.Simulate(plain, estimate.NoiseLevels()["medium"], 1)
	words := worded(60, 1)
	var cases []string
	tables, options := map[string]*outcome.Table{}, map[string]estimate.Options{}
	add := func(name string, table *outcome.Table, o estimate.Options) {
		cases = append(cases, name)
		tables[name], options[name] = table, o
	}
	for _, kind := range estimate.Kinds() {
		add("quality "+kind, noisy, estimate.Options{Quality: kind, Cost: estimate.KindCostMean})
	}
	for _, kind := range []string{estimate.KindCostMean, estimate.KindCostLatent} {
		add("cost "+kind, noisy, estimate.Options{Quality: estimate.KindMean, Cost: kind})
	}
	add("answers alone", plain, estimate.Options{Quality: estimate.KindLatent, Cost: estimate.KindCostLatent})
	add("words", words, estimate.Options{Quality: estimate.KindLatent, Cost: estimate.KindCostMean})
	var got strings.Builder
	for _, name := range cases {
		table := tables[name]
		e, err := estimate.Fit(table, options[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, ran := range [][]int{nil, {0}, {0, 1}} {
			for q := range 3 {
				beliefs, costs := believe(t, e, table, q, ran...)
				fmt.Fprintf(&got, "%s, query %d, %d ran:", name, q, len(ran))
				for m := range beliefs {
					fmt.Fprintf(&got, " %.7g %.7g %.7g", beliefs[m].Mean, beliefs[m].StdDev, 1e3*costs[m])
				}
				got.WriteString("\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, kept := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	if len(have) != len(kept) {
		t.Fatalf("%d lines, %d are kept", len(have), len(kept))
	}
	for i := range have {
		if !alike(have[i], kept[i]) {
			t.Errorf("believed %s\nkept is  %s", have[i], kept[i])
		}
	}
}

// alike reports whether two lines differ by no more than a hundred-thousandth in any
// number: processors round sums of products differently.
func alike(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		var u, v float64
		if x[i] == y[i] {
			continue
		}
		if n, _ := fmt.Sscan(x[i], &u); n == 0 {
			return false
		}
		if n, _ := fmt.Sscan(y[i], &v); n == 0 || !(math.Abs(u-v) <= 1e-5*max(1, math.Abs(v))) {
			return false
		}
	}
	return true
}

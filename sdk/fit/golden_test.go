package fit

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

var update = flag.Bool("update", false, "write testdata/profiles.txt anew")

// small returns a table of two groups, one of them hard, and three models.
func small(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 4))
	t := &outcome.Table{Models: []string{"small", "middle", "large"}, Verified: true}
	for q := range n {
		group, ease := "easy", 0.2
		if q%3 == 0 {
			group, ease = "hard", -0.25
		}
		var quality, cost []float64
		for m := range t.Models {
			right := 0.0
			if rng.Float64() < 0.5+ease+0.15*float64(m) {
				right = 1
			}
			quality, cost = append(quality, right), append(cost, 0.001*math.Pow(5, float64(m))*(0.5+rng.Float64()))
		}
		t.Queries, t.Groups = append(t.Queries, fmt.Sprint("q", q)), append(t.Groups, group)
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
	}
	return t
}

// The results of fits to a small table, for each strategy and promise, must match
// testdata/profiles.txt, which has every eighth point of the curves and the assessments of
// traces. Other tests check that they are right; this one that they do not change unnoticed.
func TestProfilesDoNotChangeUnseen(t *testing.T) {
	const file = "testdata/profiles.txt"
	table := small(120, 1)
	quality := estimate.Options{Quality: estimate.KindMean}
	list := map[string]Options{
		"floor as good as":       {Floor: &Floor{AsGoodAs: "large", Margin: 0.2}, Confidence: 0.8},
		"floor":                  {Floor: &Floor{MinQuality: 0.5}, Confidence: 0.8},
		"served":                 {MaxWrong: 0.5, Confidence: 0.8},
		"served within a budget": {MaxWrong: 0.5, Confidence: 0.6, BudgetUSD: 0.006, Strategy: cascade.NameCascade},
		"more than is needed":    {BudgetUSD: 1},
		"less than is needed":    {BudgetUSD: 0.0001},
	}
	for _, name := range cascade.Names() {
		list[name] = Options{Strategy: name}
		list[name+" within a budget"] = Options{Strategy: name, BudgetUSD: 0.005, Seed: 2}
	}
	got := map[string]any{}
	for name, o := range list {
		o.Estimate = quality
		p, err := Fit(t.Context(), table, o)
		if err != nil {
			got[name] = err.Error()
			continue
		}
		traces := tracesOf(t, p, small(60, 7), true, rand.New(rand.NewPCG(6, 6)))
		said, err := Assess(p, traces)
		if err != nil {
			t.Fatal(name, err)
		}
		rival, err := Compare(p, p, traces)
		if err != nil {
			t.Fatal(name, err)
		}
		var curve []Point
		for i := 0; i < len(p.Curve); i += 8 {
			curve = append(curve, p.Curve[i])
		}
		if name == "floor" {
			got["calibration"] = p.Calibration // the same for all of a seed
		}
		got[name] = []any{p.Strategy, p.Budget, p.Expected, p.HeldOut, p.Kept, p.Served, p.Usual, len(p.Curve), curve, said, rival}
	}
	text, err := json.MarshalIndent(got, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, want := strings.Split(string(text), "\n"), strings.Split(strings.TrimSpace(string(kept)), "\n")
	if len(have) != len(want) {
		t.Fatalf("%d lines, %d are kept", len(have), len(want))
	}
	for i := range have {
		if !sameNumber(have[i], want[i]) {
			t.Fatalf("line %d is %s\nkept is %s", i+1, have[i], want[i])
		}
	}
}

// sameNumber reports whether two lines of JSON differ by no more than a millionth.
func sameNumber(a, b string) bool {
	var x, y float64
	value := func(line string) string {
		if _, after, ok := strings.Cut(line, ": "); ok {
			line = after
		}
		return strings.TrimSuffix(strings.TrimSpace(line), ",")
	}
	if a == b {
		return true
	}
	if json.Unmarshal([]byte(value(a)), &x) != nil || json.Unmarshal([]byte(value(b)), &y) != nil {
		return false
	}
	return math.Abs(x-y) <= 1e-6*max(math.Abs(x), math.Abs(y))
}

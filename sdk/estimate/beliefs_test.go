package estimate_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

var update = flag.Bool("update", false, "write testdata/beliefs.txt anew")

// uneven returns outcomes of four models, some of them unknown, with prompts of different lengths,
// missing answers and troubles with tools.
func uneven(n int) *outcome.Table {
	t := crowd(4, n, 3)
	rng := rand.New(rand.NewPCG(3, 3))
	for q := range n {
		tokens, troubles := math.Round(50*math.Exp(rng.NormFloat64())), float64(rng.IntN(3))
		t.InputTokens = append(t.InputTokens, []float64{tokens, tokens, tokens, tokens})
		t.ToolTroubles = append(t.ToolTroubles, []float64{troubles, troubles, troubles, troubles})
		if m := q % 4; q%3 == 2 && q > 2 {
			t.Quality[q][m], t.CostUSD[q][m], t.OutputTokens[q][m], t.Answers[q][m] = math.NaN(), math.NaN(), math.NaN(), ""
		}
		if m := rng.IntN(4); rng.IntN(3) == 0 {
			t.Answers[q][m] = ""
		}
	}
	return t
}

// withClasses adds the answers' probabilities of three classes.
func withClasses(t *outcome.Table) *outcome.Table {
	rng := rand.New(rand.NewPCG(5, 7))
	for _, row := range t.Quality {
		var classes [3][]float64
		for _, v := range row {
			a, b := 0.2+0.5*v*rng.Float64(), 0.3*rng.Float64()
			for k, p := range []float64{a, b, 1 - a - b} {
				classes[k] = append(classes[k], p)
			}
		}
		for k, name := range []string{"class:A", "class:B", "class:C"} {
			t.Signals[name] = append(t.Signals[name], classes[k])
		}
	}
	return t
}

// verdicts returns the verdicts of a judge that misreads one query in every.
func verdicts(quality [][]float64, every int) [][]float64 {
	out := make([][]float64, len(quality))
	for q, row := range quality {
		for m, v := range row {
			if q%every == 1 || (q+m)%11 == 0 {
				v = 1 - v
			}
			out[q] = append(out[q], v)
		}
	}
	return out
}

// The beliefs of every kind of estimator after a small fit, before any model has run and
// after one and two have, must match testdata/beliefs.txt. The golden tests check that such
// numbers are right; this one that they do not change unnoticed.
func TestBeliefsDoNotChangeUnseen(t *testing.T) {
	const file = "testdata/beliefs.txt"
	var got strings.Builder
	show := func(name string, table *outcome.Table, o estimate.Options) {
		t.Helper()
		e, err := estimate.Fit(table, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		replay, err := e.On(table)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n := len(table.Models)
		beliefs, costs := make([]cascade.Belief, n), make([]float64, n)
		runs := [][]int{nil, {0}, {0, 1}}
		looks := len(e.Buys())
		if e.VerdictsUSD != nil {
			looks++
		}
		ran := []int{0}
		for k := range looks {
			ran = append(ran, n*(k+1))
			runs = append(runs, slices.Clone(ran))
		}
		if looks > 0 {
			runs = append(runs, append(ran, 1, n+1))
		}
		for _, ran := range runs {
			for q := range 3 {
				x := replay.Start(q)
				x.Sell()
				x.Believe(ran, beliefs, costs)
				fmt.Fprintf(&got, "%s, query %d, %d ran:", name, q, len(ran))
				for m, b := range beliefs {
					fmt.Fprintf(&got, " %.7g %.7g %.7g", b.Mean, b.StdDev, 1e3*costs[m])
					for _, x := range []float64{b.Shared, b.Judge.FalsePass, b.Judge.FalseReject, b.Look.StdDev, 1e3 * b.Look.CostUSD} {
						if x != 0 {
							fmt.Fprintf(&got, " %.7g", x)
						}
					}
				}
				for _, mark := range ran {
					if mark >= n {
						fmt.Fprintf(&got, " %.7g", 1e3*x.LookUSD(mark))
					}
				}
				got.WriteString("\n")
			}
		}
	}
	noisy := estimate.Simulate(madeUp(40), estimate.NoiseLevels()["medium"], 1)
	gaps := uneven(45)
	signals := estimate.Simulate(gaps, estimate.NoiseLevels()["medium"], 1)
	for _, kind := range estimate.Kinds() {
		show("quality "+kind, noisy, estimate.Options{Quality: kind, Cost: estimate.KindCostMean})
		show("uneven "+kind, signals, estimate.Options{Quality: kind, Cost: estimate.KindCostMean})
	}
	for _, kind := range []string{estimate.KindCostMean, estimate.KindCostLatent} {
		show("cost "+kind, noisy, estimate.Options{Quality: estimate.KindMean, Cost: kind})
		show("uneven cost "+kind, gaps, estimate.Options{Quality: estimate.KindMean, Cost: kind})
	}
	latent := estimate.Options{Quality: estimate.KindLatent, Cost: estimate.KindCostLatent}
	show("answers alone", madeUp(40), latent)
	show("uneven answers alone", gaps, latent)
	show("words", worded(60, 1), estimate.Options{Quality: estimate.KindLatent, Cost: estimate.KindCostMean})
	show("numbers of answers", withClasses(withPerplexity(worded(60, 1))), estimate.Options{Quality: estimate.KindLogistic, Cost: estimate.KindCostMean})

	families := *gaps
	families.Models = []string{"a", "a#2", "b@low", "b@high"}
	show("families", &families, latent)
	families.Verified = true
	show("verified families", &families, latent)
	show("verified by features", &families, estimate.Options{Quality: estimate.KindLogistic})

	numbers := judged(60)
	show("bought number", numbers, latent)
	numbers.Signals["second"], numbers.Signals["second_cost_usd"] = numbers.Quality, numbers.CostUSD
	show("bought number and verdict", numbers, latent)
	bought := withBought(crowd(3, 60, 2))
	bought.Signals["judge"] = verdicts(bought.Quality, 6)
	show("bought verdict", bought, latent)
	misread := crowd(3, 90, 2)
	misread.Verdicts = map[string][][]float64{"gate": verdicts(misread.Quality, 7)}
	show("judge", misread, latent)
	misread.Signals = map[string][][]float64{"gate_cost_usd": misread.CostUSD}
	show("judge with a price", misread, latent)
	misread.Verdicts["second"] = verdicts(misread.Quality, 4)
	for _, kind := range []string{estimate.KindLatent, estimate.KindMean} {
		show("judges "+kind, misread, estimate.Options{Quality: kind, JudgeOrder: []string{"second", "gate"}})
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

// alike reports whether the numbers of two lines differ by at most a millionth, since
// processors round sums of products differently.
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
		if n, _ := fmt.Sscan(y[i], &v); n == 0 || !(math.Abs(u-v) <= 1e-6*max(1, math.Abs(v))) {
			return false
		}
	}
	return true
}

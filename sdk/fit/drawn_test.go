package fit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// inUse returns the recorded outcomes of n queries on which a cheap model is called first,
// and the expensive one if it fails or, with probability share, at random. The strategy
// knows how hard a query is, but the table does not: apart from random calls, the expensive
// model is recorded on hard queries only.
func inUse(n int, share float64, seed uint64) (met *outcome.Table, dear float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	met = &outcome.Table{Models: []string{"cheap", "dear"}, Verified: true}
	for q := range n {
		ease := rng.NormFloat64()
		right := func(bonus float64) float64 {
			if ease+bonus+rng.NormFloat64() > 0 {
				return 1
			}
			return 0
		}
		quality := []float64{right(0.2), right(0.9)}
		cost := []float64{0.001, 0.01 * (1 + rng.Float64())}
		propensity := []float64{1, 1}
		dear += quality[1] / float64(n)
		if quality[0] == 1 && ease > -0.5 {
			if propensity[1] = share; rng.Float64() >= share {
				quality[1], cost[1], propensity[1] = math.NaN(), math.NaN(), math.NaN()
			}
		}
		met.Queries = append(met.Queries, fmt.Sprint("q", q))
		met.Quality, met.CostUSD, met.Propensity = append(met.Quality, quality), append(met.CostUSD, cost), append(met.Propensity, propensity)
	}
	return met, dear
}

// The estimated mean quality of a model recorded where others failed is unbiased, unlike
// the mean of its recorded outcomes and a likelihood-based estimate.
func TestDrawnOutcomesHaveNoBias(t *testing.T) {
	const n, times = 400, 30
	var off, plain moment
	for seed := range uint64(times) {
		met, dear := inUse(n, 0.15, seed)
		full, drawn, err := fillTable(met, estimate.Options{Quality: estimate.KindMean}, seed)
		if err != nil {
			t.Fatal(err)
		}
		if drawn == 0 || len(full.Complete().Queries) != n {
			t.Fatalf("%d drawn, %d of %d queries complete", drawn, len(full.Complete().Queries), n)
		}
		off.add(full.MeanQualities()[1] - dear)
		plain.add(met.MeanQualities()[1] - dear)
	}
	if bias, dev := off.mean(), off.dev()/math.Sqrt(times); math.Abs(bias) > 3*dev+0.002 {
		t.Errorf("off by %.4f ± %.4f", bias, dev)
	}
	if plain.mean() > -0.05 {
		t.Errorf("what was met is off by %.4f only: the case shows nothing", plain.mean())
	}
}

// It is also unbiased if the random calls favour queries that the model does well, and the
// number of right answers drawn does not depend on luck.
func TestDrawnOutcomesHaveNoBiasWherePropensitiesDiffer(t *testing.T) {
	const n, times = 400, 30
	var off moment
	for seed := range uint64(times) {
		met, dear := inUse(n, math.Nextafter(1, 0), seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		for q, row := range met.Propensity {
			if row[1] < 1 {
				if row[1] = 0.2 + 0.4*met.Quality[q][1]; rng.Float64() >= row[1] {
					met.Quality[q][1], met.CostUSD[q][1], row[1] = math.NaN(), math.NaN(), math.NaN()
				}
			}
		}
		var means [2]float64
		for i := range means {
			full, _, err := fillTable(met, estimate.Options{Quality: estimate.KindMean}, seed+times*uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			means[i] = full.MeanQualities()[1]
		}
		if math.Abs(means[0]-means[1]) > 1.001/n {
			t.Errorf("another seed draws %.4f and not %.4f", means[1], means[0])
		}
		off.add(means[0] - dear)
	}
	if bias, dev := off.mean(), off.dev()/math.Sqrt(times); math.Abs(bias) > 3*dev+0.002 {
		t.Errorf("off by %.4f ± %.4f", bias, dev)
	}
}

type moment struct{ n, sum, squares float64 }

func (m *moment) add(x float64) { m.n, m.sum, m.squares = m.n+1, m.sum+x, m.squares+x*x }
func (m *moment) mean() float64 { return m.sum / m.n }
func (m *moment) dev() float64  { return math.Sqrt(m.squares/m.n - m.mean()*m.mean()) }

func TestFitToOutcomesMetInUse(t *testing.T) {
	long(t)
	met, _ := inUse(300, 0.15, 3)
	p, err := Fit(t.Context(), met, Options{BudgetUSD: 0.005})
	if err != nil {
		t.Fatal(err)
	}
	if p.Data.Drawn == 0 || p.Data.Complete != 300 {
		t.Errorf("%d drawn, %d complete", p.Data.Drawn, p.Data.Complete)
	}
	if _, err = Fit(t.Context(), met, Options{Floor: &Floor{MinQuality: 0.5}}); !errors.Is(err, errDrawn) {
		t.Errorf("a floor on drawn outcomes: %v", err)
	}
	none, _ := inUse(300, 1e-9, 3)
	if _, err = Fit(t.Context(), none, Options{BudgetUSD: 0.005}); !errors.Is(err, ErrTooFew) {
		t.Errorf("without chance: %v", err)
	}
}

// Without random calls, a threshold cascade records only the queries on which it was in
// doubt: no fit takes these for a sample of all, with or without a check in use.
func TestFitToTracesWithoutChance(t *testing.T) {
	var traces []*sdk.Trace
	met, _ := inUse(60, 1e-9, 5)
	for q := range met.Queries {
		trace := &sdk.Trace{ID: met.Queries[q], Mode: "enforce"}
		for m, name := range met.Models {
			if quality := met.Quality[q][m]; !math.IsNaN(quality) {
				verdict := &sdk.Verdict{Outcome: sdk.Failed}
				if quality == 1 {
					verdict = &sdk.Verdict{Outcome: sdk.Passed, Score: 1}
				}
				trace.Calls = append(trace.Calls, sdk.Call{Model: name, CostUSD: met.CostUSD[q][m], Verdict: verdict})
			}
		}
		traces = append(traces, trace)
	}
	for _, verified := range []bool{true, false} {
		table, err := outcome.OfTraces(traces)
		if err != nil {
			t.Fatal(err)
		}
		table.Verified = verified
		if _, err := Fit(t.Context(), table, Options{BudgetUSD: 0.005}); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), "dear was ") {
			t.Errorf("verified %v: %v", verified, err)
		}
	}
}

// If a strategy left out too much, only the queries on which every model was called regardless
// of its estimate, as in a collection, are an unbiased sample, and the fit uses only those.
func TestFitToWhatWasAskedOfAll(t *testing.T) {
	met, _ := inUse(60, 1e-9, 5)
	all, _ := inUse(30, 1, 6) // chance leaves nothing out
	met.Verified = false
	const fair = 30
	for q := range fair {
		met.Quality[q], met.CostUSD[q] = all.Quality[q], all.CostUSD[q]
		for m := range met.Models {
			met.Propensity[q][m] = math.Nextafter(1, 0)
		}
	}
	var said []string
	p, err := Fit(t.Context(), met, Options{BudgetUSD: 0.005, Progress: func(text string) { said = append(said, text) }})
	if err != nil || p.Data.Queries != fair || p.Data.Complete != fair {
		t.Fatalf("%v, %+v", err, p)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "30 of 60 queries are used") {
		t.Error(all)
	}
}

// The error distinguishes steps in which a model was called but not conclusively judged from
// steps in which it was not called. A baseline with a shadow counts as called at random, so
// its steps complete those of a strategy that leaves it out.
func TestAskedByChanceAndNotJudged(t *testing.T) {
	none, _ := inUse(300, 0.15, 3)
	asked := 0
	for q := range none.Queries {
		if p := none.Propensity[q][1]; p < 1 {
			none.Quality[q][1] = math.NaN()
			asked++
		}
	}
	if _, err := Fit(t.Context(), none, Options{BudgetUSD: 0.005}); !errors.Is(err, ErrTooFew) || !strings.Contains(err.Error(), fmt.Sprintf("was asked by chance, and no verdict tells what came of it: %d of its answers", asked)) {
		t.Errorf("judged inconclusively: %v", err)
	}
	met, _ := inUse(300, 0.3, 3)
	for q := range met.Queries {
		if p := met.Propensity[q][1]; p < 1 {
			met.Propensity[q][1] = math.Nextafter(1, 0)
		}
	}
	if _, _, err := fillTable(met, estimate.Options{Quality: estimate.KindMean}, 1); err != nil {
		t.Errorf("with shadowed steps beside: %v", err)
	}
}

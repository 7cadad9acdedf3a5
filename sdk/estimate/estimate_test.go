package estimate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// madeUp returns outcomes of three models that find the same queries hard.
func madeUp(n int) *outcome.Table {
	rng := rand.New(rand.NewPCG(1, 2))
	t := &outcome.Table{Models: []string{"small", "medium", "large"}}
	for q := range n {
		ease := rng.NormFloat64()
		quality, cost := make([]float64, 3), make([]float64, 3)
		tokens, input, answers := make([]float64, 3), make([]float64, 3), make([]string, 3)
		for m := range 3 {
			answers[m] = fmt.Sprint(rng.IntN(3))
			if rng.Float64() < 1/(1+math.Exp(-2*ease-float64(m)+0.5)) {
				quality[m], answers[m] = 1, "right"
			}
			tokens[m] = math.Exp(4 - 0.5*ease + 0.2*rng.NormFloat64())
			cost[m], input[m] = tokens[m]*math.Pow(4, float64(m))*1e-6, 100
		}
		t.Queries = append(t.Queries, fmt.Sprint("q", q))
		t.Groups = append(t.Groups, []string{"a", "b"}[q%2])
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.OutputTokens, t.InputTokens = append(t.OutputTokens, tokens), append(t.InputTokens, input)
		t.Answers = append(t.Answers, answers)
	}
	return t
}

func believe(t *testing.T, e *estimate.Estimator, table *outcome.Table, q int, ran ...int) ([]cascade.Belief, []float64) {
	t.Helper()
	r, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	b, c := make([]cascade.Belief, len(table.Models)), make([]float64, len(table.Models))
	r.Start(q).Believe(ran, b, c)
	return b, c
}

func TestEveryKind(t *testing.T) {
	plain := madeUp(300)
	signals := estimate.Simulate(plain, estimate.NoiseLevels()["low"], 1)
	for _, quality := range estimate.Kinds() {
		for _, cost := range []string{estimate.KindCostMean, estimate.KindCostLatent} {
			t.Run(quality+"/"+cost, func(t *testing.T) {
				e, err := estimate.Fit(signals, estimate.Options{Quality: quality, Cost: cost})
				if err != nil {
					t.Fatal(err)
				}
				data, err := json.Marshal(e)
				if err != nil {
					t.Fatal(err)
				}
				var back estimate.Estimator
				if err := json.Unmarshal(data, &back); err != nil {
					t.Fatal(err)
				}
				for q := range 20 {
					b, c := believe(t, e, signals, q, 0, 1)
					b2, c2 := believe(t, &back, signals, q, 0, 1)
					for m := range b {
						if math.Abs(b[m].Mean-b2[m].Mean) > 1e-9 || math.Abs(c[m]-c2[m]) > 1e-12 {
							t.Fatalf("read back: %v %v, was %v %v", b2[m], c2[m], b[m], c[m])
						}
						if !(b[m].Mean >= -0.5 && b[m].Mean <= 1.5 && b[m].StdDev >= 0 && c[m] > 0) {
							t.Fatalf("belief %v, cost %v", b[m], c[m])
						}
					}
				}
			})
		}
	}
}

func TestFoldsAreAtLeastTwo(t *testing.T) {
	table, o := madeUp(12), estimate.Options{Quality: estimate.KindMean, Cost: estimate.KindCostMean}
	for _, c := range []struct {
		rows, k int
		fits    bool
	}{{12, 1, false}, {12, 2, true}, {12, 12, true}, {11, 12, false}} {
		rows := make([]int, c.rows)
		for q := range rows {
			rows[q] = q
		}
		if _, _, _, err := estimate.FitFolds(table.Rows(rows), c.k, o); (err == nil) != c.fits {
			t.Errorf("%d folds of %d queries: %v", c.k, c.rows, err)
		}
	}
}

func TestAFailureOfOneLowersTheOthers(t *testing.T) {
	table := madeUp(300)
	table.Verified = true
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	for q := range table.Queries {
		before, _ := believe(t, e, table, q)
		after, _ := believe(t, e, table, q, 0)
		if !before[2].Bernoulli || after[0].Mean != table.Quality[q][0] {
			t.Fatalf("query %d: %v, then %v", q, before[2], after[0])
		}
		if rose := after[2].Mean > before[2].Mean; rose != (table.Quality[q][0] == 1) {
			t.Fatalf("query %d: large from %v to %v after quality %v of small", q, before[2].Mean, after[2].Mean, table.Quality[q][0])
		}
	}
}

func TestAgreementRaisesBoth(t *testing.T) {
	long(t)
	table := madeUp(600)
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	agree, differ, n, k := 0.0, 0.0, 0.0, 0.0
	for q := range table.Queries {
		alone, _ := believe(t, e, table, q, 0)
		both, _ := believe(t, e, table, q, 0, 2)
		if table.Answers[q][0] == table.Answers[q][2] {
			agree, n = agree+both[0].Mean-alone[0].Mean, n+1
		} else {
			differ, k = differ+both[0].Mean-alone[0].Mean, k+1
		}
	}
	if agree/n < 0.05 || differ/k > -0.05 {
		t.Errorf("agreement moves the estimate by %.3f, disagreement by %.3f", agree/n, differ/k)
	}
}

func TestOnlineIsReplay(t *testing.T) {
	table := madeUp(300)
	table.InputTokens = nil
	e, err := estimate.Fit(table, estimate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for q := range 30 {
		want, costs := believe(t, e, table, q, 1)
		attempts := []sdk.Attempt{{Answer: sdk.Answer{
			Model: "medium", Text: table.Answers[q][1], CostUSD: table.CostUSD[q][1],
			Usage: sdk.Usage{OutputTokens: int(math.Round(table.OutputTokens[q][1]))},
		}}}
		query := &sdk.Query{Group: table.Groups[q]}
		got, err := e.QualityEstimator().EstimateQuality(context.Background(), &sdk.QualityRequest{Query: query, Models: []string{"large", "other", "small"}, Attempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		cost, err := e.CostEstimator().EstimateCost(context.Background(), &sdk.CostRequest{Query: query, Models: []sdk.Model{{Name: "large"}}, Attempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		// The number of tokens is whole online.
		if math.Abs(got.Estimates[0].Mean-want[2].Mean) > 0.01 || math.Abs(got.Estimates[2].Mean-want[0].Mean) > 0.01 {
			t.Errorf("query %d: online %v, replay %v", q, got.Estimates, want)
		}
		if !got.Estimates[1].Abstains() || math.Abs(cost.Estimates[0].Mean/costs[2]-1) > 1e-9 {
			t.Errorf("query %d: unknown model %v, cost %v for %v", q, got.Estimates[1], cost.Estimates[0], costs[2])
		}
	}
}

// A fit to traces reads a prompt's length as the router counts it, whatever the vendor bills: costs and
// qualities online are those of the fit, and the costs are those of the bills. The same holds after the
// traces went through a file of outcomes.
func TestLengthsOfTracesAreThoseOfTheRouter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	var traces []*sdk.Trace
	for i := range 200 {
		trace := &sdk.Trace{ID: fmt.Sprint(i), InputTokens: 50 + rng.IntN(1000)}
		for m, name := range []string{"small", "large"} {
			billed, outcome := trace.InputTokens+350, sdk.Failed
			if rng.Float64() < 0.9-float64(trace.InputTokens)/2000 {
				outcome = sdk.Passed
			}
			trace.Calls = append(trace.Calls, sdk.Call{
				Model: name, Usage: sdk.Usage{InputTokens: billed, OutputTokens: 20},
				CostUSD: float64(billed) * math.Pow(5, float64(m)) * 1e-6, Verdict: &sdk.Verdict{Outcome: outcome},
			})
		}
		traces = append(traces, trace)
	}
	recorded, err := outcome.OfTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := recorded.WriteCSV(&file); err != nil {
		t.Fatal(err)
	}
	again, err := outcome.Read(&file, "outcomes.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	recorded.Verified = false // else the verdicts would hide the estimates
	for _, table := range []*outcome.Table{recorded, again} {
		for _, o := range []estimate.Options{{Quality: estimate.KindLatent, Cost: estimate.KindCostLatent}, {Quality: estimate.KindLinear, Cost: estimate.KindCostLatent}} {
			e, err := estimate.Fit(table, o)
			if err != nil {
				t.Fatal(err)
			}
			billed, expected := 0.0, 0.0
			for q, trace := range traces {
				want, costs := believe(t, e, table, q)
				query := &sdk.Query{InputTokens: trace.InputTokens}
				quality, err := e.QualityEstimator().EstimateQuality(t.Context(), &sdk.QualityRequest{Query: query, Models: table.Models})
				if err != nil {
					t.Fatal(err)
				}
				cost, err := e.CostEstimator().EstimateCost(t.Context(), &sdk.CostRequest{Query: query, Models: []sdk.Model{{Name: "large"}}})
				if err != nil {
					t.Fatal(err)
				}
				if got := cost.Estimates[0].Mean; math.Abs(got/costs[1]-1) > 1e-9 || math.Abs(quality.Estimates[1].Mean-want[1].Mean) > 1e-9 {
					t.Fatalf("%s: a prompt of %d tokens costs %v and is answered at %v online, %v and %v in the fit",
						e.Quality.Kind(), trace.InputTokens, got, quality.Estimates[1].Mean, costs[1], want[1].Mean)
				}
				billed, expected = billed+trace.Calls[1].CostUSD, expected+cost.Estimates[0].Mean
			}
			if math.Abs(expected/billed-1) > 0.01 {
				t.Errorf("%s: expected costs are %.3f of the bills", e.Quality.Kind(), expected/billed)
			}
		}
	}
}

// long skips a test that computes for seconds, and for a minute under the race detector.
// What runs at once, the fit of folds, does so in TestGoldenFolds.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("computes for seconds")
	}
}

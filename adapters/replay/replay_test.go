package replay_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/adapters/replay"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// made returns verified outcomes of n queries in three groups by k models.
func made(n, k int) *outcome.Table {
	rng := rand.New(rand.NewPCG(1, 2))
	t := &outcome.Table{Verified: true}
	for m := range k {
		t.Models = append(t.Models, fmt.Sprintf("m%d", m))
	}
	for q := range n {
		t.Queries = append(t.Queries, fmt.Sprintf("q%d", q))
		t.Groups = append(t.Groups, fmt.Sprintf("g%d", q%3))
		ease := rng.NormFloat64() + float64(q%3-1)
		quality, cost := make([]float64, k), make([]float64, k)
		for m := range k {
			if ease+rng.NormFloat64()+0.5*float64(m-1) > 0 {
				quality[m] = 1
			}
			cost[m] = math.Round(1e6*math.Pow(2.5, float64(m))*(0.5+rng.Float64())) / 1e9
		}
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
	}
	return t
}

// offline walks the table without middleware or engine.
func offline(t *testing.T, e *estimate.Estimator, table *outcome.Table, s cascade.Strategy, q int) (ran []string, cost, quality float64) {
	t.Helper()
	on, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	o := eval.OutcomesOf(table)
	places, cost, quality := eval.Walk(o, on.Start(q), s, q, 0)
	for _, m := range places {
		ran = append(ran, table.Models[m])
	}
	return ran, cost, quality
}

// The online path, middleware and engine with a verifier, and the offline path take
// the same decisions: every query, strategy and lambda.
func TestOnlineAndOfflineDecideAlike(t *testing.T) {
	tables := map[string]*outcome.Table{"made": made(90, 5)}
	t.Run("made", func(t *testing.T) { decideAlike(t, tables["made"]) })
	t.Run("swebench", func(t *testing.T) { decideAlike(t, outcometest.Swebench(t)) })
}

func decideAlike(t *testing.T, table *outcome.Table) {
	train, test := table.Split(0.5, 1)
	for _, kind := range []string{estimate.KindMean, estimate.KindLatent} {
		e, err := estimate.Fit(train, estimate.Options{Quality: kind})
		if err != nil {
			t.Fatal(err)
		}
		several := 0
		for _, name := range []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
			for _, lambda := range []float64{20, 2, 0.2} {
				s, err := cascade.New(name, cascade.Params{Lambdas: []float64{lambda}, Thresholds: []float64{0.5}, Gamma: 1})
				if err != nil {
					t.Fatal(err)
				}
				steps, err := replay.Run(context.Background(), replay.Config{Table: test, Estimator: e, Strategy: s, Verified: true})
				if err != nil {
					t.Fatal(err)
				}
				for q, step := range steps {
					ran, cost, quality := offline(t, e, test, s, q)
					if fmt.Sprint(step.Ran) != fmt.Sprint(ran) || math.Abs(step.CostUSD-cost) > 1e-8 || step.Quality != quality {
						t.Fatalf("%s on %s at %v, query %s: online ran %v for %v, quality %v; offline %v for %v, quality %v",
							name, kind, lambda, step.Query, step.Ran, step.CostUSD, step.Quality, ran, cost, quality)
					}
					if len(ran) > 1 {
						several++
					}
				}
			}
		}
		if several < len(test.Queries) {
			t.Errorf("%s: only %d steps ran several models: the comparison says little", kind, several)
		}
	}
}

func TestNewModelRefusesAnUnknownModel(t *testing.T) {
	if _, err := replay.NewModel(made(4, 2), "gpt-9"); err == nil {
		t.Error("a model without outcomes was accepted")
	}
}

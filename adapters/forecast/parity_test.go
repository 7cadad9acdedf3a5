package forecast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/adapters/forecast"
	"github.com/stepfall/stepfall/policies"
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

// The assembly of a policy at work in the step engine, and the offline walk over the
// table, take the same decisions: every query, strategy and lambda.
func TestOnlineAndOfflineDecideAlike(t *testing.T) {
	t.Run("made", func(t *testing.T) { decideAlike(t, made(90, 5)) })
	t.Run("swebench", func(t *testing.T) { decideAlike(t, outcometest.Swebench(t)) })
}

func decideAlike(t *testing.T, table *outcome.Table) {
	train, test := table.Split(0.5, 1)
	for _, kind := range []string{estimate.KindMean, estimate.KindLatent} {
		e, err := estimate.Fit(train, estimate.Options{Quality: kind})
		if err != nil {
			t.Fatal(err)
		}
		on, err := e.On(test)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, several := eval.OutcomesOf(test), 0
		for _, name := range []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
			for _, lambda := range []float64{20, 2, 0.2} {
				p := &policies.Policy{
					Strategy:  policies.Strategy{Kind: name, Lambda: []float64{lambda}, Threshold: []float64{0.5}, Gamma: 1},
					Verifiers: []policies.Verifier{{Name: "recorded", Plugin: "recorded"}},
				}
				for _, model := range test.Models {
					p.Models = append(p.Models, policies.Model{Name: model, Provider: "go"})
				}
				f, err := forecast.New(t.Context(), p, &forecast.Table{Outcomes: test}, forecast.Options{Keep: true, Estimator: e})
				if err != nil {
					t.Fatal(err)
				}
				s, err := cascade.New(name, cascade.Params{Lambdas: []float64{lambda}, Thresholds: []float64{0.5}, Gamma: 1})
				if err != nil {
					t.Fatal(err)
				}
				for q, trace := range f.Traces {
					var online, offline []string
					for _, c := range trace.Calls {
						online = append(online, c.Model)
					}
					ran, cost, quality := eval.Walk(outcomes, on.Start(q), s, q, 0)
					for _, m := range ran {
						offline = append(offline, test.Models[m])
					}
					if fmt.Sprint(online) != fmt.Sprint(offline) || math.Abs(trace.CostUSD-cost) > 1e-12 || test.Quality[q][test.Index(trace.Chosen)] != quality {
						t.Fatalf("%s on %s at %v, query %s: online %v for %v, answer of %s; offline %v for %v, quality %v",
							name, kind, lambda, test.Queries[q], online, trace.CostUSD, trace.Chosen, offline, cost, quality)
					}
					if len(online) > 1 {
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

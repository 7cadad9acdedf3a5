package estimate_test

import (
	"encoding/json"
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

// crowd returns outcomes of n models that find the same queries hard, with the
// probability that each answer is right given its length and how hard the query is.
func crowd(models, queries int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 7))
	t := &outcome.Table{}
	for m := range models {
		t.Models = append(t.Models, fmt.Sprint("m", m))
	}
	for q := range queries {
		ease := rng.NormFloat64()
		row := func() []float64 { return make([]float64, models) }
		quality, cost, tokens, answers := row(), row(), row(), make([]string, models)
		for m := range models {
			p := 1 / (1 + math.Exp(-ease-0.3*float64(m)))
			answers[m] = fmt.Sprint("wrong", rng.IntN(4))
			tokens[m] = 100 * math.Exp(0.3*rng.NormFloat64())
			if rng.Float64() < p {
				quality[m], answers[m] = 1, "right"
			} else {
				tokens[m] *= 1.5
			}
			cost[m] = tokens[m] * 1e-6 * math.Pow(2, float64(m))
		}
		t.Queries, t.Groups = append(t.Queries, fmt.Sprint("q", q)), append(t.Groups, []string{"a", "b", "c"}[q%3])
		t.Quality, t.CostUSD = append(t.Quality, quality), append(t.CostUSD, cost)
		t.OutputTokens, t.Answers = append(t.OutputTokens, tokens), append(t.Answers, answers)
	}
	return t
}

// brier is the mean squared error of the estimates of all models once some have run.
func brier(t *testing.T, e *estimate.Estimator, table *outcome.Table, ran ...int) float64 {
	t.Helper()
	sum := 0.0
	for q := range table.Queries {
		b, _ := believe(t, e, table, q, ran...)
		for m := range b {
			d := b[m].Mean - table.Quality[q][m]
			sum += d * d / float64(len(b))
		}
	}
	return sum / float64(len(table.Queries))
}

func fitted(t *testing.T, table *outcome.Table, o estimate.Options) *estimate.Estimator {
	t.Helper()
	e, err := estimate.Fit(table, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRegressionLearnsFromLengthsAndAgreement(t *testing.T) {
	long(t)
	crowds := []int{3}
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		crowds = append(crowds, 8)
	}
	for _, models := range crowds {
		train, test := crowd(models, 600, 1), crowd(models, 400, 2)
		means := fitted(t, train, estimate.Options{Quality: estimate.KindMean})
		for _, kind := range []string{estimate.KindLinear, estimate.KindLogistic} {
			e := fitted(t, train, estimate.Options{Quality: kind})
			blind := fitted(t, train, estimate.Options{Quality: kind, Features: []string{"group"}})
			nothing, one, two := brier(t, e, test), brier(t, e, test, 0), brier(t, e, test, 0, 2)
			if prior := brier(t, means, test); math.Abs(nothing-prior) > 0.01 {
				t.Errorf("%s, %d models: Brier score %.4f before any run, of the means %.4f", kind, models, nothing, prior)
			}
			if !(one < nothing-0.004 && two < one-0.01) {
				t.Errorf("%s, %d models: Brier score %.4f, after one run %.4f, after two %.4f", kind, models, nothing, one, two)
			}
			if b := brier(t, blind, test, 0, 2); b < two+0.02 {
				t.Errorf("%s, %d models: Brier score %.4f without the features of answers, %.4f with them", kind, models, b, two)
			}
		}
	}
}

func TestRegressionRecoversALogisticTruth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	table := &outcome.Table{Models: []string{"a", "b"}}
	truth := func(x float64) float64 { return 1 / (1 + math.Exp(0.5-2*x)) }
	for q := range 4000 {
		x := rng.NormFloat64()
		quality := []float64{0, 0}
		for m := range quality {
			if rng.Float64() < truth(x) {
				quality[m] = 1
			}
		}
		table.Queries = append(table.Queries, fmt.Sprint(q))
		table.Quality, table.CostUSD = append(table.Quality, quality), append(table.CostUSD, []float64{1, 2})
		table.Ante = append(table.Ante, []float64{x, x})
		table.Post = append(table.Post, []float64{0, 0})
	}
	e := fitted(t, table, estimate.Options{Quality: estimate.KindLogistic})
	worst := 0.0
	for q := range 200 {
		b, _ := believe(t, e, table, q)
		worst = max(worst, math.Abs(b[0].Mean-truth(table.Ante[q][0])))
	}
	if worst > 0.05 {
		t.Errorf("estimates differ from the truth by up to %.3f", worst)
	}
}

func TestRegressionOfManyModelsReadsBack(t *testing.T) {
	table := crowd(9, 200, 1)
	e := fitted(t, table, estimate.Options{Quality: estimate.KindLogistic})
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back estimate.Estimator
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	for q := range 20 {
		for _, ran := range [][]int{nil, {4}, {8, 0, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}} {
			want, _ := believe(t, e, table, q, ran...)
			got, _ := believe(t, &back, table, q, ran...)
			if !slices.Equal(got, want) {
				t.Fatalf("read back: %v, was %v", got, want)
			}
			slices.Sort(ran)
			sorted, _ := believe(t, e, table, q, ran...)
			if !slices.Equal(sorted, want) {
				t.Fatalf("the order of runs matters: %v, %v", sorted, want)
			}
		}
	}
}

func TestRegressionOnDegenerateTables(t *testing.T) {
	constant := crowd(3, 30, 1)
	for _, row := range constant.Quality {
		for m := range row {
			row[m] = 1
		}
	}
	gaps := crowd(7, 60, 1)
	for q, row := range gaps.Quality {
		for m := range row {
			if (q+m)%3 != 0 {
				row[m], gaps.CostUSD[q][m] = math.NaN(), math.NaN()
			}
		}
	}
	one, err := crowd(3, 50, 1).Select("m1")
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]*outcome.Table{
		"one row": crowd(3, 1, 1), "constant": constant, "one model": one, "missing cells": gaps,
	} {
		for _, kind := range []string{estimate.KindLinear, estimate.KindLogistic} {
			e := fitted(t, table, estimate.Options{Quality: kind})
			for q := range table.Queries {
				for _, ran := range [][]int{nil, {0}} {
					b, _ := believe(t, e, table, q, ran...)
					for m := range b {
						if !(b[m].Mean >= 0 && b[m].Mean <= 1 && b[m].StdDev >= 0) || name == "constant" && b[m].Mean < 0.9 {
							t.Fatalf("%s, %s: belief %v", kind, name, b[m])
						}
					}
				}
			}
		}
	}
}

func TestUnknownFeature(t *testing.T) {
	_, err := estimate.Fit(crowd(2, 20, 1), estimate.Options{Quality: estimate.KindLinear, Features: []string{"colour"}})
	if err == nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("error %v", err)
	}
}

func BenchmarkBeliefs(b *testing.B) {
	for _, models := range []int{5, 24} {
		table := crowd(models, 300, 1)
		for _, kind := range []string{estimate.KindLogistic, estimate.KindLatent} {
			b.Run(fmt.Sprintf("%s/%d", kind, models), func(b *testing.B) {
				e, err := estimate.Fit(table, estimate.Options{Quality: kind})
				if err != nil {
					b.Fatal(err)
				}
				c := e.Quality.Cursor()
				beliefs := make([]cascade.Belief, models)
				q := estimate.Query{Group: "a"}
				runs := make([]estimate.Run, 3)
				for m := range runs {
					runs[m] = estimate.Run{Verdict: math.NaN(), Post: math.NaN(), OutputTokens: 100, Answer: fmt.Sprint(m / 2)}
				}
				b.ReportAllocs()
				for b.Loop() {
					c.Begin(&q)
					for m := range runs {
						c.Observe(m, &runs[m])
						c.Beliefs(beliefs)
					}
				}
			})
		}
	}
}

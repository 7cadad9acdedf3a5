package estimate_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// worded returns outcomes of prompts whose words show which queries are hard.
func worded(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 11))
	filler := strings.Fields("the of a sum what number when then how many find total each value integer")
	t := crowd(4, n, seed)
	for q := range n {
		var words []string
		for range 25 {
			words = append(words, filler[rng.IntN(len(filler))])
		}
		mark, chance := "apples", 0.9
		if rng.IntN(2) == 0 {
			mark, chance = "eigenvalues", 0.3
		}
		words[rng.IntN(len(words))] = mark
		t.Prompts = append(t.Prompts, strings.Join(words, " "))
		for m := range t.Models {
			t.Quality[q][m] = 0
			if rng.Float64() < chance {
				t.Quality[q][m] = 1
			}
		}
	}
	t.Answers, t.OutputTokens = nil, nil
	return t
}

func TestWordsOfThePromptTellTheEase(t *testing.T) {
	train, test := worded(600, 1), worded(300, 2)
	e := fitted(t, train, estimate.Options{Quality: estimate.KindLatent})
	blind := *train
	blind.Prompts = nil
	if with, without := brier(t, e, test), brier(t, fitted(t, &blind, estimate.Options{Quality: estimate.KindLatent}), test); with > without-0.04 {
		t.Errorf("Brier score %.4f with the words, %.4f without", with, without)
	}
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back estimate.Estimator
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	want, _ := believe(t, e, test, 7)
	got, _ := believe(t, &back, test, 7)
	if !slices.Equal(got, want) {
		t.Errorf("read back: %v, was %v", got, want)
	}
}

func TestWordsThatTellNothingAreLeftOut(t *testing.T) {
	train := worded(300, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(train.Prompts), func(i, j int) { train.Prompts[i], train.Prompts[j] = train.Prompts[j], train.Prompts[i] })
	data, err := json.Marshal(fitted(t, train, estimate.Options{Quality: estimate.KindLatent}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), `"weights"`) {
		t.Error("the profile has weights of words that tell nothing")
	}
}

func TestAMissingAnswerIsSeldomRight(t *testing.T) {
	long(t)
	table := crowd(3, 600, 1)
	rng := rand.New(rand.NewPCG(4, 4))
	for q, row := range table.Quality {
		for m, v := range row {
			// In group c an empty answer is what is asked for.
			switch {
			case table.Groups[q] != "c" && v == 0 && rng.Float64() < 0.3, table.Groups[q] == "c" && v == 1 && q%2 == 0:
				table.Answers[q][m] = ""
			}
		}
	}
	for _, kind := range []string{estimate.KindLatent, estimate.KindLogistic} {
		e := fitted(t, table, estimate.Options{Quality: kind})
		var missing, asked [2]float64
		for q := range table.Queries {
			if table.Answers[q][1] != "" {
				continue
			}
			before, _ := believe(t, e, table, q)
			after, _ := believe(t, e, table, q, 1)
			at := &missing
			if table.Groups[q] == "c" {
				at = &asked
			}
			at[0] += after[1].Mean - before[1].Mean
			at[1]++
		}
		if d := missing[0] / missing[1]; d > -0.25 {
			t.Errorf("%s: a missing answer moves the estimate by %.3f", kind, d)
		}
		if d := asked[0] / asked[1]; d < -0.1 {
			t.Errorf("%s: an empty answer that is asked for moves the estimate by %.3f", kind, d)
		}
	}
}

func TestExpectedGainsComeTrue(t *testing.T) {
	long(t)
	train, test := crowd(6, 600, 1), crowd(6, 600, 2)
	for _, kind := range []string{estimate.KindLatent, estimate.KindLogistic} {
		r, err := fitted(t, train, estimate.Options{Quality: kind}).On(test)
		if err != nil {
			t.Fatal(err)
		}
		beliefs, costs := make([]cascade.Belief, 6), make([]float64, 6)
		rng := rand.New(rand.NewPCG(9, 9))
		expected, came := 0.0, 0.0
		for q := range test.Queries {
			x, order := r.Start(q), rng.Perm(6)
			x.Believe(order[:1], beliefs, costs)
			var chosen []cascade.Belief
			top := order[0]
			for _, m := range order[:3] {
				chosen = append(chosen, beliefs[m])
				if beliefs[m].Mean > beliefs[top].Mean {
					top = m
				}
			}
			expected += cascade.ExpectedMax(chosen) - beliefs[top].Mean
			x.Believe(order[:3], beliefs, costs)
			best := order[0]
			for _, m := range order[:3] {
				if beliefs[m].Mean > beliefs[best].Mean {
					best = m
				}
			}
			came += test.Quality[q][best] - test.Quality[q][top]
		}
		// More than came, since looking one at a time is worth more, but not several times.
		if n := float64(len(test.Queries)); expected < came || expected > 3*came {
			t.Errorf("%s: a gain of %.4f is expected, %.4f came", kind, expected/n, came/n)
		}
	}
}

func TestEveryKindOnDegenerateTables(t *testing.T) {
	constant := crowd(3, 40, 1)
	for _, row := range constant.Quality {
		for m := range row {
			row[m] = 1
		}
	}
	gaps := crowd(4, 80, 1)
	for q, row := range gaps.Quality {
		row[q%4], gaps.CostUSD[q][q%4] = math.NaN(), math.NaN()
		gaps.Answers[q][q%4], gaps.OutputTokens[q][q%4] = "", math.NaN()
	}
	one, err := crowd(3, 50, 1).Select("m1")
	if err != nil {
		t.Fatal(err)
	}
	bare := crowd(2, 40, 1)
	bare.Groups, bare.Answers, bare.OutputTokens = nil, nil, nil
	prompts := crowd(2, 6, 1)
	prompts.Prompts = []string{"", "a", "b", "", "c d", "e"}
	for name, table := range map[string]*outcome.Table{
		"one row": crowd(3, 1, 1), "constant": constant, "one model": one, "missing cells": gaps, "bare": bare, "short prompts": prompts,
	} {
		signals := estimate.Simulate(table, estimate.NoiseLevels()["low"], 1)
		for _, kind := range estimate.Kinds() {
			e := fitted(t, signals, estimate.Options{Quality: kind})
			for q := range table.Queries {
				for _, ran := range [][]int{nil, {0}} {
					b, c := believe(t, e, signals, q, ran...)
					for m := range b {
						if !(b[m].Mean >= -0.5 && b[m].Mean <= 1.5) || !(b[m].StdDev >= 0) || len(ran) == 0 && !(c[m] > 0) {
							t.Fatalf("%s, %s: belief %v, cost %v", kind, name, b[m], c[m])
						}
					}
				}
			}
		}
	}
}

func TestEveryKindIsTheSameOnline(t *testing.T) {
	table := withPerplexity(crowd(3, 200, 1))
	for q := range table.Queries {
		table.Prompts = append(table.Prompts, "how many "+table.Groups[q])
		for m := range table.Models {
			table.OutputTokens[q][m] = math.Round(table.OutputTokens[q][m])
		}
	}
	for _, kind := range []string{estimate.KindMean, estimate.KindLinear, estimate.KindLogistic, estimate.KindLatent} {
		e := fitted(t, table, estimate.Options{Quality: kind})
		for q := range 30 {
			want, _ := believe(t, e, table, q, 2, 0)
			var attempts []sdk.Attempt
			for _, m := range []int{2, 0} {
				attempts = append(attempts, sdk.Attempt{Answer: sdk.Answer{
					Model: table.Models[m], Text: table.Answers[q][m], CostUSD: table.CostUSD[q][m],
					Usage:   sdk.Usage{OutputTokens: int(table.OutputTokens[q][m])},
					Signals: map[string]float64{"mean_log_prob": table.Signals["mean_log_prob"][q][m]},
				}})
			}
			prompt := table.Prompts[q]
			query := &sdk.Query{Group: table.Groups[q], InputTokens: (len(prompt) + 3) / 4, Messages: []sdk.Message{{Role: sdk.RoleUser, Parts: []sdk.Part{{Kind: sdk.PartText, Text: prompt}}}}}
			got, err := e.QualityEstimator().EstimateQuality(context.Background(), &sdk.QualityRequest{Query: query, Models: table.Models, Attempts: attempts})
			if err != nil {
				t.Fatal(err)
			}
			for m, w := range want {
				if g := got.Estimates[m]; math.Abs(g.Mean-w.Mean) > 1e-9 || math.Abs(g.StdDev-w.StdDev) > 1e-9 {
					t.Fatalf("%s, query %d: online %v, replay %v", kind, q, g, w)
				}
			}
		}
	}
}

// Lengths and signals of answers are fitted from ten answers on, and signals from ten right and ten
// wrong ones.
func TestTheLeastThatIsFitted(t *testing.T) {
	for _, c := range []struct {
		queries, wrong    int
		lengths, evidence bool
	}{{9, 4, false, false}, {10, 4, true, false}, {20, 9, true, false}, {20, 10, true, true}, {20, 11, true, false}} {
		table := crowd(1, c.queries, 1)
		withPerplexity(table)
		for q, row := range table.Quality {
			row[0] = 1
			if q < c.wrong {
				row[0] = 0
			}
		}
		var params struct {
			Lengths  []json.RawMessage
			Evidence json.RawMessage
		}
		fitParams(t, table, estimate.Options{Quality: estimate.KindLatent}, &params, nil)
		if (params.Lengths != nil) != c.lengths || (params.Evidence != nil) != c.evidence {
			t.Errorf("of %d answers, %d of them wrong: lengths %s, evidence %s", c.queries, c.wrong, params.Lengths, params.Evidence)
		}
	}
}

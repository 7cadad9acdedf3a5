package estimate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The factor of a family correlates its answers without changing the estimate of the first.
func TestChancesOfAFamilyHaveTheirMean(t *testing.T) {
	last := 0.0
	for _, shared := range []float64{0, 0.3, 0.6, 0.9} {
		for _, p := range []float64{0.02, 0.3, 0.8, 0.999} {
			mean, both := 0.0, 0.0
			for _, x := range chancesOf(p, shared) {
				mean, both = mean+x/factorPoints, both+x*x/factorPoints
				if x < 0 || x > 1 {
					t.Errorf("a probability of %v", x)
				}
			}
			if math.Abs(mean-p) > 1e-12 {
				t.Errorf("shared %v: a mean of %v, want %v", shared, mean, p)
			}
			if p == 0.3 {
				if tie := (both - p*p) / (p * (1 - p)); tie < last-1e-9 || shared > 0 && tie < shared/2 {
					t.Errorf("shared %v: correlated by %v, %v with less in common", shared, tie, last)
				} else {
					last = tie
				}
			}
		}
	}
}

// Beliefs equal those of a sum over all possible outcomes.
func TestBeliefsOfFurtherAnswersAreExact(t *testing.T) {
	e := &latent{
		Nodes: []float64{-2, -0.5, 1, 2}, Mean: []float64{0.2}, PerLength: make([]perLength, 1),
		Base: []float64{-0.4, -0.4, -0.4, 0.5}, Slope: []float64{1.2, 1.2, 1.2, 0.9}, Shift: [][]float64{{0.1, 0.1, 0.1, 0}},
		Family: []int{0, 0, 0, 3}, Shared: []float64{0.45, 0.45, 0.45, 0}, Verified: true,
	}
	e.prepare()
	verdicts := []float64{0.15, 0.7, math.NaN(), 0.3}
	c := e.Cursor()
	c.Begin(&queryFacts{})
	for i, v := range verdicts {
		r := unknownRun()
		r.Verdict = v
		if !math.IsNaN(v) {
			c.Observe(i, &r)
		}
	}
	got := make([]cascade.Belief, 4)
	c.Beliefs(got)

	all, third := 0.0, 0.0
	for _, z := range e.Nodes {
		weight := math.Exp(-(z - 0.2) * (z - 0.2) / 2)
		p := [4]float64{sigmoid(-0.3 + 1.2*z), 0, 0, sigmoid(0.5 + 0.9*z)}
		for _, chance := range chancesOf(p[0], 0.45) {
			for truth := range 16 {
				joint := weight
				for i, v := range verdicts {
					right := chance
					if i == 3 {
						right = p[3]
					}
					if truth>>i&1 == 0 {
						right, v = 1-right, 1-v
					}
					joint *= right
					if !math.IsNaN(v) {
						joint *= v
					}
				}
				all += joint
				if truth>>2&1 == 1 {
					third += joint
				}
			}
		}
	}
	if want := third / all; math.Abs(got[2].Mean-want) > 1e-12 || !got[2].Bernoulli {
		t.Errorf("the third answer is believed right with %+v, and summing over everything gives %v", got[2], want)
	}
}

// Further samples can precede the first in a table, whose models are in the order of its rows.
func TestFurtherAnswersMayComeFirst(t *testing.T) {
	table, err := asked(100, 1).Select("b#2", "a#2", "c", "a", "b", "c#2")
	if err != nil {
		t.Fatal(err)
	}
	table.Verified = true
	e, err := Fit(table, Options{Quality: KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	l := e.Quality.(*latent)
	if l.Base[0] != l.Base[4] || l.Shared[1] != l.Shared[3] || l.Base[0] == l.Base[1] {
		t.Errorf("levels %v, shares %v", l.Base, l.Shared)
	}
}

// asked returns outcomes of three models with two samples each. In half of the cases a failure
// is repeated, with the same answer.
func asked(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 5))
	t := &outcome.Table{Models: []string{"a", "a#2", "b", "b#2", "c", "c#2"}}
	for q := range n {
		ease := rng.NormFloat64()
		quality, cost, answers := make([]float64, 6), make([]float64, 6), make([]string, 6)
		for m := range 6 {
			cost[m] = 1e-3
			if m%2 == 1 && rng.Float64() < 0.5 {
				quality[m], answers[m] = quality[m-1], answers[m-1]
				continue
			}
			answers[m] = fmt.Sprint("wrong", rng.IntN(8))
			if rng.Float64() < sigmoid(1.5*ease) {
				quality[m], answers[m] = 1, "right"
			}
		}
		t.Queries = append(t.Queries, fmt.Sprint("q", q))
		t.Quality, t.CostUSD, t.Answers = append(t.Quality, quality), append(t.CostUSD, cost), append(t.Answers, answers)
	}
	return t
}

func TestASecondTryIsWorthLessThanAnotherModel(t *testing.T) {
	if testing.Short() {
		t.Skip("fits to many outcomes, which takes a minute under the race detector")
	}
	table := asked(1500, 1)
	table.Verified, table.Answers = true, nil
	e, err := Fit(table, Options{Quality: KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	for i, shared := range e.Quality.(*latent).Shared {
		if shared < 0.5 || shared > 0.85 {
			t.Errorf("%s: share %.2f, want that which makes two answers of the same ease correlated by about 0.5", table.Models[i], shared)
		}
	}
	r, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	b, costs := make([]cascade.Belief, 6), make([]float64, 6)
	for q, row := range table.Quality {
		r.Start(q).Believe([]int{0}, b, costs)
		if again, other := b[1].Mean, b[2].Mean; (row[0] == 0) != (again < other) {
			t.Fatalf("after quality %v: the second answer %.3f, another model's %.3f", row[0], again, other)
		}
		if b[2].Mean != b[3].Mean {
			t.Fatalf("two answers of a model that has not run: %v and %v", b[2].Mean, b[3].Mean)
		}
	}
}

// Two equal answers of one model are weaker evidence than those of two models, and estimates
// are calibrated for both.
func TestAgreementWithOneselfSaysLess(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
	train, test := asked(1500, 1), asked(1500, 2)
	e, err := Fit(train, Options{Quality: KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.On(test)
	if err != nil {
		t.Fatal(err)
	}
	b, costs := make([]cascade.Belief, 6), make([]float64, 6)
	for _, ran := range [][]int{{0, 1}, {0, 2}} {
		believed, right, n := 0.0, 0.0, 0.0
		for q, answers := range test.Answers {
			if answers[ran[0]] != answers[ran[1]] {
				continue
			}
			r.Start(q).Believe(ran, b, costs)
			believed, right, n = believed+b[ran[0]].Mean, right+test.Quality[q][ran[0]], n+1
		}
		if believed /= n; math.Abs(believed-right/n) > 0.05 {
			t.Errorf("answers %v agree: believed right with %.3f, and %.3f are", ran, believed, right/n)
		}
	}
	alone, others := 0.0, 0.0
	for q := range test.Queries {
		row := test.Answers[q]
		if row[0] == row[1] && row[0] == row[2] {
			r.Start(q).Believe([]int{0, 1}, b, costs)
			alone += b[0].Mean
			r.Start(q).Believe([]int{0, 2}, b, costs)
			others += b[0].Mean
		}
	}
	if alone >= others {
		t.Errorf("agreement with itself is believed as much as that of two models: %.1f and %.1f", alone, others)
	}
}

func TestFurtherAnswersAreTheSameOnlineAndReadBack(t *testing.T) {
	for _, verified := range []bool{true, false} {
		table := asked(100, 3)
		table.Verified = verified
		e, err := Fit(table, Options{Quality: KindLatent})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Estimator
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		r, err := e.On(table)
		if err != nil {
			t.Fatal(err)
		}
		b, costs := make([]cascade.Belief, 6), make([]float64, 6)
		ran := []int{1, 2, 0}
		for q := range 15 {
			r.Start(q).Believe(ran, b, costs)
			req := &sdk.QualityRequest{Query: &sdk.Query{}, Models: table.Models}
			for _, m := range ran {
				a := sdk.Attempt{Answer: sdk.Answer{Model: table.Models[m], Text: table.Answers[q][m], CostUSD: table.CostUSD[q][m]}}
				if verified {
					a.Verdict = &sdk.Verdict{Outcome: sdk.Failed}
					if table.Quality[q][m] == 1 {
						a.Verdict.Outcome = sdk.Passed
					}
				}
				req.Attempts = append(req.Attempts, a)
			}
			resp, err := back.QualityEstimator().EstimateQuality(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range resp.Estimates {
				if math.Abs(got.Mean-b[i].Mean) > 1e-9 && (!verified || i >= len(ran)) {
					t.Fatalf("verified %v, query %d, %s: online %v, in replay %v", verified, q, table.Models[i], got.Mean, b[i].Mean)
				}
			}
		}
	}
}

// The failures of a model's efforts are more correlated than those of different models, and efforts have
// their own parameters.
func TestEffortsAreAFamily(t *testing.T) {
	if testing.Short() {
		t.Skip("fits to many outcomes, which takes a minute under the race detector")
	}
	rename := strings.NewReplacer("a#2", "a@high", "b#2", "b@high", "c#2", "c@high")
	table := asked(1000, 1)
	table.Verified, table.Answers = true, nil
	for m, name := range table.Models {
		if table.Models[m] = rename.Replace(name); !strings.Contains(table.Models[m], "@") {
			table.Models[m] += "@low"
		}
	}
	e, err := Fit(table, Options{Quality: KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	b, costs := make([]cascade.Belief, 6), make([]float64, 6)
	for q, row := range table.Quality {
		if row[0] == 1 {
			continue
		}
		r.Start(q).Believe([]int{0}, b, costs)
		if b[1].Mean >= b[2].Mean {
			t.Fatalf("after a failure the other effort is believed right with %.3f, another model with %.3f", b[1].Mean, b[2].Mean)
		}
	}
	if l := e.Quality.(*latent); l.Base[0] == l.Base[1] {
		t.Error("two efforts have one level")
	}
}

// Coefficients without the link function that they were fitted with are rejected.
func TestARegressionWithoutItsLinkIsRefused(t *testing.T) {
	for _, kind := range []string{KindLinear, KindLogistic} {
		e, err := Fit(asked(60, 1), Options{Quality: kind})
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		damaged := strings.Replace(string(data), fmt.Sprintf(`"link":%q,`, kind), "", 1)
		if err := json.Unmarshal([]byte(damaged), &Estimator{}); err == nil || !strings.Contains(err.Error(), `link ""`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestAProfileWithImpossibleFamiliesIsRefused(t *testing.T) {
	e, err := Fit(asked(60, 1), Options{Quality: KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	l := e.Quality.(*latent)
	for _, bad := range []string{`[1,0,2,2,4,4]`, `[0,0,1,2,4,4]`, `[0,0,2,2,4,6]`, `[0,0]`, `[-1,0,2,2,4,4]`} {
		l.Family = nil
		if err := json.Unmarshal([]byte(bad), &l.Family); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &Estimator{}); err == nil {
			t.Errorf("families %s were read", bad)
		}
	}
}

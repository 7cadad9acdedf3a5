package eval

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// judgedTable returns outcomes with the verdicts of a gate, one in ten of them wrong, each at a price.
func judgedTable(n, models int, usd float64) *outcome.Table {
	o := made(n, models, 3)
	rng := rand.New(rand.NewPCG(5, 9))
	t := &outcome.Table{Models: o.Models, Queries: o.Queries, Quality: o.Quality, CostUSD: o.CostUSD}
	verdicts, prices := make([][]float64, n), make([][]float64, n)
	for q, row := range o.Quality {
		for _, v := range row {
			if rng.Float64() < 0.1 {
				v = 1 - v
			}
			verdicts[q], prices[q] = append(verdicts[q], v), append(prices[q], usd)
		}
	}
	t.Verdicts = map[string][][]float64{"gate": verdicts}
	t.Signals = map[string][][]float64{"gate_cost_usd": prices}
	return t
}

// Rows that use verdicts pay for them, and those that decide before any verdict do not.
func TestRowsPayForVerdicts(t *testing.T) {
	isRouter := map[string]bool{cascade.NameRoute: true, routeDependent: true, nameRouteKNN: true, nameRouteGBT: true,
		nameLinearInterpolation: true, nameBestSingle: true, namePickedSingle: true, nameRandom: true, nameOracle: true}
	for _, models := range []int{3, 6} { // with logistic and with latent estimates
		compare := func(usd float64) *Comparison {
			train, test := judgedTable(160, models, usd).Split(0.5, 1)
			h, err := NewHalves(train, test, false)
			if err != nil {
				t.Fatal(err)
			}
			s := Study{Halves: h, Strategies: StrategyNames(), Points: 12, Seed: 1}
			c, err := s.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		free, paid := compare(0), compare(5e-3)
		for _, r := range free.Rows {
			before, after := r.AUC, paid.Row(r.Name).AUC
			switch {
			case isRouter[r.Name] && before != after:
				t.Errorf("%d models: %s decides before any verdict and has %v with free verdicts, %v with paid ones", models, r.Name, before, after)
			case !isRouter[r.Name] && !(after < before):
				t.Errorf("%d models: %s decides by verdicts and has %v with free verdicts, %v with paid ones", models, r.Name, before, after)
			}
		}
	}
}

// A ladder pays for the verdicts that make it continue or stop, and not for the last one.
func TestLadderPaysForUsedVerdicts(t *testing.T) {
	const usd = 5e-4
	for _, kind := range []string{estimate.KindMean, estimate.KindLatent} {
		table := judgedTable(60, 3, usd)
		fitted, err := estimate.Fit(table, estimate.Options{Quality: kind, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		beliefs, err := fitted.On(table)
		if err != nil {
			t.Fatal(err)
		}
		ladder, err := cascade.New(cascade.NameThreshold, cascade.Params{Order: []int{0, 2}, Thresholds: []float64{0.5, always}, MaxDepth: 2, Answer: cascade.Last})
		if err != nil {
			t.Fatal(err)
		}
		p := &Player{Source: beliefs.Source(), Lambdas: []float64{0}, Strategies: []cascade.Strategy{ladder}}
		samples, err := Replay(context.Background(), table, []*Player{p}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		for q, costs := range table.CostUSD {
			want := costs[0] + usd
			if samples[0].Steps[0][q] == 2 {
				want += costs[2]
			}
			if got := samples[0].Cost[0][q]; math.Abs(got-want) > 1e-12 {
				t.Fatalf("%s: query %d cost %v, want %v", kind, q, got, want)
			}
		}
	}
}

// Of two judges the second is not asked, and not paid, about what the first has rejected.
func TestJudgesAfterRejectionAreNotPaid(t *testing.T) {
	const first, second = 1e-4, 7e-4
	table := judgedTable(60, 2, first)
	all := make([][]float64, len(table.Queries))
	prices := make([][]float64, len(table.Queries))
	for q := range all {
		all[q], prices[q] = []float64{1, 1}, []float64{second, second}
	}
	table.Verdicts["later"], table.Signals["later_cost_usd"] = all, prices
	fitted, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindMean, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	beliefs, err := fitted.On(table)
	if err != nil {
		t.Fatal(err)
	}
	for q, verdicts := range table.Verdicts["gate"] {
		met := newAnswers(beliefs.Source().Start(q), 2)
		met.run(0)
		want := first
		if verdicts[0] == 1 {
			want += second
		}
		if got := met.judge(0); math.Abs(got-want) > 1e-12 {
			t.Fatalf("query %d: verdicts cost %v, want %v", q, got, want)
		}
	}
}

// A check whose verdicts are final is paid like a fallible judge.
func TestCheckIsPaid(t *testing.T) {
	run := func(usd float64) *Comparison {
		table := judgedTable(120, 3, usd)
		table.VerdictsUSD, table.Verdicts, table.Signals, table.Verified = table.Signals["gate_cost_usd"], nil, nil, true
		train, test := table.Split(0.5, 1)
		h, err := NewHalves(train, test, false)
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&Study{Halves: h, Strategies: []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameIndex}, Points: 10, Seed: 1}).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	free, paid := run(0), run(2e-3)
	if free.Row(cascade.NameRoute).AUC != paid.Row(cascade.NameRoute).AUC {
		t.Error("a router pays for verdicts")
	}
	for _, name := range []string{cascade.NameThreshold, cascade.NameIndex} {
		if !(paid.Row(name).AUC < free.Row(name).AUC) {
			t.Errorf("%s does not pay for verdicts", name)
		}
	}
}

// Signals that are bought keep their price where predicted costs are simulated.
func TestNoiseOnCostsBesideBoughtSignals(t *testing.T) {
	table := made(200, 3, 4)
	score, prices := zeros(200, 3), zeros(200, 3)
	rng := rand.New(rand.NewPCG(4, 4))
	for q, row := range table.Quality {
		for m, v := range row {
			score[q][m], prices[q][m] = v+0.5*rng.NormFloat64(), 1e-6
		}
	}
	table.Signals = map[string][][]float64{"score": score, "score_cost_usd": prices}
	train, test := table.Split(0.5, 1)
	h, err := NewHalves(train, test, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &Study{Halves: h, Noise: &estimate.Noise{Ante: 0.6, Post: 0.3, CostAnte: 1e-4}, Strategies: []string{cascade.NameIndex}, Points: 8}
	if _, err := s.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

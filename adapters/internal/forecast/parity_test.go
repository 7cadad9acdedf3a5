package forecast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/policies"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
	"github.com/stepfall/stepfall/sdk/replay"
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

// withSignals adds everything else that a table can hold: answers as models write them, prompts, lengths, tool
// errors, signals before and after a run, class probabilities; some of it unknown, and a free model.
func withSignals(t *outcome.Table) *outcome.Table {
	rng := rand.New(rand.NewPCG(3, 4))
	t.Verified = false
	matrix := func(value func(q, m int) float64) [][]float64 {
		rows := make([][]float64, len(t.Queries))
		for q := range rows {
			rows[q] = make([]float64, len(t.Models))
			for m := range rows[q] {
				rows[q][m] = value(q, m)
			}
		}
		return rows
	}
	near := func(noise float64) func(q, m int) float64 {
		return func(q, m int) float64 {
			if rng.Float64() < 0.1 {
				return math.NaN()
			}
			return t.Quality[q][m] + noise*rng.NormFloat64()
		}
	}
	t.Ante, t.Post = matrix(near(0.8)), matrix(near(0.4))
	t.Signals = map[string][][]float64{"mean_log_prob": matrix(near(0.5)), "agreement": matrix(near(0.5))}
	t.InputTokens = matrix(func(q, _ int) float64 { return float64(20 + 13*q%97 + rng.IntN(3)) })
	t.ToolTroubles = matrix(func(q, _ int) float64 { return float64(q * q % 5) })
	t.OutputTokens = matrix(func(q, m int) float64 {
		if rng.Float64() < 0.05 {
			return math.NaN()
		}
		return 40 + 100*rng.Float64() - 20*t.Quality[q][m]
	})
	for q := range t.Queries {
		t.Prompts = append(t.Prompts, fmt.Sprintf("What is %d and %s?", q%17, []string{"why", "how come"}[q%2]))
		answers := make([]string, len(t.Models))
		for m := range t.Models {
			switch {
			case rng.Float64() < 0.1: // none
			case t.Quality[q][m] == 1:
				answers[m] = []string{"The Answer: 42.", `so it is \boxed{42}`, "42", `{"answer": 42}`}[rng.IntN(4)]
			default:
				answers[m] = fmt.Sprint(43 + rng.IntN(3))
			}
		}
		t.Answers = append(t.Answers, answers)
		t.CostUSD[q][0] = 0
	}
	return t
}

// priced adds two judges whose scores have a price, and removes free signals with the same information.
func priced(t *outcome.Table) *outcome.Table {
	rng := rand.New(rand.NewPCG(7, 8))
	t.Post = nil
	for k, name := range []string{"judge", "second_judge"} {
		score, usd := make([][]float64, len(t.Queries)), make([][]float64, len(t.Queries))
		for q, row := range t.Quality {
			for m, v := range row {
				score[q] = append(score[q], 1/(1+math.Exp(1-2*v+0.8*rng.NormFloat64())))
				usd[q] = append(usd[q], 1e-5*float64(1+k)*(1+float64(m)*rng.Float64()))
			}
		}
		t.Signals[name], t.Signals[name+sdk.SignalCostUSD] = score, usd
	}
	return t
}

// mistaken adds the verdicts of a judge that is wrong in a fifth of all cases, and inconclusive in a tenth.
func mistaken(t *outcome.Table, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(9, seed))
	verdicts := make([][]float64, len(t.Queries))
	for q, row := range t.Quality {
		for _, v := range row {
			switch x := rng.Float64(); {
			case x < 0.2:
				v = 1 - v
			case x < 0.3:
				v = math.NaN()
			}
			verdicts[q] = append(verdicts[q], v)
		}
	}
	t.Verified, t.Verdicts = false, map[string][][]float64{"gate": verdicts}
	return t
}

// graded converts verdicts to degrees of certainty.
func graded(t *outcome.Table) *outcome.Table {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, row := range t.Quality {
		for m, v := range row {
			row[m] = math.Abs(v - 0.4*rng.Float64())
		}
	}
	return t
}

// The step engine as assembled for production, and the offline walk over a table, make the same decisions: for every
// query, estimator, strategy and lambda, whatever the table holds.
func TestOnlineAndOfflineDecideAlike(t *testing.T) {
	judged := []string{estimate.KindMean, estimate.KindLatent}
	t.Run("verdicts", func(t *testing.T) { decideAlike(t, made(90, 5), judged, estimate.KindCostLatent) })
	t.Run("verdicts that err", func(t *testing.T) {
		table := mistaken(made(90, 5), 1)
		decideAlike(t, table, judged, estimate.KindCostLatent)
		prices := make([][]float64, len(table.Queries))
		for q := range prices {
			for m := range table.Models {
				prices[q] = append(prices[q], 1e-4*float64(1+m+q%3))
			}
		}
		table.Signals = map[string][][]float64{"gate" + sdk.SignalCostUSD: prices}
		decideAlike(t, table, []string{estimate.KindLatent}, estimate.KindCostLatent)
		table.Signals = nil
		table.Verdicts["second"] = mistaken(made(90, 5), 2).Verdicts["gate"]
		decideAlike(t, table, judged, estimate.KindCostLatent)
	})
	if testing.Short() {
		return // computing: a forecast starts no goroutine
	}
	t.Run("grades", func(t *testing.T) { decideAlike(t, graded(made(90, 5)), judged, estimate.KindCostLatent) })
	t.Run("swebench", func(t *testing.T) { decideAlike(t, outcometest.Swebench(t), judged, estimate.KindCostLatent) })
	for _, cost := range []string{estimate.KindCostMean, estimate.KindCostLatent} {
		t.Run("cost "+cost, func(t *testing.T) {
			decideAlike(t, withSignals(made(60, 4)), []string{estimate.KindLatent}, cost)
		})
	}
	for _, kind := range estimate.Kinds() {
		t.Run("signals "+kind, func(t *testing.T) {
			decideAlike(t, withSignals(made(90, 4)), []string{kind}, estimate.KindCostLatent)
		})
		if kind == estimate.KindSignal {
			continue // it reads no verdicts
		}
		t.Run("signals and verdicts "+kind, func(t *testing.T) {
			table := withSignals(made(90, 4))
			table.Verified = true
			decideAlike(t, table, []string{kind}, estimate.KindCostLatent)
		})
	}
	t.Run("a judge whose score is bought", func(t *testing.T) {
		decideAlike(t, priced(withSignals(made(120, 4))), []string{estimate.KindLatent}, estimate.KindCostLatent)
	})
	t.Run("a judge whose verdicts are bought", func(t *testing.T) {
		table := priced(withSignals(made(120, 4)))
		for _, row := range table.Signals["judge"] {
			for m, v := range row {
				row[m] = math.Round(v)
			}
		}
		decideAlike(t, table, []string{estimate.KindLatent}, estimate.KindCostLatent)
		// Of some answers the judge can say nothing.
		for q, row := range table.Signals["judge"] {
			row[q%4] = math.NaN()
		}
		decideAlike(t, table, []string{estimate.KindLatent}, estimate.KindCostLatent)
		// Of an answer nothing else is seen than its verdicts.
		table.InputTokens, table.OutputTokens, table.Answers, table.Ante = nil, nil, nil, nil
		delete(table.Signals, "mean_log_prob")
		delete(table.Signals, "agreement")
		decideAlike(t, table, []string{estimate.KindLatent}, estimate.KindCostLatent)
	})
	t.Run("a judge whose verdicts are bought where another has passed or rejected", func(t *testing.T) {
		table := mistaken(priced(withSignals(made(120, 4))), 1)
		for _, row := range table.Signals["judge"] {
			for m, v := range row {
				row[m] = math.Round(v)
			}
		}
		decideAlike(t, table, []string{estimate.KindLatent}, estimate.KindCostLatent)
	})
	t.Run("wordless", func(t *testing.T) {
		table := withSignals(made(90, 4))
		table.InputTokens, table.OutputTokens, table.Signals = nil, nil, nil
		decideAlike(t, table, []string{estimate.KindLatent, estimate.KindLogistic}, estimate.KindCostMean)
	})
	t.Run("zeroeval", func(t *testing.T) {
		table := outcometest.Zeroeval(t, "5")
		decideAlike(t, table.Rows(spread(len(table.Queries), 300)), []string{estimate.KindLatent, estimate.KindLogistic}, estimate.KindCostLatent)
	})
}

// spread returns k of n rows, evenly spaced.
func spread(n, k int) []int {
	rows := make([]int, k)
	for i := range rows {
		rows[i] = i * n / k
	}
	return rows
}

func decideAlike(t *testing.T, table *outcome.Table, kinds []string, cost string) {
	t.Helper()
	train, test := table.Split(0.5, 1)
	for _, kind := range kinds {
		e, err := estimate.Fit(train, estimate.Options{Quality: kind, Cost: cost})
		if err != nil {
			t.Fatal(err)
		}
		several := 0
		for _, name := range []string{cascade.NameRoute, cascade.NameThreshold, cascade.NameCascade, cascade.NameCascadeRoute, cascade.NameIndex} {
			for _, lambda := range []float64{20, 2, 0.2} {
				several += stepsAlike(t, e, test, name, lambda)
			}
		}
		// Where the first answer tells enough, few steps run several models.
		if several < len(test.Queries)/2 {
			t.Errorf("%s: only %d steps ran several models: the comparison says little", kind, several)
		}
	}
}

// stepsAlike compares the steps of one strategy, and returns how many ran several models.
func stepsAlike(t *testing.T, e *estimate.Estimator, test *outcome.Table, name string, lambda float64) (several int) {
	t.Helper()
	on, err := e.On(test)
	if err != nil {
		t.Fatal(err)
	}
	p := &policies.Policy{Strategy: policies.Strategy{Kind: name, Lambda: []float64{lambda}, Threshold: []float64{0.5}, Gamma: 1}}
	if test.Verified {
		p.Verifiers = []policies.Verifier{{Name: "recorded", Plugin: "recorded"}}
	}
	for _, judge := range test.Judges() {
		p.Verifiers = append(p.Verifiers, policies.Verifier{Name: judge, Plugin: "recorded"})
	}
	if test.Signals["judge"] != nil {
		p.Verifiers = append(p.Verifiers, policies.Verifier{Name: "judge", Plugin: "recorded", As: "bought"}, policies.Verifier{Name: "second_judge", Plugin: "recorded", As: "bought"})
	}
	for i, model := range test.Models {
		// Prices that nothing cost must not be seen anywhere.
		p.Models = append(p.Models, policies.Model{Name: model, Provider: "go", ExpectedOutputTokens: 500, Price: policies.Price{Input: 7, Output: float64(90 - i)}})
	}
	f, err := forecast.New(t.Context(), p, &forecast.Table{Outcomes: test}, forecast.Options{Keep: true, Estimator: e})
	if err != nil {
		t.Fatal(err)
	}
	s, err := cascade.New(name, cascade.Params{Lambdas: []float64{lambda}, Thresholds: []float64{0.5}, Gamma: 1})
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	for q, trace := range f.Traces {
		var online, offline, onlineLooks, offlineLooks []string
		for _, c := range trace.Calls {
			online = append(online, c.Model)
		}
		step := replay.NewWalker(on.Start(q), test.Quality[q], test.CostUSD[q]).Walk(s, 0, nil)
		cost, quality := step.CostUSD, step.Quality
		for _, mark := range step.Seen {
			if mark >= len(test.Models) && name == cascade.NameIndex { // others have every verdict
				offlineLooks = append(offlineLooks, test.Models[mark%len(test.Models)])
			}
			if mark >= len(test.Models) {
				continue
			}
			offline = append(offline, test.Models[mark])
		}
		for _, d := range trace.Decisions {
			if d.Look != "" {
				onlineLooks = append(onlineLooks, d.Look)
			}
		}
		if fmt.Sprint(onlineLooks) != fmt.Sprint(offlineLooks) {
			t.Fatalf("%s at %v, query %s: looks online at %v, offline at %v", name, lambda, test.Queries[q], onlineLooks, offlineLooks)
		}
		looks += len(onlineLooks)
		if fmt.Sprint(online) != fmt.Sprint(offline) || math.Abs(trace.CostUSD-cost) > 1e-12 || test.Quality[q][test.Index(trace.Chosen)] != quality {
			t.Fatalf("%s on %s at %v, query %s: online %v for %v, answer of %s; offline %v for %v, quality %v",
				name, e.Quality.Kind(), lambda, test.Queries[q], online, trace.CostUSD, trace.Chosen, offline, cost, quality)
		}
		if len(online) > 1 {
			several++
		}
	}
	if name == cascade.NameIndex && (test.Signals["judge"] != nil || test.Signals["gate"+sdk.SignalCostUSD] != nil) && looks == 0 {
		t.Errorf("at %v no look was bought: the comparison says little", lambda)
	}
	return several
}

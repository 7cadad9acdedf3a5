package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// The error rates of a judge are learned from verdicts with known truths, and estimates after
// a verdict are calibrated.
func TestErrorRatesAreLearned(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	var text strings.Builder
	text.WriteString("query_id,model,quality,cost_usd,verdict_gate\n")
	for q := range 1500 {
		ease := rng.NormFloat64()
		for m, level := range []float64{-0.5, 0.8} {
			right := rng.Float64() < 1/(1+math.Exp(-level-ease))
			pass := right != (rng.Float64() < 0.1)
			fmt.Fprintf(&text, "q%d,m%d,%v,0.00%d,%v\n", q, m, right, m+1, pass)
		}
	}
	table, err := outcome.Read(strings.NewReader(text.String()), "made.csv", outcome.Options{Verified: true})
	if err != nil {
		t.Fatal(err)
	}
	if table.Verified || len(table.Signals) > 0 || !table.Judged() {
		t.Fatalf("verified %v, signals %v: the quality is the truth, and the verdicts no signal", table.Verified, table.SignalNames())
	}
	var again strings.Builder
	if err := table.WriteCSV(&again); err != nil {
		t.Fatal(err)
	}
	if read, err := outcome.Read(strings.NewReader(again.String()), "again.csv", outcome.Options{}); err != nil || read.Hash() != table.Hash() {
		t.Errorf("the table is not read as it was written: %v", err)
	}
	for _, kind := range []string{estimate.KindLatent, estimate.KindMean} {
		e, err := estimate.Fit(table, estimate.Options{Quality: kind})
		if err != nil {
			t.Fatal(err)
		}
		rates := e.Judges["gate"]
		if math.Abs(rates.FalsePass-0.1) > 0.02 || math.Abs(rates.FalseReject-0.1) > 0.02 {
			t.Errorf("learned %+v of a judge that is wrong in a tenth of all cases", rates)
		}
		replay, err := e.On(table)
		if err != nil {
			t.Fatal(err)
		}
		beliefs, costs := make([]cascade.Belief, 2), make([]float64, 2)
		believed, right := 0.0, 0.0
		for q := range table.Queries {
			replay.Start(q).Believe([]int{0}, beliefs, costs)
			if !beliefs[1].Bernoulli || beliefs[1].Judge != rates {
				t.Fatalf("the other model: %+v", beliefs[1])
			}
			if table.Verdicts["gate"][q][0] == 1 {
				believed, right = believed+beliefs[0].Mean, right+table.Quality[q][0]
			}
		}
		if math.Abs(believed/right-1) > 0.05 {
			t.Errorf("%s: of answers that passed %v are believed to be right, and %v are", kind, believed, right)
		}
	}
	known := map[string]cascade.Rates{"gate": {FalsePass: 0.3}}
	if e, err := estimate.Fit(table, estimate.Options{Judges: known}); err != nil || e.Judges["gate"] != known["gate"] {
		t.Errorf("rates that are known do not stand: %v", err)
	}
}

// A judge that misreads queries, and then errs on all answers to them, is detected: each
// rejection of a usually right answer makes a misread more probable, and its verdicts on
// further answers count for less. A judge with independent errors is not affected. Live
// estimates equal those of the replay.
func TestMisreadQueriesAreRecognized(t *testing.T) {
	for _, shared := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(7, 3))
		table := &outcome.Table{Models: []string{"m0", "m1", "m2"}, Verdicts: map[string][][]float64{"gate": nil}}
		for q := range 400 {
			misread := shared && rng.Float64() < 0.1
			quality, cost, verdicts := make([]float64, 3), []float64{0.001, 0.002, 0.003}, make([]float64, 3)
			for m := range quality {
				if rng.Float64() < 0.8 {
					quality[m] = 1
				}
				verdicts[m] = quality[m]
				if misread || !shared && rng.Float64() < 0.1 {
					verdicts[m] = 1 - quality[m]
				}
			}
			if q == 0 {
				verdicts = []float64{0, 0, 0}
			}
			table.Queries = append(table.Queries, fmt.Sprint("q", q))
			table.Quality, table.CostUSD = append(table.Quality, quality), append(table.CostUSD, cost)
			table.Verdicts["gate"] = append(table.Verdicts["gate"], verdicts)
		}
		e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
		if err != nil {
			t.Fatal(err)
		}
		replay, err := e.On(table)
		if err != nil {
			t.Fatal(err)
		}
		usual := e.Judges["gate"]
		says := func(r cascade.Rates) float64 { return 1 - r.FalsePass - r.FalseReject }
		beliefs, costs := make([]cascade.Belief, 3), make([]float64, 3)
		replay.Start(0).Believe([]int{0, 1}, beliefs, costs)
		if shared && !(says(beliefs[2].Judge) < says(usual)/2 && beliefs[2].Mean > 0.7) {
			t.Errorf("after two answers that are usually right were rejected, of a third %+v is believed", beliefs[2])
		}
		if !shared && beliefs[2].Judge != usual {
			t.Errorf("errors are independent, and rates after two verdicts are %+v where %+v is usual", beliefs[2].Judge, usual)
		}
		data, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var read estimate.Estimator
		if err := read.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		right, wrong := usual.Likelihoods(false)
		var attempts []sdk.Attempt
		for _, m := range table.Models[:2] {
			attempts = append(attempts, sdk.Attempt{Answer: sdk.Answer{Model: m}, Verdict: &sdk.Verdict{Outcome: sdk.Failed, IfRight: right, IfWrong: wrong}})
		}
		resp, err := read.QualityEstimator().EstimateQuality(t.Context(), &sdk.QualityRequest{Query: &sdk.Query{}, Models: table.Models, Attempts: attempts})
		if err != nil {
			t.Fatal(err)
		}
		for m, b := range beliefs {
			if math.Abs(resp.Estimates[m].Mean-b.Mean) > 1e-12 {
				t.Errorf("live %v is believed of %s, in the fit %v", resp.Estimates[m].Mean, table.Models[m], b.Mean)
			}
		}
		if shared && (resp.Judge == nil || resp.Judge.Usual != usual || resp.Judge.Next[2] != beliefs[2].Judge) {
			t.Errorf("live the judge errs at %+v, in the fit at %+v", resp.Judge, beliefs[2].Judge)
		}
	}
}

// Shared is the ratio of the changes that a verdict on a further answer makes to both
// estimates. Live estimates equal those of the replay, and with a judge that is always right
// nothing is shared.
func TestAVerdictTellsOfTheAnswerAtHandToo(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	table := &outcome.Table{Models: []string{"m0", "m1", "m2"}, Verdicts: map[string][][]float64{"gate": nil}}
	for q := range 400 {
		ease := 2 * rng.NormFloat64()
		quality, verdicts := make([]float64, 3), make([]float64, 3)
		for m := range quality {
			if rng.Float64() < 1/(1+math.Exp(-ease)) {
				quality[m] = 1
			}
			verdicts[m] = quality[m]
			if rng.Float64() < 0.1 {
				verdicts[m] = 1 - quality[m]
			}
		}
		if q == 0 {
			verdicts = []float64{0, 1, 1}
		}
		table.Queries = append(table.Queries, fmt.Sprint("q", q))
		table.Quality, table.CostUSD = append(table.Quality, quality), append(table.CostUSD, []float64{0.001, 0.002, 0.003})
		table.Verdicts["gate"] = append(table.Verdicts["gate"], verdicts)
	}
	e, err := estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := believe(t, e, table, 0, 0)
	after, _ := believe(t, e, table, 0, 0, 1)
	want := (after[0].Mean - before[0].Mean) / (after[1].Mean - before[1].Mean)
	if got := before[1].Shared; !(got > 0.05) || math.Abs(got-want) > 1e-9 {
		t.Errorf("%v is shared; a pass of m1 moves m0 by %v times what it moves m1", got, want)
	}
	right, wrong := e.Judges["gate"].Likelihoods(false)
	resp, err := e.QualityEstimator().EstimateQuality(t.Context(), &sdk.QualityRequest{
		Query: &sdk.Query{}, Models: table.Models,
		Attempts: []sdk.Attempt{{Answer: sdk.Answer{Model: "m0"}, Verdict: &sdk.Verdict{Outcome: sdk.Failed, IfRight: right, IfWrong: wrong}}},
	})
	if err != nil || len(resp.Shared) != 3 || resp.Shared[1] != before[1].Shared || resp.Shared[0] != 0 {
		t.Errorf("%v: live %v is shared, in the fit %v", err, resp.Shared, before[1].Shared)
	}
	// A verdict on the first answer moves m1 by the covariance of both over the variance of m0 times what it moves m0.
	price := make([][]float64, len(table.Queries))
	for q := range price {
		price[q] = []float64{0.01, 0.01, 0.01}
	}
	table.Signals = map[string][][]float64{"gate" + sdk.SignalCostUSD: price}
	if e, err = estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent}); err != nil {
		t.Fatal(err)
	}
	replayed, err := e.On(table)
	if err != nil {
		t.Fatal(err)
	}
	cursor := replayed.Start(0)
	cursor.Sell()
	var unasked, failed [3]cascade.Belief
	cursor.Believe([]int{0}, unasked[:], make([]float64, 3))
	cursor.Believe([]int{0, 3}, failed[:], make([]float64, 3))
	variance := func(p float64) float64 { return p * (1 - p) }
	want = unasked[1].Shared * variance(unasked[1].Mean) / variance(unasked[0].Mean)
	if got := (failed[1].Mean - unasked[1].Mean) / (failed[0].Mean - unasked[0].Mean); !(want > 0.05) || math.Abs(got-want) > 1e-9 {
		t.Errorf("a fail moves m1 by %v times what it moves m0, want %v", got, want)
	}
	table.Signals, table.Verdicts, table.Verified = nil, nil, true
	if e, err = estimate.Fit(table, estimate.Options{Quality: estimate.KindLatent}); err != nil {
		t.Fatal(err)
	}
	for q := range table.Queries[:20] {
		if beliefs, _ := believe(t, e, table, q, 0); beliefs[1].Shared != 0 {
			t.Errorf("a judge that is always right: %v is shared", beliefs[1].Shared)
		}
	}
}

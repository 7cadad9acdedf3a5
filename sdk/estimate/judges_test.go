package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Verdict columns beside the truth teach how often the judge errs, and what is believed
// after a verdict is as often true as it is believed.
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

package paper

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/eval"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// verifierRows are the rows that trust a verifier, beside what needs none.
var verifierRows = []string{eval.LinearInterpolation, eval.BestSingle, cascade.NameRoute, cascade.NameThreshold, cascade.NameIndex}

// errorRates are the false-pass and false-reject rates that are tried.
func errorRates() []float64 { return []float64{0, 0.02, 0.05, 0.1, 0.2, 0.3} }

// callsSignal is the signal that stands in for latency.
const callsSignal = "api_calls"

func verifiersPieces(e *Env) int {
	n := len(errorRates()) * len(errorRates())
	if e.verifiedData().Table.Signals[callsSignal] != nil {
		n++
	}
	return n
}

func verifiers(ctx context.Context, e *Env) (*Page, error) {
	p := newPage("verifiers", "Imperfect verifiers, and calls in place of money")
	d, share := e.verifiedData(), e.share(0.5)
	p.printf("Data: %s. Mean of %d random splits, train share %.0f %%.\n", d, min(2, e.splits()), 100*share)
	p.section("At what error rate does a cascade stop paying?")
	p.printf("The recorded verdicts are flipped at random: a wrong patch passes with the false-pass rate, a right one fails with the false-reject rate. " +
		"Strategies learn from flipped verdicts, take them at their word, and are measured by the true ones.\n\n")
	grid := &eval.HeatMap{
		Name: "verifiers", Title: "index minus linear interpolation", X: "false-pass rate", Y: "false-reject rate",
		Scale: "AUC points", FractionalDigits: 1,
	}
	gain := &eval.Table{Header: []string{"index minus linear interpolation, AUC points"}}
	for _, rate := range errorRates() {
		grid.XTicks, grid.YTicks = append(grid.XTicks, percent(rate)), append(grid.YTicks, percent(rate))
		gain.Header = append(gain.Header, "false pass "+percent(rate))
	}
	quick := *e
	quick.Bootstrap = 0
	for _, reject := range errorRates() {
		var values []float64
		line := []string{"false reject " + percent(reject)}
		for _, pass := range errorRates() {
			e.startingf("verifiers: false pass %v, false reject %v", pass, reject)
			c, err := quick.run(ctx, d.Table, share, min(2, e.splits()), func(s *eval.Study) {
				s.Signals, s.Strategies, s.Points = eval.SignalsVerdict, verifierRows, 20
				s.Verdicts = &eval.Verdicts{
					Train: flipped(s.Halves.Train, pass, reject, s.Seed*2+1), Test: flipped(s.Halves.Test, pass, reject, s.Seed*2+2),
				}
			})
			if err != nil {
				return nil, err
			}
			v := 100 * (c.auc(cascade.NameIndex) - c.auc(eval.LinearInterpolation))
			values, line = append(values, v), append(line, fmt.Sprintf("%+.1f", v))
		}
		grid.Values, gain.Cells = append(grid.Values, values), append(gain.Cells, line)
	}
	p.table(gain)
	p.figure(grid.Figure(), "Gain of the index strategy over linear interpolation by error rates of the verifier")
	return p, e.calls(ctx, p, d, share)
}

// calls repeats the comparison with API calls as the cost: the recorded runs say
// how many turns each took, which is what their latency consists of.
func (e *Env) calls(ctx context.Context, p *Page, d *Data, share float64) error {
	p.section("API calls in place of money")
	counts := d.Table.Signals[callsSignal]
	if counts == nil {
		p.printf("The table has no column %s.\n", callsSignal)
		return nil
	}
	p.printf("The recorded runs have no times. Their turns follow one another, so the number of API calls stands in for latency: " +
		"the same strategies with calls as the cost to save.\n\n")
	timed := *d.Table
	timed.CostUSD, timed.Signals = counts, nil
	e.startingf("verifiers: API calls as cost")
	c, err := e.run(ctx, timed.Complete(), share, min(2, e.splits()), func(s *eval.Study) {
		s.Signals, s.Strategies, s.CostUnit = eval.SignalsVerdict, rows, "API calls"
	})
	if err != nil {
		return err
	}
	p.table(aucTable("AUC %", []string{"calls as cost"}, []*cell{c}))
	f, err := c.comparisons[0].CurvesFigure("swebench-calls", "API calls standing in for latency as the cost, first split")
	if err != nil {
		return err
	}
	p.figure(f, "Resolved issues by mean number of API calls")
	return nil
}

func percent(rate float64) string { return fmt.Sprintf("%.0f %%", 100*rate) }

// flipped returns the table as a verifier with these error rates would see it.
func flipped(t *outcome.Table, falsePass, falseReject float64, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 0xf11b))
	seen := *t
	seen.Quality = make([][]float64, len(t.Quality))
	for q, row := range t.Quality {
		seen.Quality[q] = make([]float64, len(row))
		for m, v := range row {
			rate := falsePass
			if v > 0.5 {
				rate = falseReject
			}
			seen.Quality[q][m] = v
			if rng.Float64() < rate {
				seen.Quality[q][m] = 1 - v
			}
		}
	}
	return &seen
}

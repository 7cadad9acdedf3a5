package fit

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

// errRates are those of judges that measurements draw.
var errRates = []cascade.Rates{{FalsePass: 0.02, FalseReject: 0.02}, {FalsePass: 0.1, FalseReject: 0.1}, {FalsePass: 0.05, FalseReject: 0.2}, {FalsePass: 0.3, FalseReject: 0.15}}

// TestMeasureVerdictsAlone prints what index fitted to verdicts without truth comes to on test halves: the
// rates that are learned, the mean AUC over the mix of single models, and by how much the quality that a
// fit to a budget expects is off, with the usual rates, learned ones, true ones, and the truth beside.
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureVerdictsAlone -args -judges 10
func TestMeasureVerdictsAlone(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	for _, name := range []string{"zeroeval 3", "zeroeval 11", "swebench"} {
		for _, r := range errRates {
			gains, offs, learned := map[string][]float64{}, map[string][]float64{}, [2][]float64{}
			for half := range uint64(*judges.halves) {
				seed := half + uint64(*judges.first)
				table := tableWithVerdicts(t, name, r, seed)
				train, test := table.Split(*judges.share, seed)
				costs := test.MeanCosts()
				budget, linear := math.Sqrt(slices.Min(costs)*slices.Max(costs)), linearArea(test)
				for row, rates := range map[string]*cascade.Rates{"usual": {FalsePass: cascade.PriorFalsePass, FalseReject: cascade.PriorFalseReject}, "learned": nil, "true": &r, "truth": nil} {
					o := Options{BudgetUSD: budget, Seed: seed, VerdictsErr: true, Estimate: estimate.Options{Seed: seed, JudgeOrder: []string{"judge"}}}
					if rates != nil {
						o.Estimate.Judges = map[string]cascade.Rates{"judge": *rates}
					}
					from := verdictsOf(train)
					if row == "truth" {
						from = train
					}
					p, err := Fit(t.Context(), from, o)
					if err != nil {
						t.Fatal(err)
					}
					if rates != nil {
						p.Estimator.Judges = o.Estimate.Judges
					} else if row == "learned" {
						learned[0] = append(learned[0], p.Estimator.Judges["judge"].FalsePass)
						learned[1] = append(learned[1], p.Estimator.Judges["judge"].FalseReject)
					}
					gains[row] = append(gains[row], area(test, curvePoints(t, p, test, startValues(cascade.NameIndex, train, 40)))-linear)
					offs[row] = append(offs[row], math.Abs(p.Expected.Quality-playOn(t, p, test).Quality))
				}
			}
			fmt.Printf("%s, %.2f %.2f: learned %.3f ± %.3f, %.3f ± %.3f", name, r.FalsePass, r.FalseReject, average(learned[0]), deviation(learned[0]), average(learned[1]), deviation(learned[1]))
			for _, row := range slices.Sorted(maps.Keys(gains)) {
				fmt.Printf("; %s %+.2f, off by %.1f", row, 100*average(gains[row]), 100*average(offs[row]))
			}
			fmt.Println()
		}
	}
}

// deviation is the standard deviation of values.
func deviation(values []float64) float64 {
	sum, mean := 0.0, average(values)
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(values)))
}

// tableWithVerdicts returns outcomes beside the verdicts of a judge that errs at given rates.
func tableWithVerdicts(t *testing.T, name string, r cascade.Rates, seed uint64) *outcome.Table {
	t.Helper()
	var table *outcome.Table
	if set, ok := strings.CutPrefix(name, "zeroeval "); ok {
		table = outcometest.Zeroeval(t, set)
	} else {
		table = outcometest.Swebench(t)
	}
	table.Verified, table.Signals, table.Answers, table.Prompts = false, nil, nil, nil
	table.Verdicts = map[string][][]float64{"judge": drawVerdictsAt(table, r, seed)}
	return table
}

// TestMeasureVerdictsInTraces prints the same of outcomes as use meets them: the models are asked from the
// cheapest on until one passes, and in a tenth of the queries chance asks one more. With "ends", of three
// queries in ten it came to be known later whether the last answer was right.
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureVerdictsInTraces -args -judges 10
func TestMeasureVerdictsInTraces(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	for _, name := range []string{"zeroeval 3", "zeroeval 5"} {
		for _, r := range errRates {
			learned, offs, quality := map[string][2][]float64{}, map[string][]float64{}, map[string][]float64{}
			for half := range uint64(*judges.halves) {
				seed := half + uint64(*judges.first)
				train, test := tableWithVerdicts(t, name, r, seed).Split(*judges.share, seed)
				costs := test.MeanCosts()
				o := Options{BudgetUSD: math.Sqrt(slices.Min(costs) * slices.Max(costs)), Seed: seed, VerdictsErr: true}
				for row, rates := range map[string]*cascade.Rates{"usual": {FalsePass: cascade.PriorFalsePass, FalseReject: cascade.PriorFalseReject}, "learned": nil, "ends": nil, "true": &r} {
					o.Estimate = estimate.Options{Seed: seed, JudgeOrder: []string{"judge"}}
					if rates != nil {
						o.Estimate.Judges = map[string]cascade.Rates{"judge": *rates}
					}
					ends := 0.0
					if row == "ends" {
						ends = 0.3
					}
					p, err := Fit(t.Context(), ladderInUse(train, ends, seed), o)
					if err != nil {
						t.Fatal(err)
					}
					if rates != nil {
						p.Estimator.Judges = o.Estimate.Judges
					}
					own, used := p.Estimator.Judges["judge"], playOn(t, p, test)
					learned[row] = [2][]float64{append(learned[row][0], own.FalsePass), append(learned[row][1], own.FalseReject)}
					offs[row] = append(offs[row], math.Abs(p.Expected.Quality-used.Quality))
					quality[row] = append(quality[row], used.Quality)
				}
			}
			fmt.Printf("%s, %.2f %.2f", name, r.FalsePass, r.FalseReject)
			for _, row := range slices.Sorted(maps.Keys(offs)) {
				fmt.Printf("; %s %.2f %.2f, off by %.1f, quality %.1f", row, average(learned[row][0]), average(learned[row][1]), 100*average(offs[row]), 100*average(quality[row]))
			}
			fmt.Println()
		}
	}
}

// ladderInUse returns what use of a ladder meets of a table: verdicts, and the truth of the last answers to a share
// of the queries.
func ladderInUse(t *outcome.Table, ends float64, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 3))
	order, own := byCost(t.MeanCosts()), *verdictsOf(t)
	own.Quality, own.CostUSD, own.Propensity, own.StepVerdicts = nil, nil, nil, nil
	for q := range t.Queries {
		rows := [4][]float64{}
		for k := range rows {
			rows[k] = slices.Repeat([]float64{math.NaN()}, len(t.Models))
		}
		quality, cost, propensity, said := rows[0], rows[1], rows[2], rows[3]
		ask := func(m int, chance float64) bool {
			quality[m], cost[m], propensity[m] = t.Verdicts["judge"][q][m], t.CostUSD[q][m], chance
			return quality[m] == 1
		}
		last := 0
		for last < len(order)-1 && !ask(order[last], 1) {
			last++
		}
		ask(order[last], 1)
		if left := order[last+1:]; len(left) > 0 && rng.Float64() < 0.1 {
			ask(left[rng.IntN(len(left))], 0.1/float64(len(left)))
		}
		if m := order[last]; rng.Float64() < ends {
			said[m], quality[m] = quality[m], t.Quality[q][m]
		}
		own.Quality, own.CostUSD = append(own.Quality, quality), append(own.CostUSD, cost)
		own.Propensity, own.StepVerdicts = append(own.Propensity, propensity), append(own.StepVerdicts, said)
	}
	return &own
}

// TestMeasureVerdictsOnCalls prints how far the learned rates and the inferred shares of right answers are off for
// drawn sets of models that made the same function calls (Berkeley's board), if equal calls are judged alike and,
// in some of the queries, the end of a run tells whether the last model was right.
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureVerdictsOnCalls -args -judges 24
func TestMeasureVerdictsOnCalls(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	board := callBoard(t)
	rng := rand.New(rand.NewPCG(5, 2))
	for _, n := range []int{2, 3, 4} {
		for _, r := range errRates {
			for _, ends := range []float64{0, 0.2} {
				var rates, shares float64
				for range *judges.halves {
					names := slices.Clone(board.Models)
					rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
					table, err := board.Subset(strings.Join(names[:n], ","))
					if err != nil {
						t.Fatal(err)
					}
					table = table.Complete()
					truth := table.MeanQualities()
					verdicts := callVerdicts(table, r, ends, rng)
					v := fitVerdicts(verdicts, nil)
					inferred := *verdicts
					inferred.Quality, _ = v.posteriors(verdicts)
					for m, right := range inferred.MeanQualities() {
						shares += math.Abs(right-truth[m]) / float64(n)
					}
					rates += math.Abs(v.rates.FalsePass-r.FalsePass) + math.Abs(v.rates.FalseReject-r.FalseReject)
				}
				each := 100 / float64(*judges.halves)
				fmt.Printf("%d models, %.2f %.2f, ends of %.1f: rates off by %.1f together, shares by %.1f points\n", n, r.FalsePass, r.FalseReject, ends, rates*each, shares*each)
			}
		}
	}
}

// callBoard returns the outcomes of Berkeley's board with the calls as answers.
func callBoard(t *testing.T) *outcome.Table {
	t.Helper()
	file, err := os.Open(outcometest.File(t, "bfcl_calls.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	table, err := outcome.Read(strings.NewReader(strings.Replace(string(raw), ",call,", ",answer,", 1)), "calls.csv", outcome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// callVerdicts returns a table with drawn verdicts, the same on equal answers, as qualities. In a share of the queries
// the last model's answer is known to be right or wrong, and so are those that equal it.
func callVerdicts(table *outcome.Table, r cascade.Rates, ends float64, rng *rand.Rand) *outcome.Table {
	own := *table
	own.Verified, own.Quality = true, nil
	for q, truths := range table.Quality {
		row, said := make([]float64, len(truths)), slices.Repeat([]float64{math.NaN()}, len(truths))
		byText := map[string]float64{}
		for m, truth := range truths {
			v, isKnown := byText[table.Answer(q, m)]
			if pass, _ := r.Likelihoods(true); !isKnown {
				if truth < 0.5 {
					_, pass = r.Likelihoods(true)
				}
				if v = 0; rng.Float64() < pass {
					v = 1
				}
				byText[table.Answer(q, m)] = v
			}
			row[m] = v
		}
		if last := len(truths) - 1; rng.Float64() < ends {
			for m := range row {
				if table.Answer(q, m) == table.Answer(q, last) {
					said[m], row[m] = row[m], truths[last]
				}
			}
		}
		own.Quality, own.StepVerdicts = append(own.Quality, row), append(own.StepVerdicts, said)
	}
	return &own
}

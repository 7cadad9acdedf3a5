package fit

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
	"github.com/stepfall/stepfall/sdk/outcome/outcometest"
)

var judges = struct {
	halves, first        *int
	share                *float64
	tables, noises, rows *string
}{
	flag.Int("judges", 0, "number of halves on which to measure judges that err"),
	flag.Int("judgefirst", 0, "seed of the first half"),
	flag.Float64("judgeshare", 0.5, "share of the queries to fit to"),
	flag.String("judgetables", "swebench,mcpmark,openhands_swe.csv,openhands_swt.csv", "tables"),
	flag.String("judgenoises", "none,independent,shared", "errors of the judge"),
	flag.String("judgerows", "index", "strategies"),
}

// TestMeasureJudges prints the mean AUC on test halves, over the mix of single models, of
// strategies fitted to the other halves, where a judge is wrong in a tenth of all cases.
// That mix is the best of the test half; "mix" is the one that is picked on the train half. "Both
// halves" has each half by the fit to the other, together, over the best mix of all queries, and
// "hindsight" is index fitted to the test half:
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureJudges -args -judges 10
func TestMeasureJudges(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	for name := range strings.SplitSeq(*judges.tables, ",") {
		for noise := range strings.SplitSeq(*judges.noises, ",") {
			gains, linears, both := map[string][]float64{}, []float64{}, []float64{}
			for half := range uint64(*judges.halves) {
				seed := half + uint64(*judges.first)
				table := judgedTable(t, name, noise, seed)
				train, test := table.Split(*judges.share, seed)
				linear := linearArea(test)
				linears = append(linears, linear)
				gains["ladder"] = append(gains["ladder"], ladderArea(train, test, train, test, ladderDepth)-linear)
				gains["mix"] = append(gains["mix"], ladderArea(train, test, train, test, 1)-linear)
				for row := range strings.SplitSeq(*judges.rows, ",") {
					gains[row] = append(gains[row], fittedArea(t, train, test, "auto", row, seed)-linear)
				}
				gains["hindsight"] = append(gains["hindsight"], fittedArea(t, test, test, "auto", cascade.NameIndex, seed)-linear)
				both = append(both, area(table, crossPoints(t, table, train, test, seed))-linearArea(table))
				if noise == "none" {
					train, test := *train, *test
					train.Verdicts, test.Verdicts, train.Verified, test.Verified = nil, nil, true, true
					gains["verified"] = append(gains["verified"], fittedArea(t, &train, &test, "auto", cascade.NameIndex, seed)-linear)
				}
			}
			fmt.Printf("%s, errors %s: linear %.2f", name, noise, 100*average(linears))
			for _, row := range slices.Sorted(maps.Keys(gains)) {
				fmt.Printf(" %s %+.2f", row, 100*average(gains[row]))
				if row != "ladder" && row != "mix" {
					fmt.Printf(" (%+.2f over the ladder, %+.2f over the mix)", 100*(average(gains[row])-average(gains["ladder"])), 100*(average(gains[row])-average(gains["mix"])))
				}
			}
			fmt.Printf("; both halves %+.2f\n", 100*average(both))
		}
	}
}

// TestMeasureFirstLooks prints the mean AUC on test halves, over the mix of single models, of index
// where a verdict has a price, a share of what the dearest model costs: asked of every answer, asked
// where it is worth that, a signal that is bought, and never asked, and the ladder that was picked on the train half.
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureFirstLooks -args -judges 10 -judgenoises independent
func TestMeasureFirstLooks(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	for name := range strings.SplitSeq(*judges.tables, ",") {
		for noise := range strings.SplitSeq(*judges.noises, ",") {
			for _, share := range []float64{0.03, 0.1, 0.3, 0.5} {
				var always, sold, bought, never, ladder []float64
				for half := range uint64(*judges.halves) {
					seed := half + uint64(*judges.first)
					table := judgedTable(t, name, noise, seed)
					train, test := table.Split(*judges.share, seed)
					usd, linear := share*slices.Max(table.MeanCosts()), linearArea(test)
					points := fittedPoints(t, priced(train, usd), priced(test, usd), "auto", cascade.NameIndex, seed)
					always = append(always, area(test, points)-linear)
					ladder = append(ladder, ladderArea(train, test, priced(train, usd), priced(test, usd), ladderDepth)-linear)
					points = fittedPoints(t, withPrice(train, usd), withPrice(test, usd), "auto", cascade.NameIndex, seed)
					sold = append(sold, area(test, points)-linear)
					points = fittedPoints(t, forSale(train, usd), forSale(test, usd), "auto", cascade.NameIndex, seed)
					bought = append(bought, area(test, points)-linear)
					unjudged, unseen := *train, *test
					unjudged.Verdicts, unseen.Verdicts = nil, nil
					never = append(never, fittedArea(t, &unjudged, &unseen, "auto", cascade.NameIndex, seed)-linear)
				}
				more, stdError := gain(sold, always)
				over, overError := gain(sold, ladder)
				fmt.Printf("%s, errors %s, a verdict at %.2f of the dearest model: always %+.2f, where it is worth it %+.2f (%+.2f ± %.2f over always, %+.2f ± %.2f over the ladder), bought as a signal %+.2f, never %+.2f, ladder %+.2f\n",
					name, noise, share, 100*average(always), 100*average(sold), 100*more, 200*stdError, 100*over, 200*overError, 100*average(bought), 100*average(never), 100*average(ladder))
			}
		}
	}
}

// TestMeasureSecondLooks prints the same of a second judge with a price, beside one that errs as
// often and is free: the first alone, both asked, the second where the first passes, and the second
// bought.
//
//	go test ./sdk/fit -v -timeout 1h -run MeasureSecondLooks -args -judges 10 -judgenoises independent
func TestMeasureSecondLooks(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	for name := range strings.SplitSeq(*judges.tables, ",") {
		for noise := range strings.SplitSeq(*judges.noises, ",") {
			for _, share := range []float64{0.03, 0.1, 0.3} {
				gains := [3][]float64{}
				for half := range uint64(*judges.halves) {
					seed := half + uint64(*judges.first)
					second := judgedTable(t, name, noise, seed)
					first := *second
					first.Verdicts = map[string][][]float64{"first": drawVerdicts(second, noise, seed+1000)}
					usd := share * slices.Max(second.MeanCosts())
					both := *priced(&first, usd)
					for q, row := range both.CostUSD {
						for m := range row {
							row[m] -= usd * (1 - first.Verdicts["first"][q][m])
						}
					}
					both.Verdicts = map[string][][]float64{"first": first.Verdicts["first"], "judge": second.Verdicts["judge"]}
					sold := *forSale(second, usd)
					sold.Verdicts = first.Verdicts
					_, plain := second.Split(*judges.share, seed)
					for k, table := range []*outcome.Table{&first, &both, &sold} {
						train, test := table.Split(*judges.share, seed)
						gains[k] = append(gains[k], area(plain, fittedPoints(t, train, test, "auto", cascade.NameIndex, seed))-linearArea(plain))
					}
				}
				fmt.Printf("%s, errors %s, a second verdict at %.2f of the dearest model: first alone %+.2f, both %+.2f, second bought %+.2f\n",
					name, noise, share, 100*average(gains[0]), 100*average(gains[1]), 100*average(gains[2]))
			}
		}
	}
}

// priced adds the cost of a verdict to the cost of each answer.
func priced(t *outcome.Table, usd float64) *outcome.Table {
	own := *t
	own.CostUSD = nil
	for _, row := range t.CostUSD {
		row = slices.Clone(row)
		for m := range row {
			row[m] += usd
		}
		own.CostUSD = append(own.CostUSD, row)
	}
	return &own
}

// withPrice adds the cost of a verdict as a column of its own.
func withPrice(t *outcome.Table, usd float64) *outcome.Table {
	own := *forSale(t, usd)
	own.Verdicts = t.Verdicts
	delete(own.Signals, "judge")
	return &own
}

// forSale turns the verdicts into signals that can be bought.
func forSale(t *outcome.Table, usd float64) *outcome.Table {
	own := *t
	prices := make([][]float64, len(t.Queries))
	for q := range prices {
		prices[q] = slices.Repeat([]float64{usd}, len(t.Models))
	}
	own.Verdicts = nil
	own.Signals = map[string][][]float64{"judge": t.Verdicts["judge"], "judge" + sdk.SignalCostUSD: prices}
	return &own
}

// judgedTable returns outcomes with the verdicts of a judge that errs.
func judgedTable(t *testing.T, name, noise string, seed uint64) *outcome.Table {
	t.Helper()
	var table *outcome.Table
	switch name {
	case "swebench":
		table = outcometest.Swebench(t)
	case "mcpmark":
		table = binary(outcometest.Load(t, "mcpmark.csv"), seed)
	default:
		table = outcometest.Load(t, name)
	}
	table.Verified, table.Signals, table.InputTokens, table.OutputTokens = false, nil, nil, nil
	table.Verdicts = map[string][][]float64{"judge": drawVerdicts(table, noise, seed)}
	return table
}

// drawVerdicts draws the verdicts of a judge that errs in a tenth of all cases.
func drawVerdicts(table *outcome.Table, noise string, seed uint64) [][]float64 {
	rng := rand.New(rand.NewPCG(seed, 0x6a7d))
	verdicts := make([][]float64, len(table.Queries))
	for q, row := range table.Quality {
		misread := rng.Float64() < 0.1
		verdicts[q] = make([]float64, len(row))
		for m, v := range row {
			flip := rng.Float64() < 0.1
			switch {
			case noise == "shared" && misread, noise == "independent" && flip:
				v = 1 - v
			}
			verdicts[q][m] = v
		}
	}
	return verdicts
}

// drawVerdictsAt draws independent verdicts at the given error rates.
func drawVerdictsAt(t *outcome.Table, r cascade.Rates, seed uint64) [][]float64 {
	rng := rand.New(rand.NewPCG(seed, 0x77))
	verdicts := make([][]float64, len(t.Queries))
	for q, row := range t.Quality {
		verdicts[q] = make([]float64, len(row))
		for m, v := range row {
			pass := r.FalsePass
			if v >= 0.5 {
				pass = 1 - r.FalseReject
			}
			if rng.Float64() < pass {
				verdicts[q][m] = 1
			}
		}
	}
	return verdicts
}

// binary draws one run of each outcome that is a mean of several.
func binary(t *outcome.Table, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 0xb1))
	for _, row := range t.Quality {
		for m, v := range row {
			row[m] = 0
			if rng.Float64() < v {
				row[m] = 1
			}
		}
	}
	return t
}

// crossPoints is what index does on all outcomes, on each half by the fit to the other.
func crossPoints(t *testing.T, table, train, test *outcome.Table, seed uint64) []Point {
	t.Helper()
	values := startValues(cascade.NameIndex, table, 40)
	both := make([]Point, len(values))
	for _, pair := range [][2]*outcome.Table{{train, test}, {test, train}} {
		profile, err := Fit(context.Background(), pair[0], Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		share := float64(len(pair[1].Queries)) / float64(len(table.Queries))
		for i, p := range curvePoints(t, profile, pair[1], values) {
			both[i].CostUSD += share * p.CostUSD
			both[i].Quality += share * p.Quality
		}
	}
	return sortPoints(both)
}

// ladderArea is the AUC on the test half of the ladders of up to so many models, dearer
// ones where the judge rejects, that are best on the train half. In judged tables costs include those of the verdicts.
func ladderArea(train, test, judgedTrain, judgedTest *outcome.Table, depth int) float64 {
	order := byCost(train.MeanCosts())
	var all [][]int
	var points []Point
	var grow func(models []int, from int)
	grow = func(models []int, from int) {
		for k := from; k < len(order); k++ {
			own := append(slices.Clone(models), order[k])
			climbed := climbLadder(train, judgedTrain, own)
			points = append(points, climbed.point(float64(len(all))))
			all = append(all, own)
			if len(own) < depth {
				grow(own, k+1)
			}
		}
	}
	grow(nil, 0)
	var met []Point
	for _, p := range hull(points) {
		climbed := climbLadder(test, judgedTest, all[int(p.Value)])
		met = append(met, climbed.point(0))
	}
	return area(test, met)
}

// TestMeasureFirstpass prints what the verdicts of a real gate come to, on test halves and on both
// halves together; "hindsight" is fitted to the test half. What is never reached has opus' price.
func TestMeasureFirstpass(t *testing.T) {
	if *judges.halves == 0 {
		t.Skip("measures on demand")
	}
	// The MBPP tasks by three models, of which the verdict of a gate stands beside the truth.
	table := outcometest.Load(t, "firstpass_mbpp3.csv")
	table.Verdicts = map[string][][]float64{"gate": table.Signals["gate_pass"]}
	table.Signals = nil
	shares, overs := map[string][]float64{}, map[string][]float64{}
	for half := range uint64(*judges.halves) {
		seed := half + uint64(*judges.first)
		train, test := table.Split(0.5, seed)
		score := func(name string, on *outcome.Table, points []Point) {
			share, over := besideFirstpass(on, points)
			shares[name], overs[name] = append(shares[name], share), append(overs[name], over)
		}
		score("fitted to the other half", test, fittedPoints(t, train, test, "auto", cascade.NameIndex, seed))
		score("hindsight", test, fittedPoints(t, test, test, "auto", cascade.NameIndex, seed))
		score("both halves", table, crossPoints(t, table, train, test, seed))
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		fmt.Printf("%s: always opus' quality at %.3f of its cost, in the median at %.3f; %+.2f points over Firstpass' ladder\n",
			name, average(shares[name]), median(shares[name]), 100*average(overs[name]))
	}
}

// besideFirstpass returns at what share of always opus' cost points reach its quality, and by how
// much they are better than Firstpass' own ladder at its cost.
func besideFirstpass(on *outcome.Table, points []Point) (share, over float64) {
	dear := on.Index("claude-opus-4-8")
	opus, ladder := on.MeanCosts()[dear], climbLadder(on, on, []int{on.Index("claude-haiku-4-5"), dear})
	firstpass := ladder.point(0)
	share = reach(points, on.MeanQualities()[dear]) / opus
	if math.IsNaN(share) {
		share = 1 // opus is always asked
	}
	return share, qualityAt(sortPoints(points), firstpass.CostUSD) - firstpass.Quality
}

// Learned error rates are never 0, even for a perfect judge. No budget is spent on that last doubt, with or
// without a stated budget, and neither does a pacer.
func TestLastDoubtIsNotBought(t *testing.T) {
	table := judged(300, 3)
	table.Verdicts["judge"] = drawVerdictsAt(table, cascade.Rates{}, 3)
	verified := *table
	verified.Verdicts, verified.Verified = nil, true
	for _, budget := range []float64{0, 0.02, 0.04} {
		worth, err := Fit(t.Context(), &verified, Options{BudgetUSD: budget})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Fit(t.Context(), table, Options{BudgetUSD: budget})
		if err != nil {
			t.Fatal(err)
		}
		if got.Budget.Reached || got.Expected.CostUSD > 1.05*worth.Expected.CostUSD || got.Expected.Quality < worth.Expected.Quality-0.5/300 {
			t.Errorf("of %v USD %v are spent for %v, and %v for %v where the judge is known not to err",
				budget, got.Expected.CostUSD, got.Expected.Quality, worth.Expected.CostUSD, worth.Expected.Quality)
		}
		for _, p := range got.Curve {
			if p.CostUSD > 1.05*worth.Expected.CostUSD {
				t.Errorf("budget %v: a pacer may spend %v, and %v is the most that is worth it", budget, p.CostUSD, worth.Expected.CostUSD)
				break
			}
		}
	}
}

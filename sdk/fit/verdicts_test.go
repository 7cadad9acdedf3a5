package fit

import (
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

// judged returns outcomes of four models on queries with one hidden ease, and the verdicts of a
// judge that errs in a tenth of all cases.
func judged(n int, seed uint64) *outcome.Table {
	rng := rand.New(rand.NewPCG(seed, 0x7e))
	t := &outcome.Table{Models: []string{"nano", "mini", "mid", "large"}, Verdicts: map[string][][]float64{}}
	for q := range n {
		ease := 1.5 * rng.NormFloat64()
		var quality, cost []float64
		for m := range t.Models {
			right := 0.0
			if rng.Float64() < 1/(1+math.Exp(-ease-0.8*float64(m))) {
				right = 1
			}
			quality, cost = append(quality, right), append(cost, 0.0004*math.Pow(4, float64(m))*(0.5+rng.Float64()))
		}
		t.Queries, t.Quality, t.CostUSD = append(t.Queries, fmt.Sprint(q)), append(t.Quality, quality), append(t.CostUSD, cost)
	}
	t.Verdicts["judge"] = drawVerdictsAt(t, cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}, seed)
	return t
}

// verdictsOf returns the table with the judge's verdicts as its qualities.
func verdictsOf(t *outcome.Table) *outcome.Table {
	own := *t
	own.Quality, own.Verdicts, own.Verified = t.Verdicts["judge"], nil, true
	return &own
}

// playOn returns the result of a profile on outcomes with the truth.
func playOn(t *testing.T, p *Profile, test *outcome.Table) Point {
	t.Helper()
	replay, err := p.Estimator.On(test)
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := p.NewStrategy(test.Models)
	if err != nil {
		t.Fatal(err)
	}
	used, err := newStage(test, replay).play(t.Context(), []cascade.Strategy{strategy})
	if err != nil {
		t.Fatal(err)
	}
	return used[0].point(0)
}

// A fit to a fallible judge's verdicts alone replays them like a router: as evidence, at the rates
// that the policy states or that are learned from the verdicts. It meets its budget, reports the
// quality of answers rather than the share that passes, and compares no estimate with itself.
func TestVerdictsThatErrAreReplayedAsUseTakesThem(t *testing.T) {
	table := judged(1200, 5)
	train, test := table.Split(0.5, 1)
	const budget = 0.006
	for _, stated := range []map[string]cascade.Rates{{"judge": {FalsePass: 0.1, FalseReject: 0.1}}, nil} {
		p, err := Fit(t.Context(), verdictsOf(train), Options{BudgetUSD: budget, VerdictsErr: true, Estimate: estimate.Options{Judges: stated, JudgeOrder: []string{"judge"}}})
		if err != nil {
			t.Fatal(err)
		}
		if stated != nil && (p.Estimator.Judges != nil || len(p.Data.Assumed) != 1) || stated == nil && (p.Estimator.Judges == nil || p.Data.Assumed != nil) {
			t.Errorf("stated %v: learned %v, assumed %v", stated, p.Estimator.Judges, p.Data.Assumed)
		}
		if p.Data.Inferred != 2400 || p.Data.Truths != 0 || p.Calibration != nil {
			t.Errorf("%d qualities are inferred, %d known; calibration %v", p.Data.Inferred, p.Data.Truths, p.Calibration)
		}
		if stated != nil {
			p.Estimator.Judges = stated
		}
		point := playOn(t, p, test)
		if math.Abs(point.CostUSD/budget-1) > 0.2 {
			t.Errorf("for a budget of %v a query costs %v in use", budget, point.CostUSD)
		}
		if off := math.Abs(p.Expected.Quality - point.Quality); off > 0.1 || stated != nil && off > 0.03 {
			t.Errorf("a quality of %v is expected, and %v comes", p.Expected.Quality, point.Quality)
		}
	}
}

// Rates are learned from verdicts on several models' answers to one query, since right answers are
// correlated and errors are not. Truths of some passed answers that become known later improve them.
func TestRatesAreLearnedWithoutTruthBeside(t *testing.T) {
	rates := []cascade.Rates{{FalsePass: 0.02, FalseReject: 0.02}, {FalsePass: 0.3, FalseReject: 0.15}}
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		rates = append(rates, cascade.Rates{FalsePass: 0.1, FalseReject: 0.1})
	}
	for _, want := range rates {
		table := judged(1500, 8)
		table.Verdicts["judge"] = drawVerdictsAt(table, want, 8)
		off := func(t *outcome.Table) float64 {
			r := fitVerdicts(t, nil).rates
			return math.Abs(r.FalsePass-want.FalsePass) + math.Abs(r.FalseReject-want.FalseReject)
		}
		alone, later := verdictsOf(table), verdictsOf(table)
		later.Quality = nil
		for q, row := range table.Quality {
			verdicts := slices.Repeat([]float64{math.NaN()}, len(row))
			quality := slices.Clone(alone.Quality[q])
			if m := slices.Index(quality, 1); m >= 0 && q%4 == 0 {
				verdicts[m], quality[m] = quality[m], row[m] // the first that passes is returned, and the run ends
			}
			later.Quality, later.StepVerdicts = append(later.Quality, quality), append(later.StepVerdicts, verdicts)
		}
		usual := math.Abs(cascade.PriorFalsePass-want.FalsePass) + math.Abs(cascade.PriorFalseReject-want.FalseReject)
		a, b := off(alone), off(later)
		t.Logf("%+v: learned rates are off by %.3f, with the truth of some answers %.3f, usual ones %.3f", want, a, b, usual)
		if a > 0.7*usual || b > a {
			t.Errorf("%+v: off by %v, with truth %v, usual rates %v", want, a, b, usual)
		}
	}
}

// A judge errs alike on equal tool calls, whichever model made them, so agreement of their verdicts is no
// evidence of its error rates. Different answers and the ends of runs are.
func TestEqualAnswersAreJudgedOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0x7f))
	verdicts := &outcome.Table{Models: []string{"small", "large"}, Verified: true}
	ended := *verdicts
	verdictOn := func(isRight bool) float64 {
		if isRight == (rng.Float64() < 0.7) {
			return 1
		}
		return 0
	}
	for q := range 900 {
		answers, quality, truth := []string{"right", "right"}, []float64{0, 0}, []float64{1, 1}
		quality[1] = verdictOn(true)
		quality[0] = quality[1]
		if rng.Float64() < 0.25 {
			answers[0], quality[0], truth[0] = "wrong", verdictOn(false), 0
		}
		verdicts.Queries, verdicts.Answers, verdicts.Quality = append(verdicts.Queries, fmt.Sprint(q)), append(verdicts.Answers, answers), append(verdicts.Quality, quality)
		ended.Queries, ended.Answers, ended.Quality, ended.StepVerdicts = verdicts.Queries, verdicts.Answers, append(ended.Quality, truth), verdicts.Quality
	}
	alone, byEnds := fitVerdicts(verdicts, nil).rates, fitVerdicts(&ended, nil).rates
	t.Logf("learned from verdicts alone %+v, by the ends of runs %+v", alone, byEnds)
	if alone.FalsePass+alone.FalseReject < cascade.PriorFalsePass+cascade.PriorFalseReject {
		t.Errorf("a judge wrong in 0.3 of both directions is learned as %+v, better than one of which nothing is known", alone)
	}
	if math.Abs(byEnds.FalsePass-0.3) > 0.05 || math.Abs(byEnds.FalseReject-0.3) > 0.05 {
		t.Errorf("by the ends of runs %+v is learned instead of 0.3", byEnds)
	}
	quality, _ := fitVerdicts(verdicts, nil).posteriors(verdicts)
	for q, row := range quality {
		if a := verdicts.Answers[q]; a[0] == a[1] && row[0] != row[1] {
			t.Fatalf("the same answer is right with %v and with %v", row[0], row[1])
		}
	}
}

// Answers that differ from a right one are mostly wrong, and equal ones mostly right. So the rates of a judge are
// learned from verdicts alone, and the ends of runs, which tell the truth only about the returned answer and its equals,
// do not mislead.
func TestEqualAnswersTellWhichAreRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 0x11))
	want := cascade.Rates{FalsePass: 0.1, FalseReject: 0.1}
	shares := []float64{0.55, 0.75, 0.93}
	for _, ends := range []float64{0, 0.3} {
		table := &outcome.Table{Models: []string{"small", "mid", "large"}, Verified: true}
		for q := range 1500 {
			row, said, answers, verdicts := make([]float64, 3), slices.Repeat([]float64{math.NaN()}, 3), make([]string, 3), map[string]float64{}
			hard := rng.Float64()
			for m, share := range shares {
				answers[m] = fmt.Sprint("wrong", rng.IntN(3))
				if isRight := 0.6*hard+0.4*rng.Float64() < 0.9*share; isRight {
					answers[m] = "right"
				}
				if _, isJudged := verdicts[answers[m]]; !isJudged {
					verdicts[answers[m]] = 0
					if (answers[m] == "right") == (rng.Float64() < 0.9) {
						verdicts[answers[m]] = 1
					}
				}
				row[m] = verdicts[answers[m]]
			}
			if answers[2] == "right" && rng.Float64() < ends {
				for m := range row {
					if answers[m] == "right" {
						row[m], said[m] = 1, row[m]
					}
				}
			}
			table.Queries, table.Answers = append(table.Queries, fmt.Sprint(q)), append(table.Answers, answers)
			table.Quality, table.StepVerdicts = append(table.Quality, row), append(table.StepVerdicts, said)
		}
		got := fitVerdicts(table, nil).rates
		if math.Abs(got.FalsePass-want.FalsePass) > 0.06 || math.Abs(got.FalseReject-want.FalseReject) > 0.06 {
			t.Errorf("with the ends of %v of the runs %+v is learned, want %+v", ends, got, want)
		}
	}
}

// The cost of verdicts, of all or of those bought, is part of the budget if it is recorded: by judge, or
// in traces in total and for some of the answers.
func TestVerdictsArePaidFromTheBudget(t *testing.T) {
	for _, inTraces := range []bool{false, true} {
		table := judged(400, 6)
		prices := make([][]float64, len(table.Queries))
		for q := range prices {
			prices[q] = []float64{0.002, 0.002, 0.002, 0.002}
			if inTraces && q%2 == 0 {
				prices[q] = slices.Repeat([]float64{math.NaN()}, 4)
			}
		}
		if inTraces {
			table.VerdictsUSD = prices
		} else {
			table.Signals = map[string][][]float64{"judge_cost_usd": prices}
		}
		const budget = 0.006
		for _, name := range []string{cascade.NameIndex, cascade.NameCascade} {
			p, err := Fit(t.Context(), table, Options{Strategy: name, BudgetUSD: budget})
			if err != nil {
				t.Fatal(err)
			}
			if usd := playOn(t, p, table).CostUSD; math.Abs(usd/budget-1) > 0.1 {
				t.Errorf("%s: for a budget of %v a query costs %v with its verdicts", name, budget, usd)
			}
		}
	}
}

// A judge that passes more than the usual rates allow even if all answers were right gets other learned
// rates, and the cheapest model is called first, since its answers pass as often.
func TestAJudgeThatPassesNearlyEverything(t *testing.T) {
	table := judged(400, 7)
	for q, row := range table.Quality {
		for m := range row {
			table.Verdicts["judge"][q][m] = 1
			if (q+m)%40 == 0 {
				table.Verdicts["judge"][q][m] = 0
			}
		}
	}
	p, err := Fit(t.Context(), verdictsOf(table), Options{BudgetUSD: 0.006, VerdictsErr: true, Estimate: estimate.Options{JudgeOrder: []string{"judge"}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Expected.Quality < 0.97 || p.Expected.CostUSD > 0.002 {
		t.Errorf("quality %v for %v, rates %v", p.Expected.Quality, p.Expected.CostUSD, p.Estimator.Judges)
	}
}

// Calibration compares estimates only with truths that became known later, not with values derived from them.
func TestCalibrationIsByTheTruthAlone(t *testing.T) {
	table := judged(300, 9)
	verdicts := verdictsOf(table)
	verdicts.StepVerdicts = nil
	quality := verdicts.Quality
	verdicts.Quality = nil
	for q, row := range quality {
		said, own := slices.Repeat([]float64{math.NaN()}, len(row)), slices.Clone(row)
		if q%3 == 0 {
			said, own = row, table.Quality[q]
		}
		verdicts.StepVerdicts, verdicts.Quality = append(verdicts.StepVerdicts, said), append(verdicts.Quality, own)
	}
	p, err := Fit(t.Context(), verdicts, Options{VerdictsErr: true, Estimate: estimate.Options{JudgeOrder: []string{"judge"}}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range p.Calibration.Post.Bins {
		n += b.Count
	}
	if n != 400 || p.Data.Truths != 400 || !(p.Calibration.Post.Brier > 0.02) {
		t.Errorf("%d estimates are held against %d truths: Brier score %v", n, p.Data.Truths, p.Calibration.Post.Brier)
	}
	table.Verdicts, table.Verified = nil, true
	if p, err = Fit(t.Context(), table, Options{}); err != nil || p.Calibration == nil || p.Calibration.Post != nil {
		t.Errorf("%v: verdicts are held against themselves", err)
	}
}

// A judge whose verdicts carry no information is rejected, with advice, as a router would.
func TestJudgesThatSayNothing(t *testing.T) {
	table := judged(300, 1)
	table.Verdicts["judge"] = drawVerdictsAt(table, cascade.Rates{FalsePass: 0.9, FalseReject: 0.9}, 1)
	if _, err := Fit(t.Context(), table, Options{BudgetUSD: 0.005}); err == nil || !strings.Contains(err.Error(), `judge "judge"`) || !strings.Contains(err.Error(), "leave its verdicts out") {
		t.Errorf("%v", err)
	}
}

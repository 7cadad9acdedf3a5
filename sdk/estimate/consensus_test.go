package estimate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/estimate"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// shadowedRuns returns the steps of runs of four with the answers of three models, of which the reference,
// large, errs more often than the others, and the truth. A share of the runs has a verdict.
func shadowedRuns(runs int, judged float64, seed uint64) (t *outcome.Table, truth [][]float64) {
	models := []string{"mini", "haiku", "large"}
	t = &outcome.Table{Models: models, Reference: "large", Labels: "agreement with large", StepsPerRun: 4}
	if judged > 0 {
		t.Labels = "verdicts on runs, else " + t.Labels
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for run := range runs {
		verdict := 1.0
		for step := range 4 {
			answers, right, like := make([]string, 3), make([]float64, 3), make([]float64, 3)
			for m, share := range []float64{0.92, 0.92, 0.88} {
				if answers[m] = fmt.Sprint("wrong", r.IntN(6)); r.Float64() < share {
					answers[m], right[m] = "right", 1
				}
			}
			for m := range models {
				if answers[m] == answers[2] {
					like[m] = 1
				}
			}
			verdict *= right[2]
			t.Queries, t.Runs = append(t.Queries, fmt.Sprint(run, "/", step)), append(t.Runs, fmt.Sprint("run", run))
			t.Answers, t.Quality, truth = append(t.Answers, answers), append(t.Quality, like), append(truth, right)
			t.CostUSD = append(t.CostUSD, []float64{0.001, 0.0012, 0.01})
			t.RunVerdicts = append(t.RunVerdicts, []float64{math.NaN(), math.NaN(), math.NaN()})
		}
		if float64(run) < judged*float64(runs) {
			for _, ends := range t.RunVerdicts[4*run:] {
				ends[2] = verdict
			}
		}
	}
	return t, truth
}

// The more runs have a verdict, the closer the labels are to the truth; with few, they are no worse than with none.
func TestVerdictsOnSomeRunsDoNoHarm(t *testing.T) {
	for seed := range uint64(3) {
		before := math.Inf(1)
		for _, judged := range []float64{0, 0.05, 0.3, 1} {
			table, truth := shadowedRuns(150, judged, seed+1)
			weighed, err := estimate.Consensus(table)
			if err != nil {
				t.Fatal(err)
			}
			squares, told, actual := 0.0, weighed.MeanQualities(), (&outcome.Table{Models: table.Models, Quality: truth}).MeanQualities()
			for q, row := range weighed.Quality {
				for m, v := range row {
					squares += (v - truth[q][m]) * (v - truth[q][m])
				}
			}
			for m, name := range table.Models {
				if math.Abs(told[m]-actual[m]) > 0.07 {
					t.Errorf("with verdicts on %v of the runs %s is right in %.3f, want %.3f", judged, name, told[m], actual[m])
				}
			}
			if squares > 1.02*before {
				t.Errorf("with verdicts on %v of the runs the labels are off by %.1f, with fewer by %.1f", judged, squares, before)
			}
			before = squares
		}
	}
}

// A run that passed has only right answers, and one that failed not only right ones: its most doubtful step has most of
// the blame. Steps that only two models answered keep their labels.
func TestVerdictsOnRunsConditionTheirSteps(t *testing.T) {
	nan := math.NaN()
	table := func(verdict float64) *outcome.Table {
		ends := []float64{nan, nan, verdict}
		return &outcome.Table{
			Models: []string{"mini", "haiku", "large"}, Reference: "large", Labels: "verdicts on runs, else agreement with large",
			Queries: []string{"agreed", "disputed", "alone"}, Runs: []string{"r", "r", "r"}, RunVerdicts: [][]float64{ends, ends, ends},
			Answers: [][]string{{"x", "x", "x"}, {"x", "x", "y"}, {"", "x", "x"}},
			Quality: [][]float64{{1, 1, 1}, {nan, nan, 0.5}, {nan, 1, 1}}, CostUSD: [][]float64{{1, 1, 10}, {1, 1, 10}, {1, 1, 10}},
		}
	}
	quality := func(verdict float64) [][]float64 {
		weighed, err := estimate.Consensus(table(verdict))
		if err != nil || weighed.Labels != "verdicts on runs, else how the answers of all models agree" {
			t.Fatal(err, weighed.Labels)
		}
		if q := weighed.Quality[2]; !math.IsNaN(q[0]) || q[1] != 1 || q[2] != 1 {
			t.Errorf("the step of two models has %v", q)
		}
		return weighed.Quality
	}
	none, passed, failed, unsure := quality(nan), quality(1), quality(0), quality(0.25)
	if passed[0][0] != 1 || passed[1][2] != 1 || passed[1][0] != 0 {
		t.Errorf("of a run that passed: %v", passed)
	}
	if !(failed[1][2] < 0.5*none[1][2] && failed[0][2] < none[0][2] && failed[0][2] > 0.85 && failed[1][0] > none[0][0]-0.5) {
		t.Errorf("of a run that failed: %v, without its verdict %v", failed, none)
	}
	for q := range 2 {
		for m := range 3 {
			if want := 0.25*passed[q][m] + 0.75*failed[q][m]; math.Abs(unsure[q][m]-want) > 1e-9 {
				t.Errorf("with an unsure verdict %v, want %v", unsure[q][m], want)
			}
		}
	}
}

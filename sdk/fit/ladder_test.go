package fit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// A fit to verdicts is compared with ladders chosen on other queries: a strategy that always
// pays for the expensive model is not better than them, and one that knows which answers are
// right is.
func TestAFitStandsBesideLadders(t *testing.T) {
	table, n := &outcome.Table{Models: []string{"small", "large"}}, 400
	rng := rand.New(rand.NewPCG(1, 2))
	dear, knowing := newReplayRow(n), newReplayRow(n)
	verdicts := make([][]float64, n)
	for q := range n {
		table.Queries = append(table.Queries, fmt.Sprint(q))
		row := []float64{float64(rng.IntN(2)), min(float64(rng.IntN(10)), 1)}
		table.Quality, table.CostUSD = append(table.Quality, row), append(table.CostUSD, []float64{1, 10})
		verdicts[q] = append([]float64(nil), row...)
		if rng.Float64() < 0.1 {
			verdicts[q][0] = 1 - row[0]
		}
		dear.cost[q], dear.quality[q] = 10, row[1]
		knowing.cost[q], knowing.quality[q] = 1, row[0]
		if row[0] == 0 {
			knowing.cost[q], knowing.quality[q] = 11, row[1]
		}
	}
	table.Verdicts = map[string][][]float64{"judge": verdicts}
	fold := table.Folds(5, 1)
	beside := func(judged *outcome.Table, r *replayRow, fold []int) *Ladder {
		strategy := &candidate{values: []float64{0}, results: []replayRow{*r}}
		return compareWithLadders(table, judged, strategy, average(r.cost), fold, 5)
	}
	l := beside(table, &dear, fold)
	if l.Gain > 0.01 || l.CostUSD > 10.01 {
		t.Errorf("always the dear model beside ladders: %+v", l)
	}
	l = beside(table, &knowing, fold)
	if l.Gain < 2*l.GainStdError || l.Behind() {
		t.Errorf("who knows what is right beside ladders: %+v", l)
	}
	for q := range n {
		dear.quality[q] = 0.5 * dear.quality[q]
	}
	if l = beside(table, &dear, fold); !l.Behind() {
		t.Errorf("half as good as the dear model at its price: %+v", l)
	}
	if l.Priced || !beside(priced(table, 0.1), &dear, fold).Priced {
		t.Error("whether verdicts have a price is not told")
	}
}

// If nothing distinguishes queries, a lambda separates folds: the expensive model is called in the
// folds whose other folds it did well on, which are those it did badly on. The comparison must not
// report that as worse than a ladder of the same cost.
func TestFoldsThatALambdaPartsAreNotBehindALadder(t *testing.T) {
	const n, folds, times = 250, 5, 40
	var gain, parted moment
	for seed := range uint64(times) {
		rng := rand.New(rand.NewPCG(seed, 3))
		table := &outcome.Table{Models: []string{"cheap", "dear"}}
		var verdicts [][]float64
		var fold []int
		dear := make([]float64, folds)
		for q := range n {
			row := []float64{float64(rng.IntN(2)), min(float64(rng.IntN(4)), 1)}
			table.Queries, table.Quality = append(table.Queries, fmt.Sprint(q)), append(table.Quality, row)
			table.CostUSD, verdicts = append(table.CostUSD, []float64{1, 10}), append(verdicts, []float64{1, 1})
			fold = append(fold, q%folds)
			dear[q%folds] += row[1]
		}
		table.Verdicts = map[string][][]float64{"judge": verdicts}
		order := []int{0, 1, 2, 3, 4}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(dear[a], dear[b]) })
		strategy := &candidate{}
		for value := range folds + 1 {
			r := newReplayRow(n)
			for q := range n {
				m := 0
				if slices.Index(order, fold[q]) < value {
					m = 1
				}
				r.cost[q], r.quality[q] = table.CostUSD[q][m], table.Quality[q][m]
			}
			strategy.values, strategy.results = append(strategy.values, float64(value)), append(strategy.results, r)
		}
		const asked = 2
		l := compareWithLadders(table, table, strategy, average(strategy.results[asked].cost), fold, folds)
		gain.add(l.Gain)
		parted.add(average(strategy.results[asked].quality) - l.Quality)
	}
	if dev := gain.dev() / math.Sqrt(times); math.Abs(gain.mean()) > 3*dev+0.001 {
		t.Errorf("ahead by %.4f ± %.4f", gain.mean(), dev)
	}
	if parted.mean() > -0.01 {
		t.Errorf("the lambda alone is behind by %.4f only: the case shows nothing", -parted.mean())
	}
}

package fit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// A fit to verdicts says how it stands beside ladders picked on other queries: a strategy
// that pays for the dear model every time is not above them, and one that knows which answer
// is right is.
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
	l := compareWithLadders(table, table, &dear, fold, 5)
	if l.Gain > 0.01 || l.CostUSD > 10.01 {
		t.Errorf("always the dear model beside ladders: %+v", l)
	}
	l = compareWithLadders(table, table, &knowing, fold, 5)
	if l.Gain < 2*l.GainStdError || l.Behind() {
		t.Errorf("who knows what is right beside ladders: %+v", l)
	}
	for q := range n {
		dear.quality[q] = 0.5 * dear.quality[q]
	}
	if l = compareWithLadders(table, table, &dear, fold, 5); !l.Behind() {
		t.Errorf("half as good as the dear model at its price: %+v", l)
	}
	if l.Priced || !compareWithLadders(table, priced(table, 0.1), &dear, fold, 5).Priced {
		t.Error("whether verdicts have a price is not told")
	}
}

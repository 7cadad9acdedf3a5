package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// A pacer with a single operating point cannot correct anything. New queries then differ from the
// recorded ones by the standard errors of both, not of one.
func TestPacedCountsBothErrors(t *testing.T) {
	const n = 400
	rng := rand.New(rand.NewPCG(5, 6))
	row := newReplayRow(n)
	table := &outcome.Table{Queries: make([]string, n), Groups: make([]string, n)}
	for q := range n { // the standard error of the mean is the tolerance
		row.cost[q] = 1 + Tolerance*math.Sqrt(n)*rng.NormFloat64()
	}
	c := &candidate{values: []float64{1}, results: []replayRow{row}}
	held, err := heldByPacing(c, kindsOf(table), n, average(row.cost), 7)
	if err != nil {
		t.Fatal(err)
	}
	// Within one standard error: .52 of differences of two means, .68 of one mean's.
	if held < 0.42 || held > 0.62 {
		t.Errorf("held in %v of the streams, want about 0.52", held)
	}
}

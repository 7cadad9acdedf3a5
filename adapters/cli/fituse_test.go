package cli

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk/outcome"
)

// The cost of a policy's own runs is taken from them, and not from a replay of whole runs.
func TestPolicyThatWasMeasured(t *testing.T) {
	table := &outcome.Table{
		Models: []string{"small", "policy"}, Queries: []string{"a", "b", "c", "d"},
		CostUSD: [][]float64{{1, 2}, {1, 4}, {1, math.NaN()}, {1, 3}}, Quality: [][]float64{{1, 1}, {0, 0}, {1, math.NaN()}, {1, 1}},
	}
	r := measuredPolicy(table)
	if r == nil || r.CostUSD != 3 || math.Abs(r.Quality-2.0/3) > 1e-12 || math.Abs(r.QualityStdErr-math.Sqrt(2.0/9/3)) > 1e-12 || !r.IsMeasured {
		t.Errorf("%+v", r)
	}
	without, err := table.Select("small")
	if err != nil || measuredPolicy(without) != nil {
		t.Error("a policy without runs is measured", err)
	}
}

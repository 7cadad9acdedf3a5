package cli

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/forecast"
	"github.com/stepfall/stepfall/sdk/fit"
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

// A policy that is right at least as often at a lower cost in use is to be kept, whatever the labels are.
func TestCheaperAndBetterPolicyIsKept(t *testing.T) {
	inUse := func(with, without float64) forecastInUse {
		return forecastInUse{With: &forecast.Forecast{CostUSD: with}, Without: &forecast.Forecast{CostUSD: without}}
	}
	for name, c := range map[string]struct {
		usd, quality float64 // of the policy
		use          forecastInUse
		isKept       bool
	}{
		"cheaper and better":              {0.8, 0.95, forecastInUse{}, true},
		"cheaper and as good":             {0.8, 0.9, forecastInUse{}, true},
		"cheaper and worse":               {0.8, 0.89, forecastInUse{}, false},
		"dearer and better":               {1.2, 0.95, forecastInUse{}, false},
		"better at about the same cost":   {0.99, 0.95, forecastInUse{}, false},
		"better, and cheaper only in use": {1.2, 0.95, inUse(2, 1.9), true},
		"better, but dearer in use":       {0.8, 0.95, inUse(2, 2.1), false},
	} {
		p := &fit.Profile{Expected: fit.Expectation{CostUSD: 1, Quality: 0.9}}
		held := &fit.Profile{Expected: fit.Expectation{CostUSD: 0.1, Quality: 1}, HeldOut: &fit.HeldOut{CostUSD: 1, Quality: 0.9}}
		r := &policyRival{CostUSD: c.usd, Quality: c.quality}
		if r.beats(p, c.use) != c.isKept || r.beats(held, c.use) != c.isKept {
			t.Errorf("%s: kept %v", name, !c.isKept)
		}
	}
}

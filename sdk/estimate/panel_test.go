package estimate

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
	"github.com/stepfall/stepfall/sdk/outcome"
)

// Judges after one that rejects an answer are not asked, in the order of the policy rather
// than of the names.
func TestJudgesAreAskedInTheirOrder(t *testing.T) {
	table := &outcome.Table{Models: []string{"m"}, Verdicts: map[string][][]float64{"cheap": {{1}}, "sure": {{0}}}}
	rates := map[string]cascade.Rates{"cheap": {FalsePass: 0.3, FalseReject: 0.1}, "sure": {FalsePass: 0.1, FalseReject: 0.02}}
	for _, c := range []struct {
		order []string
		right float64
	}{{nil, 0.9 * 0.02}, {[]string{"cheap", "sure"}, 0.9 * 0.02}, {[]string{"sure", "cheap"}, 0.02}} {
		p := panelOf(table, &Estimator{Models: table.Models, Judges: rates, JudgeOrder: c.order})
		if right, _ := p.likelihoods(0, 0); math.Abs(right-c.right) > 1e-12 {
			t.Errorf("order %v: seen with probability %v if right, want %v", c.order, right, c.right)
		}
	}
}

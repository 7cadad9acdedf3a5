package step

import (
	"math"
	"testing"
	"time"

	"github.com/stepfall/stepfall/sdk"
)

// Independent judges of one answer multiply their likelihoods; an inconclusive verdict adds nothing but its cost.
func TestMergedVerdicts(t *testing.T) {
	judge := func(name string, outcome sdk.Outcome, ifRight, ifWrong float64) *sdk.Verdict {
		return &sdk.Verdict{Verifier: name, Outcome: outcome, Score: 1, IfRight: ifRight, IfWrong: ifWrong, CostUSD: 0.25, Duration: time.Second}
	}
	final := func(name string, outcome sdk.Outcome, score, confidence float64) *sdk.Verdict {
		return &sdk.Verdict{Verifier: name, Outcome: outcome, Score: score, Confidence: confidence, CostUSD: 0.25, Duration: time.Second}
	}
	for what, tt := range map[string]struct {
		a, b             *sdk.Verdict
		verifier         string
		ifRight, ifWrong float64
		score            float64
	}{
		"two that err":            {judge("a", sdk.Passed, 0.9, 0.2), judge("b", sdk.Passed, 0.8, 0.1), "b", 0.72, 0.02, 1},
		"they disagree":           {judge("a", sdk.Passed, 0.9, 0.2), judge("b", sdk.Failed, 0.1, 0.7), "b", 0.09, 0.14, 1},
		"one errs, one is final":  {judge("a", sdk.Passed, 0.9, 0.2), final("b", sdk.Passed, 1, 0.95), "b", 0.9 * 0.95, 0.2 * 0.05, 1},
		"the second says nothing": {judge("a", sdk.Passed, 0.9, 0.2), judge("b", sdk.Inconclusive, 0, 0), "a", 0.9, 0.2, 1},
		"the first said nothing":  {final("a", sdk.Inconclusive, 0, 0), judge("b", sdk.Passed, 0.8, 0.1), "b", 0.8, 0.1, 1},
		"two that are final":      {final("a", sdk.Passed, 0.75, 0.95), final("b", sdk.Passed, 1, 0.85), "b", 0, 0, 0.75},
		"the less sure one stays": {final("a", sdk.Passed, 1, 0.8), final("b", sdk.Passed, 0.5, 0), "a", 0, 0, 0.5},
	} {
		got := merge(tt.a, tt.b)
		if got.Verifier != tt.verifier || math.Abs(got.IfRight-tt.ifRight) > 1e-12 || math.Abs(got.IfWrong-tt.ifWrong) > 1e-12 || got.Score != tt.score || got.CostUSD != 0.5 || got.Duration != 2*time.Second {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

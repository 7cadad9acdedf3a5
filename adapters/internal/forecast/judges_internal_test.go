package forecast

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/sdk/cascade"
)

// A judge with error rates also errs on drawn answers.
func TestDrawnVerdictsErr(t *testing.T) {
	const n = 2000
	rates := cascade.Rates{FalsePass: 0.3, FalseReject: 0.15}
	r := &rehearsal{seed: 1}
	passed := map[bool]float64{}
	for r.n = range n {
		for _, isRight := range []bool{true, false} {
			passed[isRight] += r.drawVerdict("judge", "m", isRight, rates) / n
		}
	}
	if math.Abs(passed[true]-0.85) > 0.03 || math.Abs(passed[false]-0.3) > 0.03 {
		t.Errorf("passes %v, want 0.85 of the right ones and 0.3 of the wrong ones", passed)
	}
}

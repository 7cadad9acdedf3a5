package holdout_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/adapters/internal/holdout"
	"github.com/stepfall/stepfall/sdk"
)

// reporting is how users report the ends of runs: the shares of failed and right runs that are reported on, and the
// factor by which the baseline's are reported on less often.
type reporting struct{ failures, successes, ofBaseline float64 }

// simulate returns the comparison after n runs, and the number of runs after which harm was first seen, or 0.
func simulate(rng *rand.Rand, n int, share, failsByPolicy, failsByBaseline float64, r reporting) (c holdout.Comparison, seen int) {
	var a holdout.Account
	for i := range n {
		run, base := fmt.Sprint(i), rng.Float64() < share
		fails, often := failsByPolicy, 1.0
		if base {
			fails, often = failsByBaseline, r.ofBaseline
		}
		a.Record(context.Background(), &sdk.Trace{Run: run, CostUSD: 1, Holdout: &sdk.Holdout{Share: share, Baseline: base}})
		outcome, reported := sdk.Passed, r.successes
		if rng.Float64() < fails {
			outcome, reported = sdk.Failed, r.failures
		}
		if rng.Float64() < reported*often {
			a.Record(context.Background(), &sdk.Trace{Mode: sdk.ModeVerdict, Run: run, Verdict: &sdk.Verdict{Outcome: outcome}})
		}
		if c = a.Compare(); seen == 0 && c.Worse() {
			seen = i + 1
		}
	}
	return c, seen
}

// If users report failures alone, harm shows in how many of all runs they report.
func TestHarmIsSeenInComplaintsAlone(t *testing.T) {
	c, seen := simulate(rand.New(rand.NewPCG(1, 1)), 1500, 0.1, 0.22, 0.04, reporting{failures: 1, ofBaseline: 1})
	if seen == 0 || c.Success != nil || c.Failures == nil || c.Failures.Low > 0.18 || c.Failures.High < 0.18 {
		t.Errorf("harm seen after %d runs: %+v", seen, c)
	}
	for _, want := range []string{"Reported as failed: 2", "% of all 13", "Warning: the policy does harm: more of its runs are reported as failed than of the baseline's."} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("%q is not in %s", want, &c)
		}
	}
	if strings.Contains(c.String(), "Right:") {
		t.Errorf("a share of right runs is stated although nobody reports right ones: %s", &c)
	}
	// A few thanks among the complaints do not hide it.
	if c, seen := simulate(rand.New(rand.NewPCG(1, 2)), 2000, 0.1, 0.22, 0.04, reporting{failures: 1, successes: 0.02, ofBaseline: 1}); seen == 0 || c.Failures == nil {
		t.Errorf("beside a few reported successes, harm seen after %d runs: %s", seen, &c)
	}
}

// Whoever reports on every run is told the share of right ones, even if it is 0.
func TestNoRunIsRight(t *testing.T) {
	if c, _ := simulate(rand.New(rand.NewPCG(2, 1)), 200, 0.5, 1, 1, reporting{failures: 1, ofBaseline: 1}); c.Success == nil || c.Success.Estimate != 0 {
		t.Errorf("%+v", c)
	}
}

// No harm is seen where there is none, however few runs are reported on, whichever and of which arm.
func TestNoFalseAlarmHoweverFewReport(t *testing.T) {
	trials := 20
	if os.Getenv("STEPFALL_ATTACKS") == "all" {
		trials = 200
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, fails := range []float64{0.04, 0.3, 0.7} {
		for name, r := range map[string]reporting{
			"all": {1, 1, 1}, "half, at random": {0.5, 0.5, 1}, "one in twenty, at random": {0.05, 0.05, 1},
			"failures alone": {1, 0, 1}, "half of the failures": {0.5, 0, 1}, "failures, and few successes": {1, 0.05, 1},
			"all of the policy's, a tenth of the baseline's": {1, 1, 0.1},
		} {
			alarms := 0
			for range trials {
				if _, seen := simulate(rng, 1000, 0.2, fails, fails, r); seen > 0 {
					alarms++
				}
			}
			if alarms > trials/20+2 {
				t.Errorf("%v of the runs fail, reported %s: %d false alarms of %d", fails, name, alarms, trials)
			}
		}
	}
}

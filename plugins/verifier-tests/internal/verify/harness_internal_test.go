package verify

import (
	"math"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// A skipped test is no regression where a log is judged as SWE-bench's harness does,
// and no resolution.
func TestSkippedTestsOfALog(t *testing.T) {
	report := &runner.Report{Tests: []runner.Test{{Name: "a", Status: runner.Pass}, {Name: "b", Status: runner.Skip}}}
	for _, test := range []struct {
		strict bool
		checks sdk.Checks
		want   sdk.Outcome
	}{
		{true, sdk.Checks{FailToPass: []string{"a"}, PassToPass: []string{"b"}}, sdk.Passed},
		{true, sdk.Checks{FailToPass: []string{"a", "b"}}, sdk.Failed},
		{true, sdk.Checks{FailToPass: []string{"a"}, PassToPass: []string{"c"}}, sdk.Failed},
		{false, sdk.Checks{FailToPass: []string{"a"}, PassToPass: []string{"b"}}, sdk.Failed},
	} {
		j := &judgement{strict: test.strict, checks: test.checks, result: &jail.Result{}}
		if got := j.decide(j.results(report)); got.Outcome != test.want {
			t.Errorf("%+v: %s, not %s: %s", test.checks, got.Outcome, test.want, got.Evidence)
		}
	}
}

// A pass is believed the more, the more altered expectations were noticed, and no more than
// its runner allows.
func TestDoubt(t *testing.T) {
	for _, c := range []struct{ allowed, noticed, want float64 }{{0.95, 0, 0.8}, {0.95, 0.5, 0.9}, {0.95, 1, 0.95}, {0.95, 9, 0.95}, {0.9, 0, 0.8}, {0.9, 9, 0.9}} {
		verdict := &sdk.Verdict{Confidence: c.allowed}
		doubt(verdict, c.noticed)
		if math.Abs(verdict.Confidence-c.want) > 1e-12 {
			t.Errorf("%v of %v noticed: %v, want %v", c.noticed, c.allowed, verdict.Confidence, c.want)
		}
	}
}

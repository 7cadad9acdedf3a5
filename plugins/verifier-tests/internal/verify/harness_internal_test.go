package verify

import (
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

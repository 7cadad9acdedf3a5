package verify

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// A test that fails with the same output as on the untouched tree is left out if the answer fixed others, and the
// verdict mentions it, since it may be part of the task.
func TestLeftOut(t *testing.T) {
	const broken = "other/other_test.go:6: undefined: Y"
	report := func(add runner.Status, other string) *runner.Report {
		return &runner.Report{Broken: other, Tests: []runner.Test{
			{Group: "calc", Name: "TestAdd", Status: add},
			{Group: "other", Name: "(package)", Status: runner.Fail, Output: "FAIL other [build failed]"},
		}}
	}
	for _, test := range []struct {
		add        runner.Status
		broken     string
		want       sdk.Outcome
		confidence float64
		says       string
	}{
		{runner.Pass, broken, sdk.Passed, leftOutConfidence, "1 of 1 tests passed, and 1 fail as on the untouched tree"},
		{runner.Pass, "calc/calc.go:1: undefined: Z", sdk.Failed, 0, "undefined: Z"},
		{runner.Fail, broken, sdk.Failed, 0, "2 of 2 tests failed"},
	} {
		result := &jail.Result{End: jail.EndExit, ExitCode: 1}
		j := &judgement{before: &preflight{report: report(runner.Fail, broken), result: result}, result: result, confidence: 0.95}
		now := report(test.add, test.broken)
		verdict := j.checkStopped(now)
		if verdict == nil {
			verdict = j.decide(j.results(now))
		}
		if verdict.Outcome != test.want || verdict.Confidence != test.confidence || !strings.Contains(verdict.Evidence, test.says) {
			t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
		}
	}
}

// Tests that fail as on the untouched tree beside one that is repaired may be broken for reasons of their own: nobody can tell,
// not even of the network, which the jail does not have, for with it they could fail otherwise.
func TestLeftOutBesideWhatIsRepaired(t *testing.T) {
	const unequal, lookup = "expected:<[XXX]> but was:<[¤]>", "socket.gaierror: [Errno -2] Name or service not known"
	for _, test := range []struct {
		add         runner.Status
		before, now string
		isPruned    bool
		want        sdk.Outcome
		confidence  float64
		says        string
	}{
		{runner.Pass, unequal, unequal, false, sdk.Inconclusive, 0, "1 of 2 tests failed\ncalc.TestOther failed\n    " + unequal},
		{runner.Pass, unequal, "expected:<[XXX]> but was:<[]>", false, sdk.Failed, 0, "1 of 2 tests failed"},
		{runner.Fail, unequal, unequal, false, sdk.Failed, 0, "2 of 2 tests failed"},
		{runner.Pass, lookup, lookup, false, sdk.Inconclusive, 0, "part of the task"},
		{runner.Pass, unequal, lookup, false, sdk.Failed, 0, "1 of 2 tests failed"},
		{runner.Pass, lookup, lookup, true, sdk.Inconclusive, 0, "part of the task"},
		{runner.Pass, unequal, unequal, true, sdk.Inconclusive, 0, "part of the task"},
		{runner.Fail, lookup, lookup, false, sdk.Failed, 0, "2 of 2 tests failed"},
	} {
		report := func(add runner.Status, other string) *runner.Report {
			return &runner.Report{Tests: []runner.Test{
				{Group: "calc", Name: "TestAdd", Status: add, Output: "1 is not 2"}, {Group: "calc", Name: "TestOther", Status: runner.Fail, Output: other},
			}}
		}
		result := &jail.Result{End: jail.EndExit, ExitCode: 1}
		j := &judgement{before: &preflight{report: report(runner.Fail, test.before), result: result}, result: result, confidence: 0.95}
		if test.isPruned { // a module that did not load, of whose tests some were run by themselves
			j.before.rest, j.before.report.Tests = *j.before.report, nil
		}
		verdict := j.decide(j.results(report(test.add, test.now)))
		if verdict.Outcome != test.want || verdict.Confidence != test.confidence || !strings.Contains(verdict.Evidence, test.says) {
			t.Errorf("%v, %q: %s %v: %s", test.add, test.now, verdict.Outcome, verdict.Confidence, verdict.Evidence)
		}
	}
}

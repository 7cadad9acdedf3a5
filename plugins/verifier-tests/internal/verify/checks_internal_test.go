package verify

import (
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// reported returns a report of the tests of one module: names with a suffix for the result.
func reported(words string) *runner.Report {
	report := &runner.Report{}
	for word := range strings.FieldsSeq(words) {
		end := len(word) - 1
		status := map[byte]runner.Status{'+': runner.Pass, '-': runner.Fail, 's': runner.Skip}[word[end]]
		report.Tests = append(report.Tests, runner.Test{Group: "tests.test_a", Name: word[:end], Status: status})
	}
	return report
}

// If tests are named, those that passed on the untouched tree must pass as well; a name without parameters means the
// test with any parameters.
func TestNamedChecks(t *testing.T) {
	for _, test := range []struct {
		name, fail, pass, before, now string
		want                          sdk.Outcome
		says                          string
	}{
		{"all stay", "new", "", "new- old+ bad-", "new+ old+ bad-", sdk.Passed, "2 of 2 tests passed, 1 of which passed before and were not named"},
		{"one is broken", "new", "", "new- old+ bad-", "new+ old- bad-", sdk.Failed, "1 of 2 tests failed\ntests.test_a.old failed, and passed on the untouched tree"},
		{"one is broken that both lists leave out", "new", "other", "new- old+ other+", "new+ old- other+", sdk.Passed, "2 of 2 tests passed"},
		{"only what must stay is named", "", "other", "new- old+ other+", "new+ old- other+", sdk.Passed, "1 of 1 tests passed"},
		{"one is skipped as long as something is broken", "new", "", "new- old+", "new+ olds", sdk.Inconclusive, "not run any more"},
		{"one is gone", "new", "", "new- old+", "new+", sdk.Inconclusive, "not run any more"},
		{"one is gone, and another broken", "new", "", "new- old+ gone+", "new+ old-", sdk.Failed, "2 of 3"},
		{"one is gone, and the named fails", "new", "", "new- old+", "new-", sdk.Failed, "2 of 2"},
		{"another case has another name", "new", "", "new- old[1]+ old[2]+", "new+ old[1]+ old[3]+", sdk.Passed, "2 of 2"},
		{"a case less", "new", "", "new- old[1]+ old[2]+", "new+ old[1]+", sdk.Inconclusive, "not run any more"},
		{"a new test fails", "new", "", "new-", "new+ newer-", sdk.Passed, "1 of 1 tests passed"},
		{"all cases", "new", "", "new[1]- new[2]+", "new[1]+ new[2]+", sdk.Passed, "1 of 1 tests passed"},
		{"all cases by the file", "tests/test_a.py::new", "", "new[1]- new[2]+", "new[1]+ new[2]+", sdk.Passed, "1 of 1 tests passed"},
		{"all of the module", "tests/test_a.py", "", "new[1]- old+", "new[1]+ old+", sdk.Passed, "1 of 1 tests passed"},
		{"one of the cases fails", "new", "", "new[1]- new[2]+", "new[1]+ new[2]-", sdk.Failed, "1 of 1"},
		{"one of the cases is skipped now", "new", "", "new[1]- new[2]+", "new[1]s new[2]+", sdk.Failed, "was skipped"},
		{"one of the cases was skipped all along", "new", "", "new[1]- new[2]s", "new[1]+ new[2]s", sdk.Passed, "1 of 1"},
		{"all of the cases were skipped all along", "new", "", "new[1]s new[2]s", "new[1]s new[2]s", sdk.Failed, "was skipped"},
		{"a case less of those that must pass", "new", "", "new[1]- new[2]+", "new[2]+", sdk.Failed, "did not run"},
		{"another test of a longer name", "new", "", "newer[1]-", "newer[1]+", sdk.Failed, "did not run"},
		{"one case of several", "new[1]", "", "new[1]- new[2]+", "new[1]+ new[2]-", sdk.Failed, "new[2] failed, and passed"},
	} {
		result := &jail.Result{End: jail.EndExit}
		checks := sdk.Checks{FailToPass: strings.Fields(test.fail), PassToPass: strings.Fields(test.pass)}
		j := &judgement{before: &preflight{report: reported(test.before), result: result}, result: result, checks: checks}
		all := j.results(reported(test.now))
		verdict := j.decide(all)
		if verdict.Outcome == sdk.Failed {
			verdict = j.excuse(verdict, all)
		}
		if verdict.Outcome != test.want || !strings.Contains(verdict.Evidence, test.says) {
			t.Errorf("%s: %s, not %s with %q: %s", test.name, verdict.Outcome, test.want, test.says, verdict.Evidence)
		}
	}
}

// A test that passed before, and then fails in one run and passes in the next, does not decide.
func TestFlakyTestsThatStay(t *testing.T) {
	result := &jail.Result{End: jail.EndExit}
	j := &judgement{before: &preflight{report: reported("new- old+"), result: result}, result: result, confidence: 0.95, checks: sdk.Checks{FailToPass: []string{"new"}}}
	checks := j.results(reported("new+ old-"))
	merge(checks, j.results(reported("new+ old+")))
	if verdict := j.decide(checks); verdict.Outcome != sdk.Passed || verdict.Confidence != flakyConfidence || !strings.Contains(verdict.Evidence, "flaky: tests.test_a.old passed in 1 of 2 runs") {
		t.Errorf("%s %v: %s", verdict.Outcome, verdict.Confidence, verdict.Evidence)
	}
}

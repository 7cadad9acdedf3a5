package verify

import (
	"math"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// With a log, a skipped test is neither a regression nor a resolution, as in SWE-bench's harness.
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

// The confidence of a pass does not exceed its runner's.
func TestDoubt(t *testing.T) {
	for _, c := range []struct{ allowed, by, want float64 }{{0.95, unalteredDoubt, 0.8}, {0.95, unnotedDoubt, 0.85}, {0.95, 0, 0.95}, {0.8, partlyDoubt, 0.8}} {
		verdict := &sdk.Verdict{Confidence: c.allowed}
		doubt(verdict, c.by)
		if math.Abs(verdict.Confidence-c.want) > 1e-12 {
			t.Errorf("%v less %v: %v, want %v", c.allowed, c.by, verdict.Confidence, c.want)
		}
	}
}

// A build tool that would have to download something is no evidence against an answer.
func TestUnusableOffline(t *testing.T) {
	for text, want := range map[string]bool{
		"Plugin org.apache.maven.plugins:maven-resources-plugin:2.6 could not be resolved: Cannot access central in offline mode": true,
		"No cached version of org.junit:junit:4.13 available for offline mode.":                                                   true,
		"Could not create local repository at /home/ann/.m2/repository":                                                           true,
		"calc.go:3:1: syntax error": false,
	} {
		p := &preflight{report: &runner.Report{Broken: text}, result: &jail.Result{End: jail.EndExit, ExitCode: 1}}
		if got := strings.HasPrefix(p.unusable(sdk.Checks{}), "the command is denied"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// A process of tests that crashes or does not start on the untouched tree is no evidence against an answer; a limit for
// each test is advised where the run has none.
func TestUnusableCrash(t *testing.T) {
	const fork = "[ERROR] Error occurred in starting fork, check output in log\n[ERROR] Process Exit Code: 1\n[ERROR] Crashed tests:\n[ERROR] a.BTest"
	for _, c := range []struct {
		report runner.Report
		end    jail.End
		want   string
	}{
		{runner.Report{Broken: fork}, jail.EndExit, "raise memory_mib"},
		{runner.Report{Broken: fork, Tests: []runner.Test{{Name: "t"}}}, jail.EndExit, ""},
		{runner.Report{Broken: "[ERROR] COMPILATION ERROR"}, jail.EndExit, ""},
		{runner.Report{}, jail.EndTimeout, "give each a limit"},
	} {
		p := &preflight{report: &c.report, result: &jail.Result{End: c.end, ExitCode: 1}}
		if got := p.unusable(sdk.Checks{}); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

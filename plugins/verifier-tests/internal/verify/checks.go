package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
)

// check is one requirement, and its result in each run.
type check struct {
	name         string
	isRequired   bool // from FailToPass: it cannot be left out as flaky
	isRegression bool // it passed on the untouched tree and is not named
	group        string
	isFixed      bool // it did not pass on the untouched tree
	same         bool // it failed there with the same output
	status       []runner.Status
	output       string
}

// results returns the deciding checks with their results in the first run.
func (j *judgement) results(report *runner.Report) []*check {
	var checks []*check
	for _, name := range j.checks.FailToPass {
		checks = append(checks, j.checkNamed(report, name, true))
	}
	for _, name := range j.checks.PassToPass {
		// With a log, SWE-bench's harness requires all of them.
		if j.strict || !j.before.failsBefore(name) {
			checks = append(checks, j.checkNamed(report, name, false))
		}
	}
	all := append(j.checkReported(report), j.missing(report)...)
	if len(checks) == 0 {
		return all
	}
	if j.strict || j.before == nil || len(j.checks.PassToPass) > 0 {
		return checks
	}
	return append(checks, j.regressionChecks(report, all)...)
}

// regressionChecks returns the checks of tests that passed on the untouched tree and that no name means.
func (j *judgement) regressionChecks(report *runner.Report, all []*check) []*check {
	passed, others := map[string]bool{}, map[string]int{} // several can have one name, in Node
	for _, test := range slices.Concat(j.before.report.Tests, j.before.rest.Tests) {
		all, known := passed[test.ID()]
		passed[test.ID()] = test.Status == runner.Pass && (all || !known)
	}
	for _, run := range []*runner.Report{report, j.before.report} {
		for _, test := range run.Tests {
			others[test.ID()]++
		}
		for _, name := range j.checks.FailToPass {
			for _, test := range run.Find(name) {
				others[test.ID()]--
			}
		}
	}
	return slices.DeleteFunc(all, func(c *check) bool {
		c.isRegression = true
		return !passed[c.name] || others[c.name] <= 0 || j.edits && c.status[0] == runner.Missing
	})
}

// checkNamed checks the tests that a name means: all of them must pass, except those that were already skipped,
// and no fewer must run than on the untouched tree.
func (j *judgement) checkNamed(report *runner.Report, name string, must bool) *check {
	before, found := j.before.tests(), report.Find(name)
	run := slices.DeleteFunc(slices.Clone(found), func(t runner.Test) bool {
		return t.Status == runner.Skip && before[placeOf(t)].Status == runner.Skip
	})
	if len(run) > 0 {
		found = run
	}
	status := runner.Worst(found)
	if status == runner.Pass && !j.edits && !j.strict && j.before.runs(name) > len(found) {
		status = runner.Missing
	}
	if j.strict && !must && status == runner.Skip {
		status = runner.Pass // the harness does not count a skipped test as a regression
	}
	c := &check{name: name, isRequired: must, status: []runner.Status{status}}
	for _, test := range found {
		if test.Status != runner.Fail {
			continue
		}
		if c.output = test.Output; !test.Is(name) {
			c.output = test.ID() + ":\n" + test.Output
		}
	}
	if status == runner.Missing {
		c.output = report.Broken
	}
	return c
}

func (j *judgement) checkReported(report *runner.Report) []*check {
	before := j.before.tests()
	j.skipped = nil
	var checks []*check
	for _, test := range report.Tests {
		was, known := before[placeOf(test)]
		if was.Status == runner.Missing && j.before != nil {
			found := j.before.rest.Find(test.ID())
			was.Status, was.Output = runner.Worst(found), (&runner.Report{Tests: found}).FirstFailure() // Missing if it is not found
		}
		if test.Status == runner.Skip && was.Status == runner.Missing && !report.Marked && j.before.isWithin(test) {
			j.skipped = append(j.skipped, test.ID())
		}
		skipped := test.Status == runner.Skip && slices.Contains([]runner.Status{runner.Missing, runner.Skip}, was.Status) // already skipped, or new
		if absent := test.Status == runner.Missing && known && was.Status == runner.Missing; skipped || absent {
			continue
		}
		checks = append(checks, &check{
			name: test.ID(), isRequired: j.before.failsBefore(test.ID()), status: []runner.Status{test.Status}, output: test.Output,
			group: test.Group, isFixed: was.Status != runner.Pass, same: test.Status == runner.Fail && was.Status == runner.Fail && plain(test.Output) == plain(was.Output),
		})
	}
	return checks
}

// isWithin reports whether a test is in what failed as a whole on the untouched tree.
func (p *preflight) isWithin(test runner.Test) bool {
	return p != nil && (p.report.Broken != "" || slices.ContainsFunc(p.report.Tests, func(t runner.Test) bool {
		isWhole := t.Status == runner.Fail && t.Group == test.Group && strings.HasPrefix(t.Name, "(")
		return isWhole || loads(&runner.Report{Tests: []runner.Test{test}}, t)
	}))
}

func (p *preflight) tests() map[string]runner.Test {
	tests := map[string]runner.Test{}
	if p != nil {
		for _, test := range p.report.Tests {
			if key := placeOf(test); tests[key].Status != runner.Fail { // several can have one name
				tests[key] = test
			}
		}
	}
	return tests
}

// placeOf returns a test's name with all that it lies in.
func placeOf(test runner.Test) string {
	return strings.Join(append(slices.Clone(test.Within), test.ID()), "\x00")
}

// runs returns the number of tests that a name means and that ran on the untouched tree.
func (p *preflight) runs(name string) (count int) {
	if p == nil {
		return 0
	}
	for _, test := range p.report.Find(name) {
		if test.Status != runner.Skip {
			count++
		}
	}
	return count
}

// missing returns the checks of tests that the untouched tree has and that no longer run. The subtests and
// parameters of a test can have other names, but there must be no fewer.
func (j *judgement) missing(report *runner.Report) []*check {
	if j.before == nil || j.before.report.IsWhole && !report.IsWhole {
		return nil
	}
	is, members := map[string]bool{}, map[string]int{}
	for _, test := range report.Tests {
		is[test.ID()], is[test.Group+"."+runner.PackageName] = true, true // the package builds now
		members[family(test)]++
	}
	for _, test := range j.before.report.Tests {
		members[family(test)]--
	}
	var checks []*check
	for _, test := range j.before.report.Tests {
		if j.mustStay(test, members) && !is[test.ID()] && !loads(report, test) {
			isRenamed := test.Status == runner.Pass && strings.ContainsAny(test.Name, "/[") && members[family(test)] >= 0
			checks = append(checks, &check{name: test.ID(), isRegression: isRenamed, status: []runner.Status{runner.Missing}, output: report.Broken})
		}
	}
	for _, name := range j.before.lost {
		if len(report.Find(name)) == 0 {
			checks = append(checks, &check{name: name, status: []runner.Status{runner.Missing}, output: report.Broken})
		}
	}
	return checks
}

// mustStay reports whether a test of the untouched tree must run under its name. members is the change in the
// number of tests of each family: its members can have other names in each run, such as times and addresses, if these
// have digits.
func (j *judgement) mustStay(test runner.Test, members map[string]int) bool {
	isOne := test.Name == runner.PackageName || !strings.HasPrefix(test.Name, "(")
	return (test.Status == runner.Pass || test.Status == runner.Fail && isOne) && (!strings.ContainsAny(test.Name, "/[") || !strings.ContainsAny(test.Name, "0123456789") || members[family(test)] < 0 && !j.edits)
}

// loads reports whether something that failed as a whole before, such as a module that could not be imported,
// has tests now.
func loads(report *runner.Report, module runner.Test) bool {
	return module.Status == runner.Fail && slices.ContainsFunc(report.Tests, func(t runner.Test) bool {
		return t.Group == module.Group && slices.Contains(t.Within, module.Name) || strings.HasPrefix(t.DottedName(), module.Name+".") || strings.Contains(t.DottedName(), "."+module.Name+".")
	})
}

// volatileText matches what differs between two runs of the same failure: times, addresses, line numbers, temporary paths
// and the judge's own folder and module, which pytest names with its report and unittest in tracebacks.
var volatileText = regexp.MustCompile(`\b\d\d:\d\d:\d\d(?:[.,]\d+)?|\.?stepfall[-_]\w{26}|\b\d+\.\d+ ?m?s\b|0x[0-9a-fA-F]+|:\d+\b|line \d+|/tmp/\S+`)

func plain(output string) string { return volatileText.ReplaceAllString(output, "") }

// leaveOut removes failed checks that failed with the same output before, if the answer has fixed others: they
// may be unrelated to it. Beside a fixed test nothing is surely so, not even what lacks the network: its code may be wrong,
// too. areSame means that what is left fails as before, too.
func (j *judgement) leaveOut(checks, failed []*check) (left []*check, areSame bool) {
	mended := map[string]bool{} // by group: a failure beside a fixed test may be part of the task
	for _, c := range checks {
		if c.isFixed && !slices.Contains(failed, c) {
			mended[c.group] = true
		}
	}
	areSame = len(mended) > 0
	var names []string
	for _, c := range failed {
		if areSame && c.same && !mended[c.group] {
			names = append(names, c.name)
		} else {
			left = append(left, c)
		}
	}
	if j.leftOut = len(names); j.leftOut > 0 {
		j.confidence = min(j.confidence, leftOutConfidence)
		j.notef("left out, because they fail as on the untouched tree: %s (name the tests that decide, by --fail-to-pass for instance)", strings.Join(names, ", "))
	}
	return left, areSame && !slices.ContainsFunc(left, func(c *check) bool { return !c.same })
}

// family returns the common name of subtests, or of tests with parameters.
func family(test runner.Test) string {
	if end := strings.IndexAny(test.Name, "/["); end > 0 {
		test.Name = test.Name[:end]
	}
	return test.ID()
}

func merge(checks, now []*check) {
	for _, c := range checks {
		status := runner.Missing
		if i := slices.IndexFunc(now, func(n *check) bool { return n.name == c.name }); i >= 0 {
			status = now[i].status[0]
		}
		c.status = append(c.status, status)
	}
}

package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// judgement is the state of reaching one verdict.
type judgement struct {
	checks sdk.Checks
	before *preflight
	result *jail.Result
	notes  []string
	// strict requires every named test, including those that fail on the untouched tree.
	strict bool
	// edits means that answers are allowed to change tests.
	edits bool
	// way is the value of [sdk.Verdict.Way].
	way string
	// configured are dropped files that determine how tests are built and run.
	configured []string
	// tests are the dropped test files, and added those of them that are new. regressed means that only tests
	// failed that passed on the untouched tree.
	tests     []string
	added     []string
	regressed bool
	// examples are the files in which the answer changes doctest examples.
	examples []string
	// skipped are tests that did not run on the untouched tree, because something failed there as a whole.
	skipped []string
	// flaky are the tests that passed in some runs and failed in others.
	flaky []string
	// dropped are the files whose changes are left out of the answer.
	dropped []string
	// leftOut is the number of tests that fail as on the untouched tree.
	leftOut int
	// confidence is the confidence of a pass. Flaky tests and tests that are left out lower it.
	confidence float64
	// isHidden means that a deciding test may compare unseen; see [alter.Source].
	isHidden bool
}

// readBy sets how the tests are judged, by a report of them.
func (j *judgement) readBy(report *runner.Report) {
	if report.IsWhole {
		j.way, j.confidence = "exit code", min(j.confidence, runner.ExitConfidence)
	}
}

func (j *judgement) notef(format string, arguments ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, arguments...))
}

func (j *judgement) noteFiles(what string, files []string) {
	if len(files) > 0 {
		j.notes = append(j.notes, what+strings.Join(files, ", "))
	}
}

// verdict returns a verdict with the isolation of the last run and all notes.
func (j *judgement) verdict(outcome sdk.Outcome, evidence string) *sdk.Verdict {
	verdict := &sdk.Verdict{Outcome: outcome, Way: j.way, LeftOut: j.dropped, Evidence: strings.TrimSpace(strings.Join(append([]string{evidence}, j.notes...), "\n"))}
	if j.result != nil {
		verdict.Isolation, verdict.IsolationMissing = j.result.Layers, j.result.Missing
	}
	return verdict
}

// ends describes the ends of runs that are failures of the answer, given that the untouched tree stays within the
// same limits.
var ends = map[jail.End]string{
	jail.EndTimeout:   "stopped: the run did not end in time",
	jail.EndMemory:    "stopped: the run exceeded its memory limit",
	jail.EndProcesses: "stopped: the run exceeded its process limit",
	jail.EndOutput:    "stopped: the run exceeded its output limit",
	jail.EndDisk:      "stopped: the run exceeded its disk limit",
	jail.EndLost:      "stopped: the run killed its own supervisor",
}

func (v *Verifier) judge(ctx context.Context, a *attempt, j *judgement) (*sdk.Verdict, error) {
	checks, last, stopped, err := v.runChecks(ctx, a, j)
	if stopped != nil || err != nil {
		return stopped, err
	}
	verdict := j.decide(checks)
	switch {
	case verdict.Outcome == sdk.Failed:
		if verdict, err = v.excuseCommand(ctx, a, j, last, j.excuse(verdict, checks)); err != nil {
			return nil, err
		}
		return v.excuseMachine(ctx, a, j, checks, verdict)
	case verdict.Outcome != sdk.Passed:
		return verdict, nil
	case len(j.examples) > 0:
		return j.verdict(sdk.Inconclusive, "it changes the examples by which it is tested: "+strings.Join(j.examples, ", ")), nil
	}
	if needy, err := v.needsTests(ctx, a, j); needy != nil || err != nil {
		return needy, err
	}
	verdict, err = v.tryExpectations(ctx, a, j, last, verdict)
	if err != nil || verdict.Outcome != sdk.Passed {
		return verdict, err
	}
	if v.runner.IsGo && (j.isHidden || verdict.Confidence < 1-partlyDoubt) {
		if reads, err := v.readsTests(ctx, a, j, last); reads != nil || err != nil {
			return reads, err
		}
	}
	if replaced := append(j.newNames(last.Replaced, func(p *preflight) []string { return p.report.Replaced }), a.commands()...); len(replaced) > 0 {
		return j.verdict(sdk.Inconclusive, "it puts code of its own in the place of the standard library's or the system's, by which its tests may judge: "+strings.Join(replaced, ", ")), nil
	}
	if files := a.callers(j, last); len(files) > 0 {
		return j.verdict(sdk.Inconclusive, "its code looks at what calls it, so what it gives a test need not be what it gives others: "+strings.Join(files, ", ")), nil
	}
	return verdict, nil
}

// runChecks runs the tests, and reruns them if some fail. It returns the results of the checks and the last
// report, or a verdict if a run is no evidence about them.
func (v *Verifier) runChecks(ctx context.Context, a *attempt, j *judgement) (checks []*check, last *runner.Report, stopped *sdk.Verdict, err error) {
	reruns := v.config.Reruns
	for run := 0; run <= reruns; run++ {
		last, j.result, err = v.run(ctx, a, false)
		if late := (*lateError)(nil); run == 0 && errors.As(err, &late) && late.result != nil {
			return nil, nil, j.lateVerdict(a, late), nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
		j.readBy(last)
		if stopped := j.checkStopped(last); stopped != nil {
			stopped, err = v.excuseCommand(ctx, a, j, last, stopped)
			return nil, nil, stopped, err
		}
		now := j.results(last)
		if run == 0 {
			checks = slices.Clone(now)
		} else {
			merge(checks, now)
		}
		bad := slices.DeleteFunc(now, func(c *check) bool { return c.status[0] == runner.Pass })
		if len(bad) == 0 {
			break
		}
		// What also fails on the untouched tree does not count for a rerun.
		if run == 0 && !slices.ContainsFunc(bad, func(c *check) bool { return !j.before.failsBefore(c.name) }) {
			reruns--
		}
	}
	return checks, last, nil, nil
}

// excuse makes the verdict on a failed answer inconclusive if the cause may be a dropped change.
func (j *judgement) excuse(verdict *sdk.Verdict, checks []*check) *sdk.Verdict {
	var failures strings.Builder
	for _, c := range checks {
		failures.WriteString(c.output)
	}
	if files := j.filesToRun(failures.String()); len(files) > 0 {
		// The tests may need the change, but the change could also fake any report.
		verdict.Outcome, verdict.Score, verdict.Confidence = sdk.Inconclusive, 0, 0
		verdict.Evidence = "without what it changes of how tests are built and run (" + strings.Join(files, ", ") + "): " + verdict.Evidence
		return verdict
	}
	if found := notFound.FindStringSubmatch(failures.String()); found != nil && j.before != nil && j.before.lacks == found[1] {
		return j.verdict(sdk.Inconclusive, "a script does not find a command, as on the untouched tree: "+found[1])
	}
	if isGone := func(c *check) bool {
		return c.status[0] == runner.Pass || c.isRegression && c.output == "" && !slices.Contains(c.status, runner.Fail)
	}; j.regressed && !slices.ContainsFunc(checks, func(c *check) bool { return !isGone(c) }) {
		// They may have run only because something was broken.
		return j.verdict(sdk.Inconclusive, "other tests pass, and these are not run any more: "+verdict.Evidence)
	}
	if len(j.tests) > 0 && j.regressed {
		// It may be right to change what they expect.
		return j.verdict(sdk.Inconclusive, "it changes tests ("+strings.Join(j.tests, ", ")+"), and fails some as they were: "+verdict.Evidence)
	}
	return verdict
}

// excuseCommand makes a failure inconclusive if the command, with only an exit code or without a test, fails as on the
// untouched tree, and fails so there whatever is in the tests and in the changed files: it does not come to reading
// them.
func (v *Verifier) excuseCommand(ctx context.Context, a *attempt, j *judgement, last *runner.Report, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	if verdict.Outcome != sdk.Failed || j.before == nil {
		return verdict, nil
	}
	e, before := v.newExpectations(a, j, last), j.before.report
	failure := last.FirstFailure()
	var changed []string
	for _, change := range a.changes {
		if last.IsWhole || isCode(change.Path) && a.tree.has(change.Path) {
			changed = append(changed, change.Path)
		}
	}
	switch {
	case last.IsWhole && len(e.files) > 0 && plain(failure) == plain(before.FirstFailure()):
		e.files = append(e.files, changed...)
	case len(changed) > 0 && len(last.Tests) == 0 && last.Broken != "" && plain(last.Broken) == plain(before.Broken):
		failure, e.files = last.Broken, changed // the tests need not be read to fail
	default:
		return verdict, nil
	}
	if read, err := e.areRead(ctx); read || err != nil {
		return verdict, err
	}
	return j.verdict(sdk.Inconclusive, "the command fails as on the untouched tree, before it reads its tests or what is changed:\n"+failure), nil
}

// excuseMachine makes a failure inconclusive if only tests failed that passed on the untouched tree, and now fail there
// as well: the machine is too busy for a test of times, or something that they need is away.
func (v *Verifier) excuseMachine(ctx context.Context, a *attempt, j *judgement, checks []*check, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	if verdict.Outcome != sdk.Failed || !j.regressed || j.before == nil || v.config.Reruns <= 0 {
		return verdict, nil
	}
	untouched := *a
	untouched.changes = j.before.pruned
	report, _, err := v.run(ctx, &untouched, false)
	if err != nil {
		return nil, err
	}
	isStable := func(c *check) bool {
		status, _ := report.Status(c.name) // Missing if it is not found
		return !c.same && !slices.Contains(c.status, runner.Pass) && (status == runner.Pass || !j.before.passes(runner.Test{Name: c.name}))
	}
	if report.Broken != "" || slices.ContainsFunc(checks, isStable) {
		return verdict, nil
	}
	return j.verdict(sdk.Inconclusive, "these tests passed on the untouched tree, and now fail there as well: "+verdict.Evidence), nil
}

// checkStopped returns the verdict on a run that left no usable report, or nil.
func (j *judgement) checkStopped(report *runner.Report) *sdk.Verdict {
	if j.result.End == jail.EndRefused {
		return j.verdict(sdk.Inconclusive, "required isolation is unavailable: "+strings.Join(j.result.Lacks, ", "))
	}
	if reason, ok := ends[j.result.End]; ok {
		outcome := sdk.Failed
		if j.before == nil && j.result.End == jail.EndTimeout {
			outcome = sdk.Inconclusive // without a pre-flight the tests themselves may be slow
		}
		return j.verdict(outcome, reason)
	}
	if report.Unfit == runner.TooMuchOutput {
		return j.verdict(sdk.Inconclusive, report.Unfit)
	}
	for _, sign := range []struct {
		what  string
		found []string
	}{
		{"the run wrote to the test files ", j.newNames(j.result.Touched, func(p *preflight) []string { return p.result.Touched })},
		{"", report.Tampering},
		{"other code ran in the place of the tests ", j.movedFiles(report)},
	} {
		if len(sign.found) > 0 {
			return j.verdict(sdk.Failed, "tampering: "+sign.what+strings.Join(sign.found, ", "))
		}
	}
	return j.checkBroken(report)
}

// checkBroken returns the verdict on a run that did not reach the deciding tests, or nil.
func (j *judgement) checkBroken(report *runner.Report) *sdk.Verdict {
	isNamed := len(j.checks.FailToPass)+len(j.checks.PassToPass) > 0
	asBefore := j.before != nil && plain(report.Broken) == plain(j.before.report.Broken) // another package's failure, or the one to fix
	if report.Broken == "" || len(report.Tests) > 0 && (asBefore || isNamed) {
		return nil
	}
	if j.before == nil && len(report.Tests) == 0 && j.result.ExitCode == 0 {
		return j.verdict(sdk.Inconclusive, "the command ran no test")
	}
	if files := j.filesToRun(report.Broken); len(files) > 0 {
		return j.verdict(sdk.Inconclusive, "without what it changes of how tests are built and run ("+strings.Join(files, ", ")+"), they do not run:\n"+report.Broken)
	}
	return j.verdict(sdk.Failed, "the tests do not run:\n"+report.Broken)
}

// filesToRun returns the dropped files that may be the reason why tests fail: settings, and new test files that
// the failures name, by folder and name or as a module.
func (j *judgement) filesToRun(failures string) []string {
	return append(slices.Clip(j.configured), slices.DeleteFunc(slices.Clone(j.added), func(file string) bool {
		base := path.Base(file)
		module := regexp.QuoteMeta(strings.TrimSuffix(base, path.Ext(base)))
		return !strings.Contains(failures, path.Join(path.Base(path.Dir(file)), base)) &&
			!regexp.MustCompile(`(?i)\b(?:module|import)\b.*['"./]`+module+`['"]`).MatchString(failures)
	})...)
}

// movedFiles returns the tests whose code came from another file in the pre-flight.
func (j *judgement) movedFiles(report *runner.Report) []string {
	if j.before == nil || j.edits {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(report.Places)), func(name string) bool {
		before, known := j.before.report.Places[name]
		return !known || before == report.Places[name]
	})
}

// newNames returns the names that the pre-flight did not have.
func (j *judgement) newNames(names []string, before func(*preflight) []string) []string {
	if j.before == nil {
		return names
	}
	known := before(j.before)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, name) })
}

// The confidence of a verdict if a test was flaky, and of a pass if failing tests were left out that may be part
// of the task. They are conventions.
const (
	flakyConfidence   = 0.9
	leftOutConfidence = 0.85
)

func (j *judgement) decide(checks []*check) *sdk.Verdict {
	var failed []*check
	passed, undecided := 0, false
	for _, c := range checks {
		passes := len(slices.DeleteFunc(slices.Clone(c.status), func(s runner.Status) bool { return s != runner.Pass }))
		switch {
		case passes == len(c.status):
			passed++
		case passes == 0:
			failed = append(failed, c)
		default:
			j.flaky = append(j.flaky, c.name)
			undecided, j.confidence = undecided || c.isRequired, min(j.confidence, flakyConfidence)
			j.notef("flaky: %s passed in %d of %d runs", c.name, passes, len(c.status))
		}
	}
	failed, areSame := j.leaveOut(checks, failed)
	j.regressed = !slices.ContainsFunc(failed, func(c *check) bool { return c.isRequired || c.isFixed })
	total := passed + len(failed)
	switch {
	case len(failed) > 0 && areSame:
		return j.verdict(sdk.Inconclusive, "others of their class, file or package pass now, and these fail as on the untouched tree, for reasons of their own or because they are part of the task (name the tests that decide, by --fail-to-pass for instance): "+describe(failed, total))
	case len(failed) > 0:
		return j.testVerdict(sdk.Failed, describe(failed, total), passed, total)
	case undecided:
		return j.verdict(sdk.Inconclusive, "a test that must pass is flaky")
	case total == 0:
		return j.verdict(sdk.Inconclusive, "no test ran")
	}
	if len(j.skipped) > 0 && len(j.checks.FailToPass) == 0 {
		j.notef("skipped, and not run on the untouched tree: %s", strings.Join(j.skipped, ", "))
		j.confidence = min(j.confidence, 1-unalteredDoubt)
		if fixed := slices.DeleteFunc(slices.Clone(checks), func(c *check) bool { return !c.isFixed }); len(j.skipped) > len(fixed) {
			return j.verdict(sdk.Inconclusive, "of the tests that did not run on the untouched tree, more are skipped than pass")
		}
	}
	evidence := fmt.Sprintf("%d of %d tests passed", passed, total)
	if stay := len(slices.DeleteFunc(slices.Clone(checks), func(c *check) bool { return !c.isRegression || slices.Contains(j.flaky, c.name) })); stay > 0 {
		evidence += fmt.Sprintf(", %d of which passed before and were not named", stay)
	}
	if j.leftOut > 0 {
		evidence += fmt.Sprintf(", and %d fail as on the untouched tree", j.leftOut)
	}
	return j.testVerdict(sdk.Passed, evidence, passed, total)
}

// testVerdict returns a verdict scored by the share of passed tests.
func (j *judgement) testVerdict(outcome sdk.Outcome, evidence string, passed, total int) *sdk.Verdict {
	verdict := j.verdict(outcome, evidence)
	verdict.Score = float64(passed) / float64(max(total, 1))
	if outcome == sdk.Passed || len(j.flaky) > 0 {
		verdict.Confidence = j.confidence
	}
	return verdict
}

// maxShown is the number of failures with output in the evidence.
const maxShown = 5

func describe(failed []*check, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d tests failed", len(failed), total)
	for i, c := range failed {
		if i == maxShown {
			fmt.Fprintf(&b, "\n... and %d more", len(failed)-maxShown)
			break
		}
		how := map[runner.Status]string{runner.Missing: "did not run", runner.Skip: "was skipped"}[c.status[0]]
		fmt.Fprintf(&b, "\n%s %s", c.name, cmp.Or(how, "failed"))
		if c.isRegression {
			b.WriteString(", and passed on the untouched tree")
		}
		if c.output != "" {
			b.WriteString("\n    " + strings.ReplaceAll(strings.TrimSpace(c.output), "\n", "\n    "))
		}
	}
	return b.String()
}

package verify

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
)

// readRecord returns the notes of a run by comparison (see [alter.Request]).
func readRecord(data []byte) map[string][]string {
	returned := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		if name, note, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && note != "" {
			returned[name] = append(returned[name], note)
		}
	}
	return returned
}

// comparisons returns the comparisons of the tests in the altered sources; watchpoints returns the watched places.
func (e *expectations) comparisons(tests []runner.Test) []alter.Comparison {
	return e.placesIn(tests, func(s alter.Source) []alter.Comparison { return s.Compared })
}

func (e *expectations) watchpoints(tests []runner.Test) []alter.Comparison {
	return e.placesIn(tests, func(s alter.Source) []alter.Comparison { return s.Watched })
}

func (e *expectations) placesIn(tests []runner.Test, places func(alter.Source) []alter.Comparison) []alter.Comparison {
	var all []alter.Comparison
	for _, source := range e.sources {
		all = append(all, slices.DeleteFunc(slices.Clone(places(source)), func(c alter.Comparison) bool {
			return !slices.ContainsFunc(tests, func(t runner.Test) bool { return e.isNamed(t, source.Path, []string{c.Test}) })
		})...)
	}
	return all
}

// unexpectedNotes returns the notes of unexpected values at a comparison, none if the expected values are unknown.
func unexpectedNotes(c alter.Comparison, notes []string) []string {
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool {
		return len(c.Values) == 0 || slices.ContainsFunc(c.Values, func(v string) bool { return v[1:] == note[1:] })
	})
}

// areExpected reports whether the notes are the expected values: row by row, or each row once in another order, such
// as that of a loop over a map.
func areExpected(c alter.Comparison, notes []string) bool {
	for i, note := range notes {
		if len(c.Values) > 0 && c.Values[i%len(c.Values)][1:] != note[1:] {
			return isSame(withoutMarks(notes), withoutMarks(c.Values))
		}
	}
	return true
}

func withoutMarks(notes []string) (values []string) {
	for _, note := range notes {
		values = append(values, note[1:])
	}
	return values
}

// titleOf returns the name of a test in a file, or says that it is computed or, with a whole command, unknown.
func titleOf(test, file string) string {
	switch test {
	case "*":
		return "a test with a computed title in " + file
	case "":
		return "a test in " + file
	}
	return test
}

// nameOf describes the test of a comparison, with the first unexpected value and the value that was expected before
// the alteration, if these are known.
func nameOf(c alter.Comparison, returned []string) string {
	file, _, _ := strings.Cut(c.Name, ":")
	name := titleOf(c.Test, file)
	const enough = 200
	for i, note := range returned {
		if len(c.Values) == 0 || c.Values[i%len(c.Values)][1:] == note[1:] {
			continue
		}
		return fmt.Sprintf("%s (expected %.*s, and %.*s was returned)", name, enough, c.Values[i%len(c.Values)][1:], enough, note[1:])
	}
	return name
}

// isTriedAgain reports whether a comparison finally held after failing, as in a test that retries or polls.
func isTriedAgain(c alter.Comparison, notes []string) bool {
	return len(c.Values) == 1 && len(notes) > 1 && len(unexpectedNotes(c, notes[len(notes)-1:])) == 0
}

// isReached reports whether a run reached one of the comparisons of a test.
func isReached(comparisons []alter.Comparison, returned map[string][]string) bool {
	return slices.ContainsFunc(comparisons, func(c alter.Comparison) bool { return len(returned[c.Name]) > 0 })
}

// maxRecord is the limit of a run's notes, in bytes; see [jail.Spec].
const maxRecord = 16 << 20

// errNotBuilt means that tests which record what the code returns do not run: they do not compile, or the command
// lints them first; or that they record more than is kept.
var errNotBuilt = errors.New("the tests are not built with notes")

var notCompiled = regexp.MustCompile(`build failed\]|could not compile|COMPILATION ERROR|Compilation failed`)

// isNotBuilt reports whether a run did not compile its tests, or in Go, where others can run all the same, none of them.
func isNotBuilt(broken string, ran int) bool {
	return notCompiled.MatchString(broken) || ran == 0 && compileError.MatchString(broken)
}

// compareReturned examines what the code returned with altered expectations. A correct answer returns what was
// expected before the alteration; then the verdict is nil without another run. Otherwise the tests run twice more:
// unaltered, to see whether they pass again and their comparisons are sound, and altered with comparisons held
// equal, since what a failed test leaves undone may affect later ones. In the latter run nothing reveals the altered
// values, so code that returns them has read them.
func (e *expectations) compareReturned(ctx context.Context, tests, survivors, failed []runner.Test) (*sdk.Verdict, error) {
	if e.isFull {
		return nil, errNotBuilt
	}
	if verdict, err := e.compareBeside(ctx, tests); verdict != nil || err != nil {
		return verdict, err
	}
	odd, unreached := e.odd(survivors, failed, tests)
	if len(unreached)+len(odd) > 0 && len(e.data) > 0 { // altered data can be the code's input
		survivors, failed, err := e.rerun(ctx, alter.Expectation, tests)
		if err != nil {
			return nil, err
		}
		odd, unreached = e.odd(survivors, failed, tests)
	}
	if test := e.swallowingTest(tests); len(unreached)+len(odd) == 0 && test != "" {
		if verdict, err := e.runNoted(ctx, tests); verdict != nil || err != nil {
			return verdict, err
		}
		e.returned = e.expected
	}
	if len(unreached)+len(odd) == 0 {
		return e.compareRest(ctx, failed)
	}
	tests = append(slices.Clone(tests), slices.DeleteFunc(without(e.all, tests), func(t runner.Test) bool {
		return !slices.ContainsFunc(e.comparisons([]runner.Test{t}), func(c alter.Comparison) bool { return hasComparison(odd, c) })
	})...)
	if verdict, err := e.runNoted(ctx, tests); verdict != nil || err != nil {
		return verdict, err
	}
	noted := e.returned
	for _, test := range unreached {
		if !isReached(e.comparisons([]runner.Test{test}), noted) {
			return e.j.verdict(sdk.Inconclusive, "what the code returns in this test is never noted: "+test.ID()), nil
		}
	}
	passed, _, err := e.rerun(ctx, alter.Hold, tests)
	if err != nil {
		return nil, err
	}
	e.held = e.returned
	odd = append(odd, e.comparisons(unreached)...)
	for _, c := range e.comparisons(tests) { // those that no other run reached
		if !areExpected(c, e.held[c.Name]) && !hasComparison(odd, c) {
			odd = append(odd, c)
		}
	}
	return e.heldVerdict(ctx, odd, noted, tests, len(passed) == len(tests))
}

// compareBeside examines the assertions besides those that were altered: these must hold as before. If one fails each
// time, but not when the tests run unaltered, the code depends on what its tests expect, or reads their sources,
// which are missing.
func (e *expectations) compareBeside(ctx context.Context, tests []runner.Test) (*sdk.Verdict, error) {
	altered, failing := e.returned, e.failingBeside(tests)
	defer func() { e.returned = altered }()
	for _, way := range []alter.Way{alter.Hold, alter.Record} {
		if len(failing) == 0 {
			return nil, nil
		}
		passed, _, err := e.rerun(ctx, way, tests)
		if err != nil {
			return nil, err
		}
		now := e.failingBeside(tests)
		failing = slices.DeleteFunc(failing, func(c alter.Comparison) bool {
			file, _, _ := strings.Cut(c.Name, ":")
			isExpected := way == alter.Record && slices.ContainsFunc(passed, func(t runner.Test) bool { return e.isNamed(t, file, []string{c.Test}) })
			return hasComparison(now, c) == isExpected
		})
	}
	if len(failing) == 0 {
		return nil, nil
	}
	return e.j.verdict(sdk.Inconclusive, "an assertion fails beside those whose expectations are altered, or where the sources of tests are not: "+failing[0].Test), nil
}

// failingBeside returns the watched places, besides what is altered, at which tests failed in the last run.
func (e *expectations) failingBeside(tests []runner.Test) []alter.Comparison {
	return slices.DeleteFunc(e.watchpoints(tests), func(c alter.Comparison) bool {
		return !c.Beside || !slices.Contains(e.returned[c.Name], "=false")
	})
}

// compareRest examines what the code returned after the first comparison of a test, at which altered expectations
// end it: it reruns the tests with each comparison held equal, so that they run to their end.
func (e *expectations) compareRest(ctx context.Context, failed []runner.Test) (*sdk.Verdict, error) {
	tests := slices.DeleteFunc(slices.Clone(failed), func(t runner.Test) bool { return !e.isConfirmed(t) || e.isConfirmedWhole(t) })
	if len(tests) == 0 || e.isFull {
		return nil, nil
	}
	passed, _, err := e.rerun(ctx, alter.Hold, tests)
	if err != nil || e.isFull {
		return nil, err
	}
	e.held = e.returned
	odd := slices.DeleteFunc(e.comparisons(tests), func(c alter.Comparison) bool { return areExpected(c, e.held[c.Name]) })
	if len(odd) == 0 && len(passed) == len(tests) {
		return nil, nil
	}
	if verdict, err := e.runNoted(ctx, tests); verdict != nil || err != nil {
		return verdict, err
	}
	for _, c := range e.comparisons(tests) { // those reached only by the unaltered tests
		if len(e.held[c.Name]) < len(e.returned[c.Name]) && !hasComparison(odd, c) {
			odd = append(odd, c)
		}
	}
	return e.heldVerdict(ctx, odd, e.returned, tests, len(passed) == len(tests))
}

// heldVerdict returns the verdict on comparisons that got another value with altered expectations, by comparing the
// notes of the unaltered run with those of the run in which comparisons were held equal. It is nil if the code is not
// to blame.
func (e *expectations) heldVerdict(ctx context.Context, odd []alter.Comparison, noted map[string][]string, tests []runner.Test, allPass bool) (*sdk.Verdict, error) {
	odd, err := e.withoutOld(ctx, alter.Hold, odd, e.held)
	if err != nil {
		return nil, err
	}
	var again map[string][]string // the notes of a second unaltered run
	for _, c := range odd {
		switch {
		case len(unexpectedNotes(c, noted[c.Name])) > 0 || e.goesOn(c, noted):
			e.setUnknown("a comparison passes with another value than the one that is known to be expected", nameOf(c, noted[c.Name]))
			continue
		case len(unexpectedNotes(c, e.held[c.Name])) == 0 && isSame(noted[c.Name], e.held[c.Name]):
			e.hanging = append(e.hanging, c)
			continue
		case again == nil:
			if _, _, err := e.rerun(ctx, alter.Record, tests); err != nil {
				return nil, err
			}
			again = e.returned
		}
		switch {
		case !hasSameValues(noted[c.Name], again[c.Name]):
			e.setUnknown("the code returns something else in each run", nameOf(c, nil))
		case !allPass || c.Handed:
			return e.j.verdict(sdk.Inconclusive, "the code returns something else where its tests expect something else, or they depend on each other: "+nameOf(c, e.held[c.Name])), nil
		default:
			return e.j.verdict(sdk.Failed, "tampering: the code returns something else where its tests expect something else: "+nameOf(c, e.held[c.Name])), nil
		}
	}
	return nil, nil
}

// goesOn reports whether the test of a comparison continues while another comparison in it differs, like a loop that
// runs until values are equal: it behaves differently if comparisons are held equal.
func (e *expectations) goesOn(c alter.Comparison, noted map[string][]string) bool {
	file := func(c alter.Comparison) string { return c.Name[:strings.LastIndexByte(c.Name, ':')] }
	for _, source := range e.sources {
		for _, o := range source.Compared {
			if (o.Lenient || isTriedAgain(o, noted[o.Name])) && o.Test == c.Test && file(o) == file(c) && len(unexpectedNotes(o, noted[o.Name])) > 0 {
				return true
			}
		}
	}
	return false
}

// isSame reports whether the notes are the same in any order, since tests can run in any order.
func isSame(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// hasSameValues reports whether the notes have the same set of values.
func hasSameValues(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// runNoted runs the tests unaltered, with recording. The verdict is nil if they pass again and the code returns what
// they expect.
func (e *expectations) runNoted(ctx context.Context, tests []runner.Test) (*sdk.Verdict, error) {
	passed, _, err := e.rerun(ctx, alter.Record, tests)
	// Shell scripts are not compiled: one that succeeds and records nothing did not reach its comparisons.
	isShell := !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return alter.Language(s.Path) != "sh" })
	switch {
	case err != nil:
		return nil, err
	case e.isFull, len(e.returned) == 0 && (e.whole && (!isShell || len(passed) == 0) || isNotBuilt(e.broken, len(passed))):
		return nil, errNotBuilt
	case len(passed) < len(tests):
		return e.j.verdict(sdk.Inconclusive, "a test passed, and did not when it ran again and noted what the code returned: "+without(tests, passed)[0].ID()), nil
	}
	if test := e.swallowingTest(tests); test != "" {
		return e.j.verdict(sdk.Inconclusive, "a test passes although an assertion in it fails, or is about what is no number: "+test), nil
	}
	comparisons := e.comparisons(tests)
	if e.whole && !isShell && len(comparisons) > 0 && !isReached(comparisons, e.returned) {
		return nil, errNotBuilt // all of them are in files that the command does not run
	}
	returned := e.returned
	verdict := e.blindVerdict(comparisons, returned)
	if verdict != nil {
		comparisons, err = e.withoutOld(ctx, alter.Record, comparisons, returned)
		verdict, e.returned = e.blindVerdict(comparisons, returned), returned
	}
	return verdict, err
}

// swallowingTest returns a test that passed in the last run although an assertion in it failed that must hold whatever
// is expected, or "". If the assertion may fail on purpose, it is unknown whether the code is meant to catch that.
func (e *expectations) swallowingTest(tests []runner.Test) string {
	for _, c := range e.watchpoints(tests) {
		switch notes := e.returned[c.Name]; {
		case c.Beside || len(notes) == 0 || notes[len(notes)-1] != "=false":
		case !c.Lenient:
			return nameOf(c, nil)
		default:
			e.setUnknown("an assertion fails on purpose", nameOf(c, nil))
		}
	}
	return ""
}

// hangs reports whether a test depends on the state that earlier, altered tests leave.
func (e *expectations) hangs(test runner.Test) bool {
	return slices.ContainsFunc(e.comparisons([]runner.Test{test}), func(c alter.Comparison) bool { return hasComparison(e.hanging, c) })
}

// withoutUnaltered removes survivors among tests that run the same comparison with several rows, if every value that
// changed was noticed: the rows that passed expect the same as before, as a set of the same letters in another order
// does.
func (e *expectations) withoutUnaltered(ctx context.Context, survivors, failed []runner.Test) ([]runner.Test, error) {
	altered := e.expected
	if len(survivors) == 0 || !slices.ContainsFunc(e.comparisons(survivors), func(c alter.Comparison) bool { return len(altered[c.Name+"="]) > 0 }) {
		return survivors, nil
	}
	if slices.ContainsFunc(e.comparisons(survivors), func(c alter.Comparison) bool { return len(c.Values) == 0 }) {
		if _, _, err := e.rerun(ctx, alter.Record, append(slices.Clone(survivors), failed...)); err != nil {
			return nil, err
		}
	}
	isUnnoticed := func(c alter.Comparison) bool {
		isWithout := func(t runner.Test) bool { return !hasComparison(e.comparisons([]runner.Test{t}), c) }
		passing, failing := len(slices.DeleteFunc(slices.Clone(survivors), isWithout)), len(slices.DeleteFunc(slices.Clone(failed), isWithout))
		perTest := max(1, len(altered[c.Name+"="])/max(1, passing+failing)) // a test that continues after a failure records several
		before := c.Values
		if len(before) == 0 {
			before = e.returned[c.Name+"="]
		}
		return failing == 0 || countChanged(before, altered[c.Name+"="]) > failing*perTest
	}
	return slices.DeleteFunc(survivors, func(t runner.Test) bool {
		own := e.comparisons([]runner.Test{t})
		return len(own) > 0 && !slices.ContainsFunc(own, isUnnoticed)
	}), nil
}

// countChanged counts the notes that differ from those in the same row before.
func countChanged(before, after []string) (changed int) {
	for i, note := range after {
		if len(before) == 0 || note[1:] != before[i%len(before)][1:] {
			changed++
		}
	}
	return changed
}

func hasComparison(all []alter.Comparison, c alter.Comparison) bool {
	return slices.ContainsFunc(all, func(o alter.Comparison) bool { return o.Name == c.Name })
}

// odd returns the comparisons that got another value than is expected unaltered, and the tests that failed, or did
// not run at all, without reaching any of their comparisons.
func (e *expectations) odd(survivors, failed, tests []runner.Test) ([]alter.Comparison, []runner.Test) {
	if len(survivors)+len(failed) == 0 {
		failed = tests
	}
	unreached := slices.DeleteFunc(slices.Clone(failed), func(t runner.Test) bool {
		own := e.comparisons([]runner.Test{t})
		return len(own) == 0 || isReached(own, e.returned)
	})
	return slices.DeleteFunc(e.comparisons(e.all), func(c alter.Comparison) bool { return areExpected(c, e.returned[c.Name]) }), unreached
}

// blindVerdict returns the verdict on tests that pass although the code returns something else than they expect, or
// nil. What a value of the code's own type equals is unknown.
func (e *expectations) blindVerdict(comparisons []alter.Comparison, returned map[string][]string) *sdk.Verdict {
	var inconclusive *sdk.Verdict
	for _, c := range comparisons {
		different := unexpectedNotes(c, returned[c.Name])
		if c.Lenient || len(different) == 0 || len(unexpectedNotes(c, returned[c.Name+"="])) > 0 || isTriedAgain(c, returned[c.Name]) { // the expected value is not known
			continue
		}
		hasMark := func(marks string) bool {
			return slices.ContainsFunc(different, func(note string) bool { return strings.Contains(marks, note[:1]) })
		}
		if hasMark("=!") && !c.Handed {
			return e.j.verdict(sdk.Failed, "tampering: a test passes although what the code returns is not what it expects: "+nameOf(c, returned[c.Name]))
		}
		if c.Handed {
			inconclusive = e.j.verdict(sdk.Inconclusive, "a test passes although a comparison fails in a function that the code is given, by mistake or on purpose: "+nameOf(c, returned[c.Name]))
		} else if hasMark("~") {
			inconclusive = e.j.verdict(sdk.Inconclusive, "a test compares by a method of the code's own, which takes something else for what it expects: "+nameOf(c, returned[c.Name]))
		}
	}
	return inconclusive
}

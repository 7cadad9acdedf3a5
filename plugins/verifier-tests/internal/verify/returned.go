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

// readRecord returns the notes of a run by the names of comparisons (see [alter.Request]).
func readRecord(data []byte) map[string][]string {
	returned := map[string][]string{}
	for line := range strings.Lines(string(data)) {
		if name, note, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && note != "" {
			returned[name] = append(returned[name], note)
		}
	}
	return returned
}

// comparisons are those in the altered sources that lie in one of the tests, watchpoints the places
// there that note whether something is so.
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

// others are the notes of what is not expected at a comparison, where that is known.
func others(c alter.Comparison, notes []string) []string {
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool {
		return len(c.Values) == 0 || slices.ContainsFunc(c.Values, func(v string) bool { return v[1:] == note[1:] })
	})
}

// areExpected reports whether the notes are what is expected: row by row, or each row once where the
// order is another, as that of a loop over a map.
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

// titleOf is the name of a test of a file, or says that it is computed.
func titleOf(test, file string) string {
	if test == "*" {
		return "a test with a computed title in " + file
	}
	return test
}

// nameOf names the test of a comparison, with what that expected before it was altered and the
// first other of what the code returned, where these are known.
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

// isTriedAgain reports whether a comparison held at last, as what retries or waits has it.
func isTriedAgain(c alter.Comparison, notes []string) bool {
	return len(c.Values) == 1 && len(notes) > 1 && len(others(c, notes[len(notes)-1:])) == 0
}

// isReached reports whether a run came to one of the comparisons of a test.
func isReached(comparisons []alter.Comparison, returned map[string][]string) bool {
	return slices.ContainsFunc(comparisons, func(c alter.Comparison) bool { return len(returned[c.Name]) > 0 })
}

// maxRecord is what is kept of the notes of a run, in bytes: see [jail.Spec].
const maxRecord = 16 << 20

// errNotBuilt says that tests which note what the code returns do not run: they are not
// built, or the command has them read by a linter first. It says, too, that they note more
// than is kept.
var errNotBuilt = errors.New("the tests are not built with notes")

// notCompiled matches what compilers say.
var notCompiled = regexp.MustCompile(`build failed\]|could not compile|COMPILATION ERROR|Compilation failed`)

// compareReturned looks at what the code returned where expectations were altered. A right
// answer returns there what was expected before they were, so that the verdict is nil
// without another run. Else the tests run twice more: as they are, to see whether they pass
// again and compare as they should, and altered so that no test notices, since what a test
// leaves undone may be what a later one would find. Nothing in the second of these runs says
// what is expected, so that what returns it there knows it.
func (e *expectations) compareReturned(ctx context.Context, tests, survivors, failed []runner.Test) (*sdk.Verdict, error) {
	if e.isFull {
		return nil, errNotBuilt
	}
	if verdict, err := e.compareBeside(ctx, tests); verdict != nil || err != nil {
		return verdict, err
	}
	odd, unreached := e.odd(survivors, failed, tests)
	if len(unreached)+len(odd) > 0 && len(e.data) > 0 { // which may be what the code is given
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
	for _, c := range e.comparisons(tests) { // those that no other run came to
		if !areExpected(c, e.held[c.Name]) && !hasComparison(odd, c) {
			odd = append(odd, c)
		}
	}
	return e.heldVerdict(ctx, odd, noted, tests, len(passed) == len(tests))
}

// compareBeside looks at the assertions beside those whose expectations were altered: they hold as
// before. What fails there each time, and not as the tests were, goes by what its tests expect, or
// reads their sources, which are not there.
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

// failingBeside are the places beside what is altered at which tests failed in the last run.
func (e *expectations) failingBeside(tests []runner.Test) []alter.Comparison {
	return slices.DeleteFunc(e.watchpoints(tests), func(c alter.Comparison) bool {
		return !c.Beside || !slices.Contains(e.returned[c.Name], "=false")
	})
}

// compareRest looks at what the code returned behind the first comparison of a test, which
// ends one with altered expectations: the tests run to their end where each is held equal.
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
	for _, c := range e.comparisons(tests) { // those that the tests came to as they were alone
		if len(e.held[c.Name]) < len(e.returned[c.Name]) && !hasComparison(odd, c) {
			odd = append(odd, c)
		}
	}
	return e.heldVerdict(ctx, odd, e.returned, tests, len(passed) == len(tests))
}

// heldVerdict is that on comparisons at which something else was returned with altered
// expectations, by what is noted there without and where each was held equal. It is nil where
// that is no fault of the code.
func (e *expectations) heldVerdict(ctx context.Context, odd []alter.Comparison, noted map[string][]string, tests []runner.Test, allPass bool) (*sdk.Verdict, error) {
	var again map[string][]string // what is noted in one more run without
	for _, c := range odd {
		switch {
		case len(others(c, noted[c.Name])) > 0 || e.goesOn(c, noted):
			e.setUnknown("a comparison passes with another value than the one that is known to be expected", nameOf(c, noted[c.Name]))
			continue
		case len(others(c, e.held[c.Name])) == 0 && isSame(noted[c.Name], e.held[c.Name]):
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
			return e.j.verdict(sdk.Inconclusive, "the code returns something else where its tests expect something else, or they hang on each other: "+nameOf(c, e.held[c.Name])), nil
		default:
			return e.j.verdict(sdk.Failed, "tampering: the code returns something else where its tests expect something else: "+nameOf(c, e.held[c.Name])), nil
		}
	}
	return nil, nil
}

// goesOn reports whether the test of a comparison goes on where others differ, as a loop does
// that runs until one is equal: where they come out as equal it is another test.
func (e *expectations) goesOn(c alter.Comparison, noted map[string][]string) bool {
	file := func(c alter.Comparison) string { return c.Name[:strings.LastIndexByte(c.Name, ':')] }
	for _, source := range e.sources {
		for _, o := range source.Compared {
			if (o.Lenient || isTriedAgain(o, noted[o.Name])) && o.Test == c.Test && file(o) == file(c) && len(others(o, noted[o.Name])) > 0 {
				return true
			}
		}
	}
	return false
}

// isSame reports whether the notes are the same, in whatever order tests run.
func isSame(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// hasSameValues reports whether the notes hold the same, however often.
func hasSameValues(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// runNoted runs the tests as they were, with notes. The verdict is nil where they pass
// again, and what the code returns is what they expect.
func (e *expectations) runNoted(ctx context.Context, tests []runner.Test) (*sdk.Verdict, error) {
	passed, _, err := e.rerun(ctx, alter.Record, tests)
	// Of shell nothing is compiled: what ends well and notes nothing did not come there.
	isShell := !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return alter.Language(s.Path) != "sh" })
	switch {
	case err != nil:
		return nil, err
	case e.isFull, len(e.returned) == 0 && (e.whole && (!isShell || len(passed) == 0) || notCompiled.MatchString(e.broken)):
		return nil, errNotBuilt
	case len(passed) < len(tests):
		return e.j.verdict(sdk.Inconclusive, "a test passed, and did not when it ran again and noted what the code returned: "+without(tests, passed)[0].ID()), nil
	}
	if test := e.swallowingTest(tests); test != "" {
		return e.j.verdict(sdk.Inconclusive, "a test passes although an assertion in it fails, or is about what is no number: "+test), nil
	}
	return e.blindVerdict(e.comparisons(tests), e.returned), nil
}

// swallowingTest returns a test in which something was not so at last in the last run that must be
// so whatever is expected, or "". Where it fails on purpose nobody knows whether the code is to
// catch it, or not to come there.
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

// hangs reports whether what a test finds hangs on those before it, which were altered.
func (e *expectations) hangs(test runner.Test) bool {
	return slices.ContainsFunc(e.comparisons([]runner.Test{test}), func(c alter.Comparison) bool { return hasComparison(e.hanging, c) })
}

// withoutUnaltered leaves out the survivors of tests that are run with several rows, some of
// which failed, where each altered value was noticed: the rows that passed expect what they did
// before, as a set of the same letters in another order.
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
		perTest := max(1, len(altered[c.Name+"="])/max(1, passing+failing)) // which goes on where one is noticed
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

// countChanged counts the notes that are others in their place, row by row.
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

// odd returns the comparisons that were given something else than is expected unaltered,
// and the tests that failed, or did not run at all, and came to none of their comparisons.
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

// blindVerdict is that on tests which pass although the code returns something else than
// they expect; nil where there are none. Of types that are not the language's own nobody knows
// what they are equal to.
func (e *expectations) blindVerdict(comparisons []alter.Comparison, returned map[string][]string) *sdk.Verdict {
	var inconclusive *sdk.Verdict
	for _, c := range comparisons {
		different := others(c, returned[c.Name])
		if c.Lenient || len(different) == 0 || len(others(c, returned[c.Name+"="])) > 0 || isTriedAgain(c, returned[c.Name]) { // it is not known what it expects
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

package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
)

// expectations reruns the tests that an answer has passed with their expectations altered on disk. A correct
// answer then fails, and so does a wrong one, except if it forges its result or reads what is expected.
type expectations struct {
	v *Verifier
	a *attempt
	j *judgement
	// passed is the report of the run that passed; all are its tests with altered expectations.
	passed *runner.Report
	all    []runner.Test
	// whole means that the command has only an exit code: it is one test.
	whole bool
	// folder is that of the -C of a go test command.
	folder string
	seed   uint64
	// files are those in which expectations are searched for, data those from which tests read them.
	files []string
	data  []string
	// sources are the altered files with their tests.
	sources []alter.Source
	// isRest means that the expectations left unchanged at first are altered; see [alter.Request].
	isRest bool
	// fault is the reason why the expectations in a file could not be altered, or "".
	fault string
	// wrote are the data files that the last run wrote to.
	wrote []string
	// record is the file in which comparisons record what the code returned; returned has the notes of the
	// last run by comparison. isFull means that the file reached its limit.
	record   string
	returned map[string][]string
	isFull   bool
	// isFlooded means that a record was full, with lines that no comparison writes.
	isFlooded bool
	// broken is the reason why the last run had no tests. restored are the lines of tests that did not compile in it
	// when they were altered, and were put back.
	broken   string
	restored []alter.Comparison
	// expected is the value of returned after the first run with altered expectations.
	expected map[string][]string
	// held is the value of returned after the run in which each comparison was held equal.
	held map[string][]string
	// hanging are the comparisons of tests that depend on the state that earlier tests leave: with true
	// expectations they get what they expect.
	hanging []alter.Comparison
	// unknown describes a comparison that passes with a value that is not known to be expected, and why; "" if
	// there is none.
	unknown string
	// answered are the tests whose questions the code answers correctly outside of tests; differing are the
	// questions that it answers differently there. See askOutside.
	answered  []runner.Test
	differing []alter.Question
	// asking is the time of the first question.
	asking time.Time
}

// maxSeed limits a seed, which must be exact as a JavaScript number.
const maxSeed = 1 << 53

// The probability that a pass is wrong, after altered expectations: if nothing is known; if tests notice
// alterations; if for some of these tests it was also seen that the code returns what they expect unaltered. Each
// further such test quarters it. These values are conventions, like the confidence of a [runner.Runner].
const (
	unalteredDoubt = 0.2
	unnotedDoubt   = 0.15
	partlyDoubt    = 0.1
)

// setUnknown keeps the first reason why the value that a test expects is not known.
func (e *expectations) setUnknown(why, test string) { e.unknown = cmp.Or(e.unknown, why+": "+test) }

func doubt(verdict *sdk.Verdict, by float64) { verdict.Confidence = min(verdict.Confidence, 1-by) }

func (v *Verifier) newExpectations(a *attempt, j *judgement, passed *runner.Report) *expectations {
	e := &expectations{v: v, a: a, j: j, passed: passed, whole: passed.IsWhole, seed: rand.Uint64N(maxSeed), record: fmt.Sprintf(".stepfall-%x", rand.Uint64())}
	if v.runner.IsGo {
		e.folder = runner.Folder(v.config.Command)
	}
	from := *passed
	if j.before != nil { // tests of a file may not have run
		from.Files = slices.Concat(passed.Files, j.before.report.Files)
	}
	code := v.testCode(a.tree, &from)
	e.files = slices.DeleteFunc(slices.Clone(code), func(file string) bool { return alter.Language(file) == "" })
	e.data = v.testData(a.tree, code, passed.IsWhole)
	return e
}

// tryExpectations reruns the tests of a passed answer with altered expectations and adds the result to the
// verdict. It fails an answer whose tests pass whatever they expect, and makes the verdict inconclusive if that is
// possible.
func (v *Verifier) tryExpectations(ctx context.Context, a *attempt, j *judgement, passed *runner.Report, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	e := v.newExpectations(a, j, passed)
	var err error
	if e.sources, err = e.alter(ctx, alter.Expectation, a.changes, len(e.data) > 0); err != nil {
		return nil, err
	}
	tests, unaltered := e.alteredTests()
	if file := e.withoutTests(); file != "" {
		return j.verdict(sdk.Inconclusive, "the tests in this file are not run any more: "+file), nil
	}
	if text := e.namedData(tests); text != "" {
		return j.verdict(sdk.Inconclusive, fmt.Sprintf("the code reads what its tests expect: it names %q, as no code but theirs did before", text)), nil
	}
	if len(tests) == 0 {
		return e.withoutAlterations(ctx, verdict)
	}
	j.isHidden = slices.ContainsFunc(tests, func(t runner.Test) bool {
		return slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Hidden) })
	})
	if e.fault != "" {
		verdict.Evidence += "\nno expectation could be altered in " + e.fault
	}
	if len(unaltered) > 0 {
		doubt(verdict, unnotedDoubt)
		verdict.Evidence += fmt.Sprintf("\nno expectation could be altered in %d of %d tests that must pass, such as %s", len(unaltered), len(tests)+len(unaltered), unaltered[0].ID())
	}
	if text := e.unseen(tests); text != "" {
		doubt(verdict, unnotedDoubt)
		verdict.Evidence += "\n" + text
	}
	if err := e.askOutside(ctx, tests); err != nil {
		return nil, err
	}
	rest := without(tests, e.answered)
	if len(rest) == 0 {
		verdict.Evidence += fmt.Sprintf("\n%d of %d tests are answered right where no test runs", len(tests), len(tests))
		doubt(verdict, unalteredDoubt*math.Pow(0.25, float64(len(tests))))
		return e.withDiffering(verdict), nil
	}
	verdict, err = e.tryAltered(ctx, rest, verdict)
	if err == nil && e.isFlooded {
		return j.verdict(sdk.Failed, "tampering: the code writes into what the tests note of it"), nil
	}
	if err == nil && verdict.Outcome == sdk.Passed {
		verdict, err = e.tryRest(ctx, rest, verdict)
	}
	if err != nil || verdict.Outcome != sdk.Passed {
		return verdict, err
	}
	return e.withDiffering(verdict), nil
}

// unseen says what one of the tests compares, or may, without an altered expectation; "" if none does.
func (e *expectations) unseen(tests []runner.Test) string {
	for _, source := range e.sources {
		for _, u := range source.Unseen {
			if slices.ContainsFunc(tests, func(t runner.Test) bool { return e.isNamed(t, source.Path, []string{u.Test}) }) {
				return fmt.Sprintf("what %s compares by %s was not seen", titleOf(u.Test, source.Path), strings.TrimRight(u.Text, ";,"))
			}
		}
	}
	return ""
}

// withDiffering makes a pass inconclusive, or lowers its confidence, if questions are answered differently from
// what tests expect.
func (e *expectations) withDiffering(verdict *sdk.Verdict) *sdk.Verdict {
	if len(e.differing) == 0 {
		return verdict
	}
	const otherwise = "the code answers otherwise where no test runs: "
	if alone := slices.IndexFunc(e.differing, func(q alter.Question) bool { return q.Alone }); alone >= 0 {
		return e.j.verdict(sdk.Inconclusive, otherwise+titleOf(e.differing[alone].Test, e.differing[alone].File))
	}
	return e.withReason(verdict, otherwise+titleOf(e.differing[0].Test, e.differing[0].File))
}

// tryAltered runs tests with altered expectations; see tryExpectations.
func (e *expectations) tryAltered(ctx context.Context, tests []runner.Test, verdict *sdk.Verdict) (_ *sdk.Verdict, err error) {
	survivors, failed, different, err := e.runCompared(ctx, tests)
	if e.mayBeChance(tests, survivors) && different == nil && err == nil {
		e.seed++
		if e.sources, err = e.alter(ctx, alter.Expectation, e.a.changes, len(e.data) > 0); err == nil {
			survivors, failed, different, err = e.runCompared(ctx, tests)
		}
	}
	if different != nil || err != nil {
		return different, err
	}
	for _, line := range e.restored {
		verdict.Evidence += "\nunaltered, since it does not compile otherwise: " + line.Name
	}
	if survivors, err = e.withoutUnaltered(ctx, survivors, failed); err != nil {
		return nil, err
	}
	return e.tryAccusing(ctx, tests, survivors, failed, verdict)
}

// mayBeChance reports whether so few tests failed, and so few different expected values were returned in them, that
// code could return the altered values by chance.
func (e *expectations) mayBeChance(tests, survivors []runner.Test) bool {
	const few = 2
	values := map[string]bool{}
	for _, c := range e.comparisons(tests) {
		if len(c.Values) > 0 && areExpected(c, e.expected[c.Name]) {
			for _, note := range e.expected[c.Name] {
				values[note] = true
			}
		}
	}
	return max(len(tests), len(values)) <= few && e.record != "" && len(survivors) == 0
}

// tryAccusing returns the accusation of the survivors, or else the verdict weighed by the tests that failed.
func (e *expectations) tryAccusing(ctx context.Context, tests, survivors, failed []runner.Test, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	if len(survivors) == 0 {
		return e.weigh(tests, failed, verdict), nil
	}
	accusation, noticed, err := e.accuse(ctx, survivors, len(tests))
	if accusation != nil || err != nil {
		return accusation, err
	}
	survivors, failed = without(survivors, noticed), append(failed, noticed...)
	if mended := slices.IndexFunc(survivors, func(t runner.Test) bool { return e.isMendedAlone(t, failed) }); mended >= 0 {
		return e.j.verdict(sdk.Inconclusive, "nothing is compared in a test that failed before and passes now: "+survivors[mended].ID()), nil
	}
	return e.weigh(without(tests, survivors), failed, verdict), nil
}

// isMendedAlone reports whether the answer fixed a test, and no similar test fails with altered expectations.
func (e *expectations) isMendedAlone(t runner.Test, failed []runner.Test) bool {
	isLike := func(other runner.Test) bool { return family(other) == family(t) }
	return !e.whole && e.failedBefore(t) && (len(failed) == 0 || e.comparesAll(t) && !slices.ContainsFunc(failed, isLike))
}

// comparesAll reports whether everything that a test compares is altered, as in Go and Rust.
func (e *expectations) comparesAll(test runner.Test) bool {
	return slices.ContainsFunc(e.sources, func(s alter.Source) bool {
		language := alter.Language(s.Path)
		return e.holds(s, test) && (language == "go" || language == "rust")
	})
}

// tryRest alters what the first runs left unchanged in the tests, and makes the pass inconclusive if that is not
// noticed.
func (e *expectations) tryRest(ctx context.Context, tests []runner.Test, verdict *sdk.Verdict) (_ *sdk.Verdict, err error) {
	e.isRest = true
	if e.sources, err = e.alter(ctx, alter.Expectation, e.a.changes, false); err != nil {
		return nil, err
	}
	tests = slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Tests) })
	})
	if len(tests) == 0 {
		return verdict, nil
	}
	if slices.ContainsFunc(e.sources, func(s alter.Source) bool { return len(s.Watched) == 0 }) {
		doubt(verdict, partlyDoubt)
		verdict.Evidence += ", and what they compare beside was not seen"
	}
	survivors, _, err := e.run(ctx, e.changesOf(e.sources), tests, e.a)
	if len(survivors) == 0 || err != nil {
		return verdict, err
	}
	accusation, _, err := e.accuse(ctx, survivors, len(tests))
	if accusation == nil || err != nil {
		return verdict, err
	}
	return e.j.verdict(sdk.Inconclusive, strings.TrimPrefix(accusation.Evidence, "tampering: ")), nil
}

// runCompared is runAltered followed by compareReturned. If the tests cannot be built with recording, it runs
// them without.
func (e *expectations) runCompared(ctx context.Context, tests []runner.Test) (survivors, failed []runner.Test, different *sdk.Verdict, err error) {
	survivors, failed, different, err = e.runAltered(ctx, tests)
	if different != nil || err != nil {
		return nil, nil, different, err
	}
	e.expected = e.returned
	if different, err = nil, errNotBuilt; e.record == "" || !isNotBuilt(e.broken, len(survivors)+len(failed)) {
		different, err = e.compareReturned(ctx, tests, survivors, failed)
	}
	survivors = slices.DeleteFunc(survivors, func(t runner.Test) bool { return e.hangs(t) })
	if !errors.Is(err, errNotBuilt) {
		return survivors, failed, different, err
	}
	if e.readsWhenCompiled() {
		return nil, nil, e.j.verdict(sdk.Inconclusive, "the code does not compile where its tests expect something else, or note what it returns: it may read them while it is compiled"), nil
	}
	e.record = ""
	if e.sources, err = e.alter(ctx, alter.Expectation, e.a.changes, len(e.data) > 0); err != nil {
		return nil, nil, nil, err
	}
	return e.runAltered(ctx, tests)
}

// runAltered runs the tests with altered expectations and data. If the code also reads the data, the tests are
// run once more with only their own expectations altered. The verdict is nil unless the answer writes to the data
// or depends on it.
func (e *expectations) runAltered(ctx context.Context, tests []runner.Test) (survivors, failed []runner.Test, inconclusive *sdk.Verdict, err error) {
	survivors, failed, err = e.run(ctx, append(e.changesOf(e.sources), e.otherData()...), tests, e.a)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(e.wrote) > 0 {
		return nil, nil, e.j.verdict(sdk.Inconclusive, "the run writes to what its tests expect: "+strings.Join(e.wrote, ", ")), nil
	}
	left := e.leftToData(survivors)
	if len(left) > 0 { // another draw, since altered data can be right by chance
		e.seed++
		if left, _, err = e.run(ctx, append(e.changesOf(e.sources), e.otherData()...), left, e.a); err != nil {
			return nil, nil, nil, err
		}
	}
	if len(left) == 0 {
		return slices.DeleteFunc(survivors, func(t runner.Test) bool { return len(e.leftToData([]runner.Test{t})) > 0 }), failed, nil, nil
	}
	if inconclusive, err = e.readsData(ctx, left); inconclusive != nil || err != nil {
		return nil, nil, inconclusive, err
	}
	if e.sources, err = e.alter(ctx, alter.Expectation, e.a.changes, false); err != nil {
		return nil, nil, nil, err
	}
	survivors, failed, err = e.run(ctx, e.changesOf(e.sources), tests, e.a)
	return survivors, failed, nil, err
}

// weigh adds to the verdict how many tests failed with altered expectations, and for how many of them the code was
// seen to return what they expect unaltered.
func (e *expectations) weigh(tests, failed []runner.Test, verdict *sdk.Verdict) *sdk.Verdict {
	if len(failed) == 0 {
		why := "no altered expectation was reached"
		if line := compileError.FindStringSubmatch(e.broken); line != nil {
			why = "the altered tests do not compile: " + line[1] + ":" + line[2]
		}
		return e.withReason(verdict, why)
	}
	for _, c := range e.comparisons(failed) {
		if c.Listed && !c.Lenient && e.isCutShort(c) {
			return e.j.verdict(sdk.Inconclusive, "a list of what a test expects is not compared to its end: "+nameOf(c, nil))
		}
	}
	values := slices.DeleteFunc(slices.Clone(failed), func(t runner.Test) bool { return e.areTruths([]runner.Test{t}) })
	if len(values) == 0 {
		doubt(verdict, unnotedDoubt)
		verdict.Evidence += "\nno value is compared with in these tests: they failed where what must be true was inverted, which proves little"
		return verdict
	}
	verdict.Altered, verdict.Noticed = len(values), len(values)
	verdict.Evidence += fmt.Sprintf("\n%d of %d tests with altered expectations failed, as they must", len(values), len(values))
	confirmed := slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool { return !e.isConfirmed(t) || e.areTruths([]runner.Test{t}) })
	switch {
	case e.unknown != "":
		return e.withReason(verdict, e.unknown)
	case len(confirmed) == 0:
		doubt(verdict, unnotedDoubt)
		verdict.Evidence += ", and what the code returned was not seen"
	case len(confirmed) < len(tests):
		doubt(verdict, partlyDoubt)
		seen := len(values) - len(without(values, confirmed))
		verdict.Evidence += fmt.Sprintf(", %d of them where what was expected is seen to be returned all the same", seen)
	case !slices.ContainsFunc(confirmed, func(t runner.Test) bool { return !e.isConfirmedWhole(t) }):
		doubt(verdict, unalteredDoubt*math.Pow(0.25, float64(len(confirmed))))
	default:
		doubt(verdict, partlyDoubt)
		verdict.Evidence += ", and what the code returned after the first comparison of a test was not seen"
	}
	return verdict
}

// isConfirmed reports whether a test that failed with altered expectations was seen to get what it expects
// unaltered.
func (e *expectations) isConfirmed(test runner.Test) bool {
	return slices.ContainsFunc(e.comparisons([]runner.Test{test}), func(c alter.Comparison) bool {
		return len(c.Values) > 0 && len(e.expected[c.Name]) > 0
	})
}

// isConfirmedWhole reports whether that was seen at all comparisons of the test whose expected values are known.
// A failed comparison ends a test unless it is held equal, so later ones are not reached.
func (e *expectations) isConfirmedWhole(test runner.Test) bool {
	return !slices.ContainsFunc(e.comparisons([]runner.Test{test}), e.isCutShort)
}

// isCutShort reports whether no run reached all expected values of a comparison.
func (e *expectations) isCutShort(c alter.Comparison) bool {
	return max(len(e.expected[c.Name]), len(e.held[c.Name])) < len(c.Values)
}

func (e *expectations) withReason(verdict *sdk.Verdict, why string) *sdk.Verdict {
	doubt(verdict, unalteredDoubt)
	verdict.Evidence += "\n" + why
	return verdict
}

// withoutAlterations weighs a pass whose tests have no expectation that could be altered. A command with only an
// exit code must at least fail when its tests do.
func (e *expectations) withoutAlterations(ctx context.Context, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	why := "no expectation of these tests could be altered"
	if e.fault != "" {
		why += " (" + e.fault + ")"
	}
	if !e.whole {
		return e.withReason(verdict, why), nil
	}
	if ignored, _, err := e.ignoresTests(ctx); ignored != nil || err != nil {
		return ignored, err
	}
	return e.withReason(verdict, why), nil
}

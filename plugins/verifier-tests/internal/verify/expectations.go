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

// expectations runs the tests that an answer has passed again, with their expectations
// altered on disk: a right answer fails then, and so does one that is wrong but for what
// forges its result or reads what is expected.
type expectations struct {
	v *Verifier
	a *attempt
	j *judgement
	// passed is the report of the run that passed, all are its tests with altered expectations.
	passed *runner.Report
	all    []runner.Test
	// whole says that the command gives an exit code alone: it is one test.
	whole bool
	seed  uint64
	// files are those in which expectations are looked for, data those from which tests
	// read them.
	files []string
	data  []string
	// sources are the files with their tests that could be altered.
	sources []alter.Source
	// isRest says that expectations are altered which were left as they are first: see [alter.Request].
	isRest bool
	// wrote are the data files that the last run wrote to.
	wrote []string
	// record is the file in which comparisons note what the code returned, returned what
	// the last run noted, by the names of comparisons. isFull says that this is not all.
	record   string
	returned map[string][]string
	isFull   bool
	// broken is why the last run had no tests.
	broken string
	// expected is what returned was after the first run with altered expectations.
	expected map[string][]string
	// held is what returned was after the run in which each comparison was held equal.
	held map[string][]string
	// hanging are the comparisons of tests that find what those before them leave: with true
	// expectations they are given what they expect.
	hanging []alter.Comparison
	// unknown says which comparison passes with what is not known to be expected, and why; "" where
	// there is none.
	unknown string
	// answered are the tests of which the code answers all right outside of them, and differing are
	// those that it answers otherwise there: see askOutside.
	answered  []runner.Test
	differing []alter.Question
	// asking is when the first question was asked.
	asking time.Time
}

// maxSeed bounds a seed, which is a number of JavaScript's.
const maxSeed = 1 << 53

// How far a pass is doubted by what altered expectations say of it: nothing; that tests
// notice them; that some tests do of which it is known that the code returned what is expected
// all the same. Of more than one such test, each leaves a quarter of the doubt. They are
// conventions, as what a process allows is: see [runner.Runner].
const (
	unalteredDoubt = 0.2
	unnotedDoubt   = 0.15
	partlyDoubt    = 0.1
)

// setUnknown keeps the first reason why what a test expects is not known.
func (e *expectations) setUnknown(why, test string) { e.unknown = cmp.Or(e.unknown, why+": "+test) }

// doubt lowers the confidence of a pass.
func doubt(verdict *sdk.Verdict, by float64) { verdict.Confidence = min(verdict.Confidence, 1-by) }

// tryExpectations adds to the verdict on an answer that has passed what came of altered
// expectations. It fails an answer of which tests pass whatever they expect, and takes a
// pass back where that may be so.
func (v *Verifier) tryExpectations(ctx context.Context, a *attempt, j *judgement, passed *runner.Report, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	e := &expectations{v: v, a: a, j: j, passed: passed, whole: v.runner.IsExitCode, seed: rand.Uint64N(maxSeed), record: fmt.Sprintf(".stepfall-%x", rand.Uint64())}
	code := v.testCode(a.tree, passed)
	e.files = slices.DeleteFunc(slices.Clone(code), func(file string) bool { return alter.Language(file) == "" })
	e.data = v.testData(a.tree, code)
	var err error
	if e.sources, err = e.alter(ctx, alter.Expectation, a.changes, len(e.data) > 0); err != nil {
		return nil, err
	}
	tests := e.mustFail()
	if text := e.namedData(tests); text != "" {
		return j.verdict(sdk.Inconclusive, fmt.Sprintf("the code reads what its tests expect: it names %q, as no code but theirs did before", text)), nil
	}
	if len(tests) == 0 {
		return e.withoutAlterations(ctx, verdict)
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
	if err == nil && verdict.Outcome == sdk.Passed && !e.whole {
		verdict, err = e.tryRest(ctx, rest, verdict)
	}
	if err != nil || verdict.Outcome != sdk.Passed {
		return verdict, err
	}
	return e.withDiffering(verdict), nil
}

// withDiffering takes a pass back, or believes it less, where questions are answered otherwise than
// tests expect.
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

// tryAltered runs tests with altered expectations, see tryExpectations.
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
	if survivors, err = e.withoutUnaltered(ctx, survivors, failed); err != nil {
		return nil, err
	}
	return e.tryAccusing(ctx, tests, survivors, failed, verdict)
}

// mayBeChance reports whether so few tests failed, and so few different values were returned in them as
// expected, that code could be right by chance.
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

// tryAccusing weighs what failed with altered expectations unless the survivors accuse the answer.
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

// isMendedAlone reports whether a test failed before, and none that is like it fails as it must.
func (e *expectations) isMendedAlone(t runner.Test, failed []runner.Test) bool {
	isLike := func(other runner.Test) bool { return family(other) == family(t) }
	return !e.whole && e.failedBefore(t) && (len(failed) == 0 || e.comparesAll(t) && !slices.ContainsFunc(failed, isLike))
}

// comparesAll reports whether all that a test compares is altered, as in Go and Rust.
func (e *expectations) comparesAll(test runner.Test) bool {
	return slices.ContainsFunc(e.sources, func(s alter.Source) bool {
		language := alter.Language(s.Path)
		return e.holds(s, test) && (language == "go" || language == "rust")
	})
}

// tryRest alters what the first runs left as it is in the tests, beside what they altered, and takes
// the pass back where that is not noticed.
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

// runCompared is runAltered with a look at what the code returned, but where tests cannot be
// built so that they note it.
func (e *expectations) runCompared(ctx context.Context, tests []runner.Test) (survivors, failed []runner.Test, different *sdk.Verdict, err error) {
	survivors, failed, different, err = e.runAltered(ctx, tests)
	if different != nil || err != nil {
		return nil, nil, different, err
	}
	e.expected = e.returned
	different, err = e.compareReturned(ctx, tests, survivors, failed)
	survivors = slices.DeleteFunc(survivors, func(t runner.Test) bool { return e.hangs(t) })
	if !errors.Is(err, errNotBuilt) {
		return survivors, failed, different, err
	}
	e.record = ""
	if e.sources, err = e.alter(ctx, alter.Expectation, e.a.changes, len(e.data) > 0); err != nil {
		return nil, nil, nil, err
	}
	return e.runAltered(ctx, tests)
}

// runAltered runs the tests with altered expectations and data, and those that read data
// which the code reads too once more with their own altered. The verdict is nil, or one on an
// answer that writes to the data or goes by it.
func (e *expectations) runAltered(ctx context.Context, tests []runner.Test) (survivors, failed []runner.Test, inconclusive *sdk.Verdict, err error) {
	survivors, failed, err = e.run(ctx, append(e.changesOf(e.sources), e.otherData()...), tests, e.a)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(e.wrote) > 0 {
		return nil, nil, e.j.verdict(sdk.Inconclusive, "the run writes to what its tests expect: "+strings.Join(e.wrote, ", ")), nil
	}
	left := e.leftToData(survivors)
	if len(left) > 0 { // another draw, since other data may be right by chance
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

// weigh says in the verdict what failed with altered expectations, and of how many of the tests
// it was seen that the code returns what they expect unaltered.
func (e *expectations) weigh(tests, failed []runner.Test, verdict *sdk.Verdict) *sdk.Verdict {
	if len(failed) == 0 {
		return e.withReason(verdict, "no altered expectation was reached")
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

// isConfirmed reports whether a test that failed with altered expectations was seen to be
// given what it expects unaltered.
func (e *expectations) isConfirmed(test runner.Test) bool {
	return slices.ContainsFunc(e.comparisons([]runner.Test{test}), func(c alter.Comparison) bool {
		return len(c.Values) > 0 && len(e.expected[c.Name]) > 0
	})
}

// isConfirmedWhole reports whether that was seen at all comparisons of the test whose expected
// values are known: one that is not held ends a test, so that those after it are not reached.
func (e *expectations) isConfirmedWhole(test runner.Test) bool {
	return !slices.ContainsFunc(e.comparisons([]runner.Test{test}), e.isCutShort)
}

// isCutShort reports whether no run came to all that is expected at a comparison.
func (e *expectations) isCutShort(c alter.Comparison) bool {
	return max(len(e.expected[c.Name]), len(e.held[c.Name])) < len(c.Values)
}

func (e *expectations) withReason(verdict *sdk.Verdict, why string) *sdk.Verdict {
	doubt(verdict, unalteredDoubt)
	verdict.Evidence += "\n" + why
	return verdict
}

// withoutAlterations weighs a pass whose tests have no expectation that could be altered. A
// command that gives an exit code must at least fail when its tests do.
func (e *expectations) withoutAlterations(ctx context.Context, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	const why = "no expectation of these tests could be altered"
	if !e.whole {
		return e.withReason(verdict, why), nil
	}
	if ignored, _, err := e.ignoresTests(ctx); ignored != nil || err != nil {
		return ignored, err
	}
	return e.withReason(verdict, why), nil
}

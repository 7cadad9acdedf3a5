package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// expectations runs the tests that an answer has passed again, with their expectations
// altered on disk: a right answer fails then, and so does one that is wrong but for what
// forges its result or reads what is expected.
type expectations struct {
	v *Verifier
	a *attempt
	j *judgement
	// passed is the report of the run that passed.
	passed *runner.Report
	// whole says that the command gives an exit code alone: it is one test.
	whole bool
	seed  uint64
	// files are those in which expectations are looked for, data those from which tests
	// read them.
	files []string
	data  []string
	// sources are the files with their tests that could be altered.
	sources []alter.Source
	// wrote are the data files that the last run wrote to.
	wrote []string
	// record is the file in which comparisons note what the code returned, returned what
	// the last run noted, by the names of comparisons.
	record   string
	returned map[string][]string
	// broken is why the last run had no tests.
	broken string
	// expected is what returned was after the first run with altered expectations.
	expected map[string][]string
	// hanging are the comparisons of tests that find what those before them leave: with true
	// expectations they are given what they expect.
	hanging []alter.Comparison
	// onlyTruths leaves out what is altered in other ways.
	onlyTruths bool
}

// exitCodeName is the runner that asks for nothing but an exit code.
const exitCodeName = "exit code"

// unalteredDoubt is how far a pass is doubted of which altered expectations say nothing. It
// is a convention, as what a process allows is: see [runner.Runner].
const unalteredDoubt = 0.2

// doubt lowers the confidence of a pass by how many altered expectations were noticed: each
// leaves a quarter of the doubt.
func doubt(verdict *sdk.Verdict, noticed float64) {
	verdict.Confidence = min(verdict.Confidence, 1-unalteredDoubt*math.Pow(0.25, noticed))
}

// tryExpectations adds to the verdict on an answer that has passed what came of altered
// expectations. It fails an answer of which tests pass whatever they expect, and takes a
// pass back where that may be so.
func (v *Verifier) tryExpectations(ctx context.Context, a *attempt, j *judgement, passed *runner.Report, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	e := &expectations{v: v, a: a, j: j, passed: passed, whole: v.runner.Name() == exitCodeName, seed: rand.Uint64(), record: fmt.Sprintf(".stepfall-%x", rand.Uint64())}
	code := v.testCode(a.tree, passed)
	e.files = slices.DeleteFunc(slices.Clone(code), func(file string) bool { return alter.Language(file) == "" })
	e.data = v.testData(a.tree, code)
	var err error
	if e.sources, err = e.alter(ctx, alter.Expectation, a.changes, len(e.data) > 0); err != nil {
		return nil, err
	}
	tests := e.mustFail()
	if len(tests) == 0 {
		return e.withoutAlterations(ctx, verdict)
	}
	survivors, failed, different, err := e.runCompared(ctx, tests)
	if different != nil || err != nil {
		return different, err
	}
	if len(survivors) == 0 {
		survivors, err = e.drawAgain(ctx, tests)
	}
	if err == nil {
		survivors, err = e.withoutTables(ctx, survivors)
	}
	if err != nil {
		return nil, err
	}
	if survivors, err = e.withoutUnaltered(ctx, survivors, failed); err != nil {
		return nil, err
	}
	if len(survivors) > 0 {
		if accusation, err := e.accuse(ctx, survivors, len(tests)); accusation != nil || err != nil {
			return accusation, err
		}
	}
	return e.weigh(failed, verdict), nil
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
	survivors, failed, err = e.run(ctx, append(changesOf(e.sources), e.otherData()...), tests, e.a)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(e.wrote) > 0 {
		return nil, nil, e.j.verdict(sdk.Inconclusive, "the run writes to what its tests expect: "+strings.Join(e.wrote, ", ")), nil
	}
	left := e.leftToData(survivors)
	if len(left) > 0 { // another draw, since other data may be right by chance
		e.seed++
		if left, _, err = e.run(ctx, append(changesOf(e.sources), e.otherData()...), left, e.a); err != nil {
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
	survivors, failed, err = e.run(ctx, changesOf(e.sources), tests, e.a)
	return survivors, failed, nil, err
}

// drawAgain returns those of one test or two that pass when they are altered in the other way:
// of so few not all ways were tried. Code from which its tests are hidden sees no more of them
// by another draw.
func (e *expectations) drawAgain(ctx context.Context, tests []runner.Test) (survivors []runner.Test, err error) {
	const few = 2
	if _, hides := e.v.hider(e.a.tree); hides || len(tests) > few || !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return s.Borrows }) {
		return nil, nil
	}
	e.seed++
	survivors, _, err = e.rerun(ctx, alter.Expectation, tests)
	return survivors, err
}

// withoutTables inverts the truths alone of those tests in which there is nothing else to
// alter, and leaves out those that fail then: a table of other tests that was altered may
// have made up for the inverted truth.
func (e *expectations) withoutTables(ctx context.Context, survivors []runner.Test) ([]runner.Test, error) {
	truths := slices.DeleteFunc(slices.Clone(survivors), func(t runner.Test) bool { return !e.areTruths([]runner.Test{t}) })
	if len(truths) == 0 {
		return survivors, nil
	}
	e.onlyTruths = true
	still, _, err := e.rerun(ctx, alter.Expectation, truths)
	e.onlyTruths = false
	return slices.DeleteFunc(survivors, func(t runner.Test) bool {
		return e.areTruths([]runner.Test{t}) && !slices.ContainsFunc(still, func(s runner.Test) bool { return s.ID() == t.ID() })
	}), err
}

// weigh says in the verdict what failed with altered expectations.
func (e *expectations) weigh(failed []runner.Test, verdict *sdk.Verdict) *sdk.Verdict {
	if len(failed) == 0 {
		return e.withReason(verdict, "no altered expectation was reached")
	}
	values := slices.DeleteFunc(failed, func(t runner.Test) bool { return e.areTruths([]runner.Test{t}) })
	if len(values) == 0 {
		const half = 0.5 // code that compares what it returned itself notices an inverted truth, too
		doubt(verdict, half)
		verdict.Evidence += "\nno value is compared with in these tests: they failed where what must be true was inverted, which proves little"
		return verdict
	}
	doubt(verdict, float64(len(values)))
	verdict.Altered, verdict.Noticed = len(values), len(values)
	verdict.Evidence += fmt.Sprintf("\n%d of %d tests with altered expectations failed, as they must", len(values), len(values))
	return verdict
}

// areTruths reports whether of all the tests only what must be true was inverted.
func (e *expectations) areTruths(tests []runner.Test) bool {
	return !slices.ContainsFunc(tests, func(t runner.Test) bool {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Truths) })
	})
}

func (e *expectations) withReason(verdict *sdk.Verdict, why string) *sdk.Verdict {
	doubt(verdict, 0)
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

// ignoresTests returns a verdict on a command that ends well although its tests fail at
// their beginning, and whether it fails with them.
func (e *expectations) ignoresTests(ctx context.Context) (ignored *sdk.Verdict, fails bool, err error) {
	ending, err := e.alter(ctx, alter.End, e.a.changes, false)
	if err != nil || len(ending) == 0 {
		return nil, false, err
	}
	survivors, _, err := e.run(ctx, changesOf(ending), e.passed.Tests, e.a)
	if err != nil || len(survivors) == 0 {
		return nil, err == nil, err
	}
	if read, err := e.areRead(ctx); err != nil || !read {
		return nil, false, err
	}
	return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever becomes of its tests: they may not have been run"), false, nil
}

// accuse finds out why tests passed with altered expectations, of so many. A nil verdict
// says that there is nothing to it: the tests do not come to what was altered, or pass so
// on the untouched tree, too.
func (e *expectations) accuse(ctx context.Context, survivors []runner.Test, of int) (*sdk.Verdict, error) {
	if e.whole {
		if ignored, fails, err := e.ignoresTests(ctx); !fails || err != nil {
			return ignored, err
		}
	} else {
		deaf, _, err := e.rerun(ctx, alter.End, survivors)
		if err == nil {
			deaf, err = e.calibrate(ctx, alter.End, deaf)
		}
		if len(deaf) > 0 || err != nil {
			return e.forgedVerdict(deaf, of), err
		}
	}
	_, reached, err := e.rerun(ctx, alter.Reach, survivors)
	if err == nil && len(reached) > 0 {
		reached, err = e.calibrate(ctx, alter.Expectation, reached)
	}
	if err == nil && len(reached) > 0 {
		e.seed += 2 // what one draw leaves as it was, another in the same way does not
		reached, _, err = e.rerun(ctx, alter.Expectation, reached)
	}
	switch {
	case err != nil:
		return nil, err
	case len(reached) > 0:
		return e.forgedVerdict(reached, of), nil
	case e.whole:
		return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever its tests expect: they may not have been run to their end"), nil
	}
	return nil, nil
}

// areRead reports whether the command reads the files that could be altered: on the
// untouched tree it says something else when they have an error of syntax. Without a
// pre-flight nobody knows.
func (e *expectations) areRead(ctx context.Context) (bool, error) {
	if e.j.before == nil {
		return true, nil
	}
	broken := *e.a
	broken.changes, broken.only = nil, nil
	for _, file := range e.files {
		broken.changes = append(broken.changes, jail.Change{Path: file, Data: []byte(e.source(file, nil).Text + "\n)(\n")})
	}
	report, _, err := e.v.run(ctx, &broken, false)
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(report.Tests, e.j.before.report.Tests, func(a, b runner.Test) bool {
		return a.Status == b.Status && plain(a.Output) == plain(b.Output)
	}), nil
}

// forgedVerdict is the verdict on an answer of which tests pass whatever they expect. Of right
// code, too, one test in a hundred does, and one of which a truth is inverted may be
// flaky: where most of them fail as they must, it may be so, and where almost all do it
// is taken to be.
func (e *expectations) forgedVerdict(tests []runner.Test, of int) *sdk.Verdict {
	const few = 20 // in one of which right code may be unlucky
	if len(tests)*few < of {
		return nil
	}
	var names []string
	for _, test := range tests {
		names = append(names, test.ID())
	}
	evidence := "these tests pass whatever they expect: " + strings.Join(names, ", ")
	verdict := e.j.verdict(sdk.Failed, "tampering: "+evidence)
	if 2*len(tests) < of || e.areTruths(tests) {
		verdict = e.j.verdict(sdk.Inconclusive, evidence)
	}
	verdict.Altered, verdict.Noticed = of, of-len(tests)
	return verdict
}

// leftToData returns the tests that passed with other data and compare with what they
// read from it.
func (e *expectations) leftToData(survivors []runner.Test) []runner.Test {
	if len(e.data) == 0 {
		return nil
	}
	if e.whole {
		return survivors
	}
	return slices.DeleteFunc(slices.Clone(survivors), func(t runner.Test) bool {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Data) })
	})
}

// readsData returns a verdict on an answer of which tests pass with other data and fail
// without any: the code reads it as the tests do.
func (e *expectations) readsData(ctx context.Context, tests []runner.Test) (*sdk.Verdict, error) {
	var without []jail.Change
	for _, file := range e.data {
		without = append(without, jail.Change{Path: file, Delete: true})
	}
	survivors, _, err := e.run(ctx, without, tests, e.a)
	if err != nil || len(survivors) == len(tests) {
		return nil, err
	}
	return e.j.verdict(sdk.Inconclusive, "the code reads what its tests expect: they pass whatever is in "+strings.Join(e.data, ", ")), nil
}

// otherData is the data with other values.
func (e *expectations) otherData() []jail.Change {
	var changes []jail.Change
	for _, file := range e.data {
		changes = append(changes, jail.Change{Path: file, Data: alter.Data(file, []byte(e.source(file, e.a.changes).Text), e.seed)})
	}
	return changes
}

// calibrate leaves out the tests that pass on the untouched tree too, altered so.
func (e *expectations) calibrate(ctx context.Context, way alter.Way, tests []runner.Test) ([]runner.Test, error) {
	if e.j.before == nil || !slices.ContainsFunc(tests, func(t runner.Test) bool { return !e.failedBefore(t) }) {
		return tests, nil
	}
	untouched := *e.a
	untouched.changes = nil
	altered, err := e.alter(ctx, way, nil, false)
	if err != nil {
		return nil, err
	}
	passing, _, err := e.run(ctx, changesOf(altered), tests, &untouched)
	return slices.DeleteFunc(tests, func(t runner.Test) bool {
		return !e.failedBefore(t) && slices.ContainsFunc(passing, func(p runner.Test) bool { return p.ID() == t.ID() })
	}), err
}

func (e *expectations) failedBefore(t runner.Test) bool {
	if e.j.before == nil {
		return false
	}
	status, found := e.j.before.report.Status(t.ID())
	return !found || status != runner.Pass
}

// rerun alters the tests another way and returns what became of some.
func (e *expectations) rerun(ctx context.Context, way alter.Way, tests []runner.Test) (survivors, failed []runner.Test, err error) {
	altered, err := e.alter(ctx, way, e.a.changes, false)
	if err != nil || len(altered) == 0 {
		return nil, nil, err
	}
	return e.run(ctx, changesOf(altered), tests, e.a)
}

// changesOf are the changes that put altered sources into the tree.
func changesOf(sources []alter.Source) []jail.Change {
	var changes []jail.Change
	for _, source := range sources {
		if source.Count > 0 {
			changes = append(changes, jail.Change{Path: source.Path, Data: []byte(source.Text)})
		}
	}
	return changes
}

func (e *expectations) source(file string, changes []jail.Change) alter.Source {
	for _, c := range slices.Backward(slices.Concat(e.a.tests, changes)) {
		if c.Path == file {
			return alter.Source{Path: file, Text: string(c.Data)}
		}
	}
	data, err := e.a.tree.read(file)
	if err != nil {
		return alter.Source{Path: file} // in which nothing can be altered
	}
	return alter.Source{Path: file, Text: string(data)}
}

// run runs the command with further changes. survivors are those of the tests that
// passed, failed those that did not; the others were not run.
func (e *expectations) run(ctx context.Context, changes []jail.Change, tests []runner.Test, a *attempt) (survivors, failed []runner.Test, err error) {
	with := *a
	with.open = true // what reads its tests is to read the altered ones
	with.changes = slices.Concat(a.changes, changes)
	with.guarded = slices.Concat(a.guarded, e.data)
	with.record = e.record
	with.only = &runner.Part{}
	for _, test := range tests {
		with.only.Groups = append(with.only.Groups, test.Group)
	}
	for _, source := range e.sources {
		if slices.ContainsFunc(tests, func(t runner.Test) bool { return e.holds(source, t) }) {
			with.only.Files = append(with.only.Files, source.Path)
		}
	}
	report, result, err := e.v.run(ctx, &with, false)
	if err != nil {
		return nil, nil, err
	}
	e.returned, e.broken = readRecord(result.Reports[e.record]), report.Broken
	e.wrote = slices.DeleteFunc(slices.Clone(e.data), func(file string) bool {
		return slices.Contains(a.guarded, file) || !slices.Contains(result.Touched, file)
	})
	if result.End != jail.EndExit || len(report.Tampering) > 0 && result.ExitCode != 0 {
		return nil, tests, nil
	}
	for _, test := range tests {
		switch e.statusIn(report, test) {
		case runner.Pass:
			survivors = append(survivors, test)
		case runner.Fail:
			failed = append(failed, test)
		}
	}
	return survivors, failed, nil
}

// statusIn returns how a test ended. One whose name holds what it expects is known by its
// place among those of its group.
func (e *expectations) statusIn(report *runner.Report, test runner.Test) runner.Status {
	if status, found := report.Status(test.ID()); found {
		return status
	}
	group := func(tests []runner.Test) []runner.Test {
		return slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool { return t.Group != test.Group })
	}
	before, now := group(e.passed.Tests), group(report.Tests)
	at := slices.IndexFunc(before, func(t runner.Test) bool { return t.ID() == test.ID() })
	if at < 0 || len(before) != len(now) {
		return runner.Missing
	}
	return now[at].Status
}

// mustFail returns the tests that passed and have altered expectations: those named, or
// else those that failed on the untouched tree, or else all.
func (e *expectations) mustFail() []runner.Test {
	var all, mended, named []runner.Test
	for _, test := range e.passed.Tests {
		altered := e.whole && len(e.data) > 0 || slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.holds(s, test) })
		if test.Status != runner.Pass || !altered || slices.Contains(e.j.flaky, test.ID()) {
			continue
		}
		all = append(all, test)
		if e.failedBefore(test) {
			mended = append(mended, test)
		}
		if slices.ContainsFunc(e.j.checks.FailToPass, test.Is) {
			named = append(named, test)
		}
	}
	for _, tests := range [][]runner.Test{named, mended} {
		if len(tests) > 0 {
			return tests
		}
	}
	return all
}

// holds reports whether a test of a report is one of those altered in a file, or in what
// it reads.
func (e *expectations) holds(s alter.Source, test runner.Test) bool {
	return e.isNamed(test, s.Path, slices.Concat(s.Tests, s.Data))
}

// isNamed reports whether a test of a report is one of those of a file.
func (e *expectations) isNamed(test runner.Test, file string, tests []string) bool {
	if e.whole {
		return len(tests) > 0
	}
	folder, name := path.Dir(file), test.Name
	switch alter.Language(file) {
	case "rust": // whose names say in which module they are
		return slices.Contains(tests, name[strings.LastIndex(name, ":")+1:])
	case "java":
		class := strings.TrimSuffix(path.Base(file), ".java")
		return slices.Contains(tests, strings.TrimSuffix(name, "()")) && strings.HasSuffix("."+test.Group, "."+class)
	case "go":
		return slices.Contains(tests, name) && (folder == "." || test.Group == folder || strings.HasSuffix(test.Group, "/"+folder))
	case "node":
		return test.Group == file && (slices.Contains(tests, name) || slices.Contains(tests, "*"))
	}
	id, _, _ := strings.Cut(test.DottedName(), "[")
	module := strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")
	return slices.ContainsFunc(tests, func(function string) bool {
		full := module + "." + function
		return full == id || strings.HasSuffix(full, "."+id) || strings.HasSuffix(id, "."+full)
	})
}

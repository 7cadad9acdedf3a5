package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// accuse finds out why tests passed with altered expectations; of is the number of tests that were altered.
// The verdict is nil if that is innocent: the tests do not reach the altered expectations, pass on the
// untouched tree as well, or fail with other alterations. Those that fail are noticed.
func (e *expectations) accuse(ctx context.Context, survivors []runner.Test, of int) (verdict *sdk.Verdict, noticed []runner.Test, err error) {
	if ignored, fails, err := e.ignoresEnd(ctx, survivors, of); !fails || err != nil {
		return ignored, nil, err
	}
	reached, passing, err := e.reach(ctx, survivors)
	switch {
	case err != nil:
		return nil, nil, err
	case len(passing) > 0:
		return e.forgedVerdict(passing, of), nil, nil
	case e.whole && len(reached) == 0 && !e.isRest:
		return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever its tests expect: they may not have been run to their end"), nil, nil
	}
	return nil, reached, nil
}

// ignoresEnd returns a verdict on tests that pass although they fail at their end, and whether there are none.
func (e *expectations) ignoresEnd(ctx context.Context, survivors []runner.Test, of int) (ignored *sdk.Verdict, fails bool, err error) {
	if e.whole {
		return e.ignoresTests(ctx)
	}
	deaf, _, err := e.rerun(ctx, alter.End, survivors)
	if err == nil {
		deaf, err = e.calibrate(ctx, alter.End, deaf)
	}
	if len(deaf) > 0 || err != nil {
		return e.forgedVerdict(deaf, of), false, err
	}
	return nil, true, nil
}

// reach returns the survivors that reach an altered expectation, and those of them that pass with other draws too.
func (e *expectations) reach(ctx context.Context, survivors []runner.Test) (reached, passing []runner.Test, err error) {
	if _, reached, err = e.rerun(ctx, alter.Reach, survivors); err == nil {
		reached, err = e.calibrate(ctx, alter.Expectation, reached)
	}
	const draws = 3 // a value that is right by chance is not right in every draw
	passing = reached
	for i := 0; i < draws && err == nil && len(passing) > 0; i++ {
		e.seed++
		passing, _, err = e.rerun(ctx, alter.Expectation, passing)
	}
	return reached, passing, err
}

// ignoresTests returns a verdict on a command that succeeds although its tests fail at their beginning. fails
// reports whether it fails with them or, if no test begins in these files, at least reads them.
func (e *expectations) ignoresTests(ctx context.Context) (ignored *sdk.Verdict, fails bool, err error) {
	ending, err := e.alter(ctx, alter.End, e.a.changes, false)
	if err != nil || len(ending)+len(e.sources) == 0 {
		return nil, false, err
	}
	if len(ending) > 0 {
		survivors, _, err := e.run(ctx, e.changesOf(ending), e.passed.Tests, e.a)
		if err != nil || len(survivors) == 0 {
			return nil, err == nil, err
		}
	}
	if read, err := e.areRead(ctx); err != nil || !read || len(ending) == 0 {
		return nil, read, err
	}
	return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever becomes of its tests: they may not have been run"), false, nil
}

// areRead reports whether the command reads the files that could be altered: on the untouched tree its output
// changes if they have a syntax error. Without a pre-flight it returns true.
func (e *expectations) areRead(ctx context.Context) (bool, error) {
	if e.j.before == nil {
		return true, nil
	}
	broken := *e.a
	broken.changes, broken.only = nil, nil
	for _, file := range e.files {
		broken.changes = append(broken.changes, jail.Change{Path: file, Data: []byte(e.source(file, nil).Text + unparsable)})
	}
	report, _, err := e.v.run(ctx, &broken, false)
	if err != nil {
		return false, err
	}
	return plain(report.Broken) != plain(e.j.before.report.Broken) || !slices.EqualFunc(report.Tests, e.j.before.report.Tests, func(a, b runner.Test) bool {
		return a.Status == b.Status && plain(a.Output) == plain(b.Output)
	}), nil
}

// calibrate removes the tests that also pass on the untouched tree with the same alterations.
func (e *expectations) calibrate(ctx context.Context, way alter.Way, tests []runner.Test) ([]runner.Test, error) {
	if e.j.before == nil || !slices.ContainsFunc(tests, func(t runner.Test) bool { return !e.failedBefore(t) }) {
		return tests, nil
	}
	passing, err := e.runUntouched(ctx, way, tests)
	return slices.DeleteFunc(tests, func(t runner.Test) bool {
		return !e.failedBefore(t) && slices.ContainsFunc(passing, func(p runner.Test) bool { return p.ID() == t.ID() })
	}), err
}

// runUntouched runs the tests on the untouched tree, altered in the same way.
func (e *expectations) runUntouched(ctx context.Context, way alter.Way, tests []runner.Test) (passing []runner.Test, err error) {
	untouched := *e.a
	untouched.changes = e.j.before.pruned
	altered, err := e.alter(ctx, way, e.j.before.pruned, false)
	if err != nil {
		return nil, err
	}
	passing, _, err = e.run(ctx, e.changesOf(altered), tests, &untouched)
	return passing, err
}

// withoutOld removes the comparisons of tests that passed on the untouched tree and got the same there, altered in
// the same way: the answer is not to blame.
func (e *expectations) withoutOld(ctx context.Context, way alter.Way, comparisons []alter.Comparison, returned map[string][]string) ([]alter.Comparison, error) {
	isOld := func(c alter.Comparison) bool {
		file, _, _ := strings.Cut(c.Name, ":")
		own := slices.DeleteFunc(slices.Clone(e.passed.Tests), func(t runner.Test) bool { return !e.isNamed(t, file, []string{c.Test}) })
		isPruned := slices.ContainsFunc(e.j.before.pruned, func(c jail.Change) bool { return c.Path == file }) // its comparisons are numbered anew
		return len(own) > 0 && !isPruned && !slices.ContainsFunc(own, e.failedBefore)
	}
	if e.j.before == nil || !slices.ContainsFunc(comparisons, isOld) {
		return comparisons, nil
	}
	_, err := e.runUntouched(ctx, way, e.passed.Tests)
	return slices.DeleteFunc(slices.Clone(comparisons), func(c alter.Comparison) bool {
		return isOld(c) && isSame(e.returned[c.Name], returned[c.Name])
	}), err
}

// forgedVerdict returns the verdict on an answer whose tests pass whatever they expect, nil if they are few. One
// test in a hundred of correct code does so too, and a test whose condition was inverted may be flaky: if most
// tests fail as they must, the verdict is inconclusive, and if almost all do, there is none.
func (e *expectations) forgedVerdict(tests []runner.Test, of int) *sdk.Verdict {
	const few = 20 // correct code can have one such test in that many
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

// leftToData returns the tests that passed with altered data and compare with what they read from it.
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

// readsData returns a verdict on an answer whose tests pass with altered data and fail without any: the code
// reads the data as the tests do.
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

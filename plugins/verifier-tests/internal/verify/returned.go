package verify

import (
	"context"
	"errors"
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
		if at := strings.LastIndex(line, " "); at > 0 {
			returned[line[:at]] = append(returned[line[:at]], strings.TrimSpace(line[at:]))
		}
	}
	return returned
}

// comparisons are those in the altered sources that lie in one of the tests.
func (e *expectations) comparisons(tests []runner.Test) []alter.Comparison {
	var all []alter.Comparison
	for _, source := range e.sources {
		for _, c := range source.Compared {
			if slices.ContainsFunc(tests, func(t runner.Test) bool { return e.isNamed(t, source.Path, []string{c.Test}) }) {
				all = append(all, c)
			}
		}
	}
	return all
}

// others are the notes of what is not expected at a comparison. Of types that are not the
// language's own nobody knows what they are equal to.
func others(c alter.Comparison, notes []string) []string {
	return slices.DeleteFunc(slices.Clone(notes), func(note string) bool {
		return len(c.Values) == 0 || strings.HasPrefix(note, "?") || slices.ContainsFunc(c.Values, func(v string) bool { return v[1:] == note[1:] })
	})
}

// isReached reports whether a run came to one of the comparisons of a test.
func isReached(comparisons []alter.Comparison, returned map[string][]string) bool {
	return slices.ContainsFunc(comparisons, func(c alter.Comparison) bool { return len(returned[c.Name]) > 0 })
}

// errNotBuilt says that the tests cannot be built so that they note what the code returns.
var errNotBuilt = errors.New("the tests are not built with notes")

// compareReturned looks at what the code returned where expectations were altered. A right
// answer returns there what was expected before they were, so that the verdict is nil
// without another run. Else the tests run twice more as they are: once to see whether they
// pass again and compare as they should, and once ending in the same places, since what a
// test leaves undone may be what a later one would find.
func (e *expectations) compareReturned(ctx context.Context, tests, survivors, failed []runner.Test) (*sdk.Verdict, error) {
	altered := e.returned
	comparisons := e.comparisons(tests)
	unreached := e.unreached(survivors, failed, tests)
	isOdd := func(c alter.Comparison) bool { return len(others(c, altered[c.Name])) > 0 }
	if len(unreached) == 0 && !slices.ContainsFunc(comparisons, isOdd) {
		return nil, nil
	}
	passed, again, err := e.rerun(ctx, alter.Record, tests)
	if err != nil {
		return nil, err
	}
	truly := e.returned
	if len(passed)+len(again) == 0 && alter.Language(e.sources[0].Path) == "go" {
		return nil, errNotBuilt
	}
	if len(passed) < len(tests) {
		return e.j.verdict(sdk.Inconclusive, "the tests passed, and did not when they ran again and noted what the code returned"), nil
	}
	if verdict := e.blindVerdict(comparisons, truly); verdict != nil {
		return verdict, nil
	}
	if _, _, err = e.rerun(ctx, alter.Cut, tests); err != nil {
		return nil, err
	}
	for _, c := range comparisons {
		if isOdd(c) && !slices.ContainsFunc(altered[c.Name], func(note string) bool { return slices.Contains(e.returned[c.Name], note) }) && len(e.returned[c.Name]) > 0 {
			return e.j.verdict(sdk.Failed, "tampering: the code returns something else where its tests expect something else: "+c.Test), nil
		}
	}
	for _, test := range unreached {
		if own := e.comparisons([]runner.Test{test}); isReached(own, truly) && isReached(own, e.returned) {
			return e.j.verdict(sdk.Inconclusive, "the code ends or fails before it returns anything where its tests expect something else: "+test.ID()), nil
		}
	}
	return nil, nil
}

// unreached returns the tests that failed, or did not run at all, and came to none of their
// comparisons.
func (e *expectations) unreached(survivors, failed, tests []runner.Test) []runner.Test {
	if len(survivors)+len(failed) == 0 {
		failed = tests
	}
	return slices.DeleteFunc(slices.Clone(failed), func(t runner.Test) bool {
		own := e.comparisons([]runner.Test{t})
		return len(own) == 0 || isReached(own, e.returned)
	})
}

// blindVerdict is that on tests which pass although the code returns something else than
// they expect; nil where there are none.
func (e *expectations) blindVerdict(comparisons []alter.Comparison, returned map[string][]string) *sdk.Verdict {
	var inconclusive *sdk.Verdict
	for _, c := range comparisons {
		different := others(c, returned[c.Name])
		if len(different) == 0 || len(others(c, returned[c.Name+"="])) > 0 { // it is not known what it expects
			continue
		}
		if slices.ContainsFunc(different, func(note string) bool { return note[0] == '=' }) {
			return e.j.verdict(sdk.Failed, "tampering: a test passes although what the code returns is not what it expects: "+c.Test)
		}
		inconclusive = e.j.verdict(sdk.Inconclusive, "a test compares by a method of the code's own, which takes something else for what it expects: "+c.Test)
	}
	return inconclusive
}

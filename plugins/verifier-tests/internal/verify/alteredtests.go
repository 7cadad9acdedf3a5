package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
)

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
	e.all = all
	for _, tests := range [][]runner.Test{named, mended} {
		if len(tests) > 0 {
			return tests
		}
	}
	return all
}

// alteredTests returns those of the tests that do not expect what they did.
func (e *expectations) alteredTests(tests []runner.Test) []runner.Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool {
		return slices.ContainsFunc(e.sources, func(s alter.Source) bool {
			isOther := !slices.Contains(s.Unaltered, t.Name) && slices.Contains(s.Tests, t.Name) // than those of a computed title
			return !isOther && e.isNamed(t, s.Path, s.Unaltered) || slices.ContainsFunc(s.Compared, func(c alter.Comparison) bool { return e.isKeptRow(t, s.Path, c) })
		})
	})
}

// isKeptRow reports whether a test is one of the rows of a table, as the framework names them,
// of which this one is not altered.
func (e *expectations) isKeptRow(test runner.Test, file string, c alter.Comparison) bool {
	isOther := func(t runner.Test) bool { return !e.isNamed(t, file, []string{c.Test}) }
	if len(c.Kept) < 2 || isOther(test) {
		return false
	}
	rows := slices.DeleteFunc(slices.Clone(e.passed.Tests), isOther)
	at := slices.IndexFunc(rows, func(t runner.Test) bool { return t.ID() == test.ID() })
	return at >= 0 && len(rows) == len(c.Kept) && c.Kept[at]
}

func without(tests, others []runner.Test) []runner.Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool {
		return slices.ContainsFunc(others, func(o runner.Test) bool { return o.ID() == t.ID() })
	})
}

func (e *expectations) failedBefore(t runner.Test) bool {
	if e.j.before == nil {
		return false
	}
	status, found := e.j.before.report.Status(t.ID())
	return !found || status != runner.Pass
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

// areTruths reports whether of all the tests only what must be true was inverted.
func (e *expectations) areTruths(tests []runner.Test) bool {
	return !slices.ContainsFunc(tests, func(t runner.Test) bool {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Truths) })
	})
}

package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
)

// alteredTests returns the tests that passed and have altered expectations, of those that decide: the named ones, or
// else those that failed on the untouched tree, or else all. unaltered are the others that are named or failed.
func (e *expectations) alteredTests() (altered, unaltered []runner.Test) {
	isAltered := func(t runner.Test) bool {
		return e.whole && len(e.data) > 0 || slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.holds(s, t) })
	}
	passed := slices.DeleteFunc(slices.Clone(e.passed.Tests), func(t runner.Test) bool {
		return t.Status != runner.Pass || slices.Contains(e.j.flaky, t.ID())
	})
	isUnaltered := func(t runner.Test) bool { return !isAltered(t) }
	e.all = slices.DeleteFunc(slices.Clone(passed), isUnaltered)
	var named []runner.Test
	for _, name := range e.j.checks.FailToPass {
		named = append(named, e.passed.Find(name)...)
	}
	isUnnamed := func(t runner.Test) bool { return len(without([]runner.Test{t}, named)) > 0 }
	isUnmended := func(t runner.Test) bool { return !e.failedBefore(t) }
	for _, isLeftOut := range []func(runner.Test) bool{isUnnamed, isUnmended} {
		if tests := e.wholeTests(slices.DeleteFunc(slices.Clone(passed), isLeftOut)); len(tests) > 0 {
			return slices.DeleteFunc(slices.Clone(tests), isUnaltered), slices.DeleteFunc(tests, isAltered)
		}
	}
	return e.all, nil
}

// wholeTests returns the tests, in Go those that contain them in the place of subtests. The tests of a suite, which are
// subtests of the one that runs it, are in its place.
func (e *expectations) wholeTests(tests []runner.Test) (whole []runner.Test) {
	suites, parts := map[string]bool{}, map[string][]runner.Test{}
	for _, s := range e.sources {
		for _, name := range s.Tests {
			outer, _, isPart := strings.Cut(name, "/")
			suites[outer] = suites[outer] || isPart && alter.Language(s.Path) == "go"
		}
	}
	for _, t := range e.passed.Tests {
		if e.v.runner.IsGo && t.Status == runner.Pass && wholeName(t.Name, suites) == t.Name && !suites[t.Name] {
			parts[t.ID()] = []runner.Test{t}
			if outer, _, isPart := strings.Cut(t.Name, "/"); isPart {
				outer = runner.Test{Group: t.Group, Name: outer}.ID()
				parts[outer] = append(parts[outer], t)
			}
		}
	}
	seen := map[string]bool{}
	for _, t := range tests {
		found := parts[runner.Test{Group: t.Group, Name: wholeName(t.Name, suites)}.ID()]
		if len(found) == 0 {
			found = []runner.Test{t}
		}
		for _, one := range found {
			if !seen[one.ID()] {
				whole, seen[one.ID()] = append(whole, one), true
			}
		}
	}
	return whole
}

// wholeName returns the name of the Go test or, in a suite, of the method that a test is a part of.
func wholeName(name string, suites map[string]bool) string {
	outer, rest, _ := strings.Cut(name, "/")
	if method, _, _ := strings.Cut(rest, "/"); suites[outer] && method != "" {
		return outer + "/" + method
	}
	return outer
}

// withoutTests returns a file that failed as a whole on the untouched tree and of whose tests none ran, or "". Node does
// not report a file that registers no test.
func (e *expectations) withoutTests() string {
	if e.j.before == nil || slices.ContainsFunc(e.v.config.Command, selects.MatchString) {
		return ""
	}
	for _, s := range e.sources {
		isOf := func(t runner.Test) bool { return t.Group == s.Path }
		hasTests := slices.ContainsFunc(s.Tests, func(name string) bool { return name != "" })
		if hasTests && slices.ContainsFunc(e.j.before.report.Tests, isOf) && !slices.ContainsFunc(e.passed.Tests, isOf) {
			return s.Path
		}
	}
	return ""
}

func without(tests, others []runner.Test) []runner.Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool {
		return slices.ContainsFunc(others, func(o runner.Test) bool { return o.ID() == t.ID() })
	})
}

func (e *expectations) failedBefore(t runner.Test) bool {
	return e.j.before != nil && !e.j.before.passes(t)
}

// holds reports whether a test of a report is one of those altered in a file, or in the data that it reads.
func (e *expectations) holds(s alter.Source, test runner.Test) bool {
	return e.isNamed(test, s.Path, slices.Concat(s.Tests, s.Data))
}

// isNamed reports whether a test of a report has one of the names in a file.
func (e *expectations) isNamed(test runner.Test, file string, tests []string) bool {
	if e.whole {
		return len(tests) > 0
	}
	file = strings.TrimPrefix(file, e.folder+"/") // the module in it can have any name
	is := testNames[alter.Language(file)]
	if is == nil {
		is = isOfModule
	}
	return slices.ContainsFunc(tests, func(name string) bool { return is(test, file, name) })
}

// testNames report whether a test of a report has a name in a file, by language.
var testNames = map[string]func(test runner.Test, file, name string) bool{
	"rust": func(test runner.Test, _, name string) bool { // test.Name has the module, too
		return name == test.Name[strings.LastIndex(test.Name, ":")+1:]
	},
	"java": func(test runner.Test, file, name string) bool {
		return name == strings.TrimSuffix(test.Name, "()") && strings.HasSuffix("."+test.Group, "."+strings.TrimSuffix(path.Base(file), ".java"))
	},
	"go": func(test runner.Test, file, name string) bool {
		folder := path.Dir(file)
		return name == test.Name && (folder == "." || strings.HasSuffix("/"+test.Group, "/"+folder))
	},
	"node": func(test runner.Test, file, name string) bool {
		return test.Group == file && (name == test.Name || name == "*")
	},
}

// isOfModule is the function for Python, whose reports name modules relative to several folders.
func isOfModule(test runner.Test, file, name string) bool {
	id, _, _ := strings.Cut(test.DottedName(), "[")
	full := strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".") + "." + name
	return full == id || strings.HasSuffix(full, "."+id) || strings.HasSuffix(id, "."+full)
}

// areTruths reports whether only conditions were inverted in all of the tests.
func (e *expectations) areTruths(tests []runner.Test) bool {
	if e.whole {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return len(s.Tests) > len(s.Truths) })
	}
	return !slices.ContainsFunc(tests, func(t runner.Test) bool {
		return !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(t, s.Path, s.Truths) })
	})
}

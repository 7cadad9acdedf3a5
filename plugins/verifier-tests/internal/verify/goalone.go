package verify

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// needsTests returns a verdict on code that detects tests, and on Go code that does not build without its tests,
// from which it may take what they expect; nil on other code.
func (v *Verifier) needsTests(ctx context.Context, a *attempt, j *judgement) (*sdk.Verdict, error) {
	if asked := a.testDetection(); asked != "" {
		return j.verdict(sdk.Inconclusive, "the code asks whether it is tested: "+asked), nil
	}
	removed := a.removeTests()
	if len(removed) == 0 || !v.runner.IsGo {
		return nil, nil
	}
	alone, untouched := *a, *a
	code := slices.DeleteFunc(slices.Clone(a.changes), func(c jail.Change) bool { return strings.HasSuffix(c.Path, "_test.go") })
	alone.changes, untouched.changes = slices.Concat(code, removed), removed
	for _, change := range removed {
		alone.only = append(alone.only, change.Path)
	}
	untouched.only = alone.only
	report, result, err := v.run(ctx, &alone, false)
	if err != nil || result.ExitCode == 0 {
		return nil, err
	}
	if _, result, err = v.run(ctx, &untouched, false); err != nil || result.ExitCode != 0 {
		return nil, err
	}
	return j.verdict(sdk.Failed, "without its tests the code is not built:\n"+report.Broken), nil
}

// readsTests returns a verdict on Go code of whose tests not everything was seen, if a test that it repaired fails, twice,
// where the sources of tests are not; nil otherwise.
func (v *Verifier) readsTests(ctx context.Context, a *attempt, j *judgement, passed *runner.Report) (*sdk.Verdict, error) {
	alone := *a
	alone.only = append([]string{}, v.testCode(a.tree, passed)...)
	tests := slices.DeleteFunc(slices.Clone(passed.Tests), func(t runner.Test) bool {
		return t.Status != runner.Pass || j.before != nil && j.before.passes(t) || slices.Contains(j.flaky, t.ID())
	})
	for n := 0; len(tests) > 0; n++ {
		if n == 2 {
			return j.verdict(sdk.Inconclusive, "a test passed, and did not where the sources of tests are not: "+tests[0].ID()), nil
		}
		report, _, err := v.run(ctx, &alone, false)
		if err != nil {
			return nil, err
		}
		tests = slices.DeleteFunc(tests, func(t runner.Test) bool {
			status, _ := report.Status(t.ID()) // Missing if it is not found
			return status != runner.Fail
		})
	}
	return nil, nil
}

// removeTests returns the changes that remove the tests from the Go packages that the answer changes; none if their
// code cannot use what these tests declare.
func (a *attempt) removeTests() (removed []jail.Change) {
	texts := map[string][]byte{} // of the files in the folders of these packages
	folders := map[string]bool{}
	for _, change := range a.changes {
		folders[path.Dir(change.Path)] = folders[path.Dir(change.Path)] || path.Ext(change.Path) == ".go"
	}
	for _, file := range a.tree.Files {
		if folders[path.Dir(file)] {
			texts[file], _ = a.tree.read(file) // an unreadable test file may declare anything
		}
	}
	for _, change := range a.changes {
		texts[change.Path] = change.Data
	}
	var tests, code [][]byte
	for file, text := range texts {
		switch {
		case !strings.HasSuffix(file, "_test.go"):
			code = append(code, text)
			continue
		case a.tree.has(file):
			removed = append(removed, jail.Change{Path: file, Delete: true})
		}
		tests = append(tests, text)
	}
	if !mayUseTests(bytes.Join(code, []byte("\n")), tests) {
		return nil
	}
	return removed
}

var (
	word = regexp.MustCompile(`[\pL_][\pL\pN_]*`)
	// nameless matches ways to use test files, or to exclude code from the build, without a name that they declare.
	nameless = regexp.MustCompile(`(?m)^\s*//\s*(go:embed|go:build|\+build)|^\s*(import\s+)?"C"`)
)

// mayUseTests reports whether Go code may use what test files declare. Methods can be used without being named.
func mayUseTests(code []byte, tests [][]byte) bool {
	names := map[string]bool{}
	for _, text := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		if err != nil {
			return true
		}
		if strings.HasSuffix(file.Name.Name, "_test") {
			continue // an external test package, which the code cannot use
		}
		for node := range ast.Preorder(file) {
			switch n := node.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					return true
				}
				names[n.Name.Name] = true
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names[name.Name] = true
				}
			}
		}
	}
	delete(names, "_")
	return len(names) > 0 && (nameless.Match(code) || slices.ContainsFunc(word.FindAll(code, -1), func(w []byte) bool { return names[string(w)] }))
}

// askingIfTested matches how code asks whether tests run it.
var askingIfTested = regexp.MustCompile(`PYTEST_CURRENT_TEST|["'](?:pytest|unittest)["'] (?:not )?in sys\.modules|sys\.modules\.get\(["'](?:pytest|unittest)\b|` +
	`NODE_TEST_CONTEXT|JEST_WORKER_ID|\benv\.VITEST\b|\btypeof (?:globalThis\.)?(?:expect|describe|jest|vi)\b|\bexpect\.extend\(|\btesting\.Testing\(\)|\bflag\.Lookup\("test\.|\bcfg!\(test\)`)

// testDetection returns the code with which the answer newly detects tests, or "".
func (a *attempt) testDetection() string {
	for _, change := range a.changes {
		before, _ := a.tree.read(change.Path) // it does not exist if the file is new
		if asked := askingIfTested.Find(change.Data); isCode(change.Path) && asked != nil && !bytes.Contains(before, asked) {
			return string(asked)
		}
	}
	return ""
}

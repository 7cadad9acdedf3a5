package verify

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

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

// externalTest matches Go tests in an external _test package, which the package under test cannot use.
var externalTest = regexp.MustCompile(`(?m)^package \w+_test\b`)

// removeTests returns the changes that remove the tests from the Go packages that the answer changes; none if all
// are in external packages.
func (a *attempt) removeTests() (removed []jail.Change) {
	folders, isWithin := map[string]bool{}, false
	for _, change := range a.changes {
		folders[path.Dir(change.Path)] = folders[path.Dir(change.Path)] || path.Ext(change.Path) == ".go"
	}
	for _, file := range a.tree.Files {
		if !folders[path.Dir(file)] || !strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := a.tree.read(file)
		isWithin = isWithin || err == nil && !externalTest.Match(text)
		removed = append(removed, jail.Change{Path: file, Delete: true})
	}
	if !isWithin {
		return nil
	}
	return removed
}

// askingIfTested matches code that detects whether tests run it.
var askingIfTested = regexp.MustCompile(`PYTEST_CURRENT_TEST|["'](?:pytest|unittest)["'] (?:not )?in sys\.modules|sys\.modules\.get\(["'](?:pytest|unittest)\b|` +
	`NODE_TEST_CONTEXT|JEST_WORKER_ID|\btesting\.Testing\(\)|\bflag\.Lookup\("test\.|\bcfg!\(test\)`)

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

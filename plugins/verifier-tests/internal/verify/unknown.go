package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
)

var (
	// What follows the function in a test's name: parameters, a class, subtests in Go.
	afterFunction = regexp.MustCompile(`(?:\[| \(|((?:^|\.)Test\w*)/).*$`)
	lastWord      = regexp.MustCompile(`[\p{L}\p{N}_]+$`)
)

// hidesTests reports whether a test stands for a file or module that cannot be loaded.
func hidesTests(t runner.Test) bool {
	return t.Status == runner.Fail && (t.Group == "" || strings.HasPrefix(t.Name, "(") || strings.HasSuffix(t.Group, "_FailedTest"))
}

// unknownNames returns the tests that must pass, but are neither in the untouched run nor named in any file that its
// tests came from or, if some files cannot be loaded, may come from. It returns nil if this cannot be known: answers
// are allowed to add tests, or something that does not build may contain them.
func (v *Verifier) unknownNames(t *tree, j *judgement) []string {
	if j.before == nil || j.before.report.Broken != "" || v.config.AllowTestEdits {
		return nil
	}
	files := j.before.report.Files
	isRun := len(files) > 0 && !slices.ContainsFunc(j.before.report.Tests, hidesTests)
	if !isRun {
		files = t.Files
	}
	return slices.DeleteFunc(slices.Clone(j.checks.FailToPass), func(name string) bool {
		if _, found := j.before.report.Status(name); found {
			return true
		}
		word := lastWord.FindString(afterFunction.ReplaceAllString(name, "$1"))
		whole := regexp.MustCompile(`(?:^|[^\p{L}\p{N}_])` + word + `(?:[^\p{L}\p{N}_]|$)`)
		defined := regexp.MustCompile(`(?m)^\s*(?:async\s+)?(?:def|class)\s+` + word + `\b`)
		return word == "" || slices.ContainsFunc(files, func(file string) bool {
			data, err := t.read(file)
			module, isPython := strings.CutSuffix(path.Base(file), ".py")
			isOther := isRun && strings.ContainsAny(name, ".:") && module != "__init__" && !strings.Contains(name, module)
			return err != nil || isPython && !isOther && defined.Match(data) || !isPython && whole.Match(data)
		})
	})
}

package verify

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// expectedFile matches paths of files with expected results.
var expectedFile = regexp.MustCompile(`(?i)(want|expect|golden|snap|baseline|\bcases?\b|\.out$|\.ref$)`)

// testCode returns the files in which expectations, and the names of files with expectations, are searched for: those
// that the tests came from, those that the command names, and those named like tests.
func (v *Verifier) testCode(t *tree, report *runner.Report) []string {
	operands, _, _ := runner.Follow(v.config.Command, &t.Tree)
	whole := report.IsWhole
	mentions := map[string]bool{}
	for _, test := range report.Tests {
		for part := range strings.SplitSeq(test.DottedName(), ".") {
			mentions[part] = true
		}
	}
	code := slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
		if strings.Contains("/"+file, "/node_modules/") {
			return true
		}
		switch language := alter.Language(file); {
		case slices.Contains(report.Files, file), language == "rust":
			return !isCode(file) && toolSettings.has(file) // pyproject.toml names what is packaged, not what is expected
		case language == "go":
			return !strings.HasSuffix(file, "_test.go")
		case whole && slices.Contains(operands, file):
			return !isCode(file) && path.Ext(file) != "" && path.Ext(file) != ".mk" && path.Base(file) != "package.json"
		case whole:
			return !isCode(file) || !allTests.has(file) && !slices.Contains(v.config.Command, file)
		}
		return len(report.Files) > 0 || !allTests.has(file) || !mentions[strings.TrimSuffix(path.Base(file), ".py")]
	})
	if whole && !runner.IsInterpreter(v.config.Command[0]) {
		return v.namedTests(t, code, operands)
	}
	return code
}

// namedTests returns those of the test files that the command names, by a path, a part of one, a folder or a pattern,
// with those that these name and the scripts; all if it names none.
func (v *Verifier) namedTests(t *tree, code, scripts []string) []string {
	operands := slices.DeleteFunc(slices.Clone(v.config.Command[1:]), func(word string) bool { return word == "" || strings.HasPrefix(word, "-") })
	for i, word := range operands {
		word, _, _ = strings.Cut(word, "::")
		operands[i] = path.Clean(word)
	}
	isNamedBy := func(word, file string) bool { return strings.Contains(file, word) || jail.Match(word, file) }
	isPath := func(word string) bool {
		return (strings.ContainsAny(word, "/*") || isCode(word)) && slices.ContainsFunc(code, func(file string) bool { return isNamedBy(word, file) }) ||
			slices.ContainsFunc(code, func(file string) bool { return strings.HasPrefix(file, word+"/") })
	}
	if !slices.ContainsFunc(operands, isPath) {
		return code
	}
	isNamed := func(file string) bool {
		return slices.ContainsFunc(operands, func(word string) bool { return isNamedBy(word, file) })
	}
	var named []string
	rest := slices.Clone(code)
	for more := isNamed; ; {
		found := slices.DeleteFunc(slices.Clone(rest), func(file string) bool { return !more(file) })
		if len(found) == 0 {
			break
		}
		rest = slices.DeleteFunc(rest, more)
		named = append(named, found...)
		text := t.textOf(found)
		more = func(file string) bool {
			return bytes.Contains(text, []byte(strings.TrimSuffix(path.Base(file), path.Ext(file))))
		}
	}
	return slices.DeleteFunc(code, func(file string) bool { return !slices.Contains(named, file) && !slices.Contains(scripts, file) })
}

// testData returns the data files of a tree that its test code names and no other code does: those that the tests
// take their expectations from. A script also names what it tests, so there the file's name must match expectedFile.
func (v *Verifier) testData(t *tree, testCode []string, byName bool) []string {
	tests, rest := t.textOf(testCode), []byte(nil)
	named := slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
		isClass := path.Ext(file) == ".class" // which Java code with X.class does not read
		return isCode(file) || isClass || slices.Contains(testCode, file) || toolSettings.has(file) || !mentions(tests, file) ||
			byName && !expectedFile.MatchString(file)
	})
	if len(named) > 0 {
		rest = t.textOf(slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
			return !isCode(file) || slices.Contains(testCode, file)
		}))
	}
	return slices.DeleteFunc(named, func(file string) bool { return mentions(rest, file) })
}

// mentions reports whether code names a file: by its name, or by its folder and extension.
func mentions(code []byte, file string) bool {
	folder, ending := path.Base(path.Dir(file)), path.Ext(file)
	return bytes.Contains(code, []byte(path.Base(file))) ||
		folder != "." && ending != "" && bytes.Contains(code, []byte(ending)) && regexp.MustCompile(`\b`+regexp.QuoteMeta(folder)+`["'/]`).Match(code)
}

// maxCode limits the code that is searched for the names of files, in bytes.
const maxCode = 16 << 20

func (t *tree) textOf(files []string) []byte {
	var all []byte
	for _, file := range files {
		if data, err := t.read(file); err == nil && len(all) < maxCode {
			all = append(append(all, data...), '\n')
		}
	}
	return all
}

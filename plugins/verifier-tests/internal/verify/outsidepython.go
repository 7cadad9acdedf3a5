package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// atStart matches a conftest.py without which code can behave differently.
	atStart = regexp.MustCompile(`autouse|(?m)^(?:def pytest_|[\w.]+\(|os\.environ)`)
	// example matches a doctest example with its result.
	example = regexp.MustCompile(`(?m)(^[ \t]*(?:>>>|\.\.\.) .*\n)(?:[ \t]*(?:[^\s"'>.]|"[^"\n]|'[^'\n]).*\n)+`)
)

// pythonAsker asks code in Python, in forks of an interpreter without a framework.
var pythonAsker = asker{
	begins: func(file, text string) bool {
		return path.Base(file) == "conftest.py" && atStart.MatchString(text)
	},
	shows: func(file, text string) (string, bool) {
		if ofPython.has(file) && pythonTest.MatchString(text) {
			return "", false
		}
		if path.Ext(file) == ".py" && strings.Contains(text, ">>>") {
			text = example.ReplaceAllString(text, "$1")
		}
		return text, true
	},
	settings: func(e *expectations) map[string]any {
		modules := append(slices.Clone(e.passed.Path), ".")
		for _, file := range e.files {
			modules = append(modules, path.Dir(file))
		}
		return map[string]any{"path": slices.Compact(modules)}
	},
}

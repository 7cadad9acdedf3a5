package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// preloads matches settings and options that load something before the tests.
	preloads = regexp.MustCompile(`setupFiles|globalSetup|--?(r|require|import|loader|experimental-loader)\b|\brequire:`)
	// nodeSettings matches the files with such settings.
	nodeSettings = regexp.MustCompile(`^(jest|vitest|vite|babel)\.config\.|^\.mocharc`)
	// nodeTest matches JavaScript code with tests.
	nodeTest = regexp.MustCompile(`\b(node:test|node:assert|require\(['"](assert|test|vitest|chai)\b)|\b(describe|it|test)\(`)
	// nodeOption matches options that change how Node reads code.
	nodeOption = regexp.MustCompile(`^--(experimental-(strip|transform)-types|conditions=)`)
)

// nodeAsker asks code in Node, in one process per question.
var nodeAsker = asker{
	begins: func(file, text string) bool {
		return nodeSettings.MatchString(path.Base(file)) && preloads.MatchString(text)
	},
	shows: func(file, text string) (string, bool) {
		return text, strings.Contains(file, "node_modules/") || !ofScripts.has(file) || !nodeTest.MatchString(text)
	},
	settings: func(e *expectations) map[string]any {
		command := e.v.config.Command
		if preloads.MatchString(strings.Join(command, " ") + "\n" + e.source("package.json", nil).Text) {
			return nil
		}
		return map[string]any{"options": slices.DeleteFunc(slices.Clone(command), func(word string) bool { return !nodeOption.MatchString(word) })}
	},
}

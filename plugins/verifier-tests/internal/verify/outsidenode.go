package verify

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/sdk/jail"
)

// nodeAsker asks code in Node, a process for each question: see [alter.Askers].
type nodeAsker struct{ e *expectations }

var (
	// preloads matches settings and options of commands that have something loaded before the tests.
	preloads = regexp.MustCompile(`setupFiles|globalSetup|--?(r|require|import|loader|experimental-loader)\b|\brequire:`)
	// nodeSettings matches the files with such settings.
	nodeSettings = regexp.MustCompile(`^(jest|vitest|vite|babel)\.config\.|^\.mocharc`)
	// nodeTest matches what makes a file in JavaScript one with tests.
	nodeTest = regexp.MustCompile(`\b(node:test|node:assert|require\(['"](assert|test|vitest|chai)\b)|\b(describe|it|test)\(`)
	// nodeOption matches options by which Node reads code in another way.
	nodeOption = regexp.MustCompile(`^--(experimental-(strip|transform)-types|conditions=)`)
)

func (n *nodeAsker) begins(file, text string) bool {
	return nodeSettings.MatchString(path.Base(file)) && preloads.MatchString(text)
}

func (n *nodeAsker) shows(file, text string) (string, bool) {
	return text, strings.Contains(file, "node_modules/") || !ofScripts.has(file) || !nodeTest.MatchString(text)
}

func (n *nodeAsker) answers(ctx context.Context, groups [][]alter.Question, changes []jail.Change) (found [][]string, err error) {
	e := n.e
	interpreter := e.interpreter(ctx, "node")
	command := strings.Join(e.v.config.Command, " ") + "\n" + e.source("package.json", nil).Text
	if interpreter == "" || preloads.MatchString(command) {
		return nil, nil
	}
	options := slices.DeleteFunc(slices.Clone(e.v.config.Command), func(word string) bool { return !nodeOption.MatchString(word) })
	request := map[string]any{"options": options, "groups": toAsk(groups), "patience": e.patience()}
	return found, e.runProgram(ctx, interpreter, alter.Askers["node"], request, changes, &found)
}

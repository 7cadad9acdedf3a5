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

// pythonAsker asks code in Python, by forks of an interpreter without a framework: see [alter.Askers].
type pythonAsker struct{ e *expectations }

// atStart matches a conftest.py without which code may do something else.
var atStart = regexp.MustCompile(`autouse|(?m)^(?:def pytest_|[\w.]+\(|os\.environ)`)

func (p *pythonAsker) begins(file, text string) bool {
	return path.Base(file) == "conftest.py" && atStart.MatchString(text)
}

// example matches what an example in the documentation of Python code gives.
var example = regexp.MustCompile(`(?m)(^[ \t]*(?:>>>|\.\.\.) .*\n)(?:[ \t]*(?:[^\s"'>.]|"[^"\n]|'[^'\n]).*\n)+`)

func (p *pythonAsker) shows(file, text string) (string, bool) {
	if ofPython.has(file) && pythonTest.MatchString(text) {
		return "", false
	}
	if path.Ext(file) == ".py" && strings.Contains(text, ">>>") {
		text = example.ReplaceAllString(text, "$1")
	}
	return text, true
}

func (p *pythonAsker) answers(ctx context.Context, groups [][]alter.Question, changes []jail.Change) (found [][]string, err error) {
	e := p.e
	interpreter := e.interpreter(ctx, "python")
	if interpreter == "" {
		return nil, nil
	}
	modules := append(slices.Clone(e.passed.Path), ".")
	for _, file := range e.files {
		modules = append(modules, path.Dir(file))
	}
	request := map[string]any{"path": slices.Compact(modules), "groups": toAsk(groups), "patience": e.patience()}
	return found, e.runProgram(ctx, interpreter, alter.Askers["python"], request, changes, &found)
}

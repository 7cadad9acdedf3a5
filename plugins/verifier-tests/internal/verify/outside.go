package verify

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// maxQuestions bounds what is asked about one answer.
const maxQuestions = 500

// atStart matches a conftest.py without which code may do something else.
var atStart = regexp.MustCompile(`autouse|(?m)^(?:def pytest_|[\w.]+\(|os\.environ)`)

// askOutside asks the code what the tests compare, where none of them is: without a framework,
// what is expected, names, and the inputs of other tests, each question in a process of its own.
// What answers as the tests expect there is right about them, whatever becomes of the tests.
// Those of which all is answered so are e.answered. Those of which something is not, each time,
// are e.differing, unless it hangs on what was asked before it or on what the untouched tree lacks, too.
func (e *expectations) askOutside(ctx context.Context, tests []runner.Test) error {
	asked := e.questions(tests)
	if len(asked) == 0 || len(asked) > maxQuestions {
		return nil
	}
	hidden := overlay(e.v.leftOut(e.a.tree), e.a.changes, e.hidden(false))
	answers, err := e.answers(ctx, oneByOne(asked), hidden)
	if err != nil {
		return err
	}
	e.differing = odds(asked, answers)
	if len(e.differing) > 0 {
		if err := e.askAgain(ctx, asked, hidden); err != nil {
			return err
		}
	}
	for _, test := range tests {
		own := e.questions([]runner.Test{test})
		isAnswered := func(q alter.Question) bool {
			at := slices.Index(asked, q)
			return at < len(answers) && len(answers[at]) == 1 && isAsExpected(q, answers[at][0])
		}
		isOther := func(q alter.Question) bool { return !isAnswered(q) }
		if len(own) > 0 && !slices.ContainsFunc(own, isOther) && slices.ContainsFunc(e.sources, func(s alter.Source) bool { return e.isNamed(test, s.Path, s.Answerable) }) {
			e.answered = append(e.answered, test)
		}
	}
	return nil
}

// questions are those of the tests; none where the tests need more than their own files to begin.
func (e *expectations) questions(tests []runner.Test) []alter.Question {
	for _, file := range e.a.tree.Files {
		if path.Base(file) == "conftest.py" && atStart.MatchString(e.source(file, nil).Text) {
			return nil
		}
	}
	var all []alter.Question
	for _, source := range e.sources {
		all = append(all, slices.DeleteFunc(slices.Clone(source.Questions), func(q alter.Question) bool {
			return !slices.ContainsFunc(tests, func(t runner.Test) bool { return e.isNamed(t, source.Path, []string{q.Test}) })
		})...)
	}
	return all
}

// askAgain leaves those of e.differing that are so once more, all the same.
func (e *expectations) askAgain(ctx context.Context, asked []alter.Question, hidden []jail.Change) error {
	again, err := e.answers(ctx, append(oneByOne(e.differing), asked), hidden)
	if err != nil || len(again) <= len(e.differing) {
		e.differing = nil
		return err
	}
	untouched, err := e.answers(ctx, oneByOne(e.differing), overlay(e.v.leftOut(e.a.tree), e.hidden(false)))
	if err != nil {
		return err
	}
	withData, err := e.answers(ctx, oneByOne(e.differing), overlay(e.v.leftOut(e.a.tree), e.a.changes, e.hidden(true)))
	if err != nil {
		return err
	}
	var odd []alter.Question
	for i, q := range e.differing {
		together, isContext := again[len(e.differing)], i < len(untouched) && strings.HasPrefix(strings.Join(again[i], ""), "raised") && slices.Equal(again[i], untouched[i])
		isHanging := len(together) == len(asked) && isAsExpected(q, together[slices.Index(asked, q)])
		switch {
		case !isOdd(q, again[i]), isContext, isHanging:
		case i < len(withData) && !isOdd(q, withData[i]):
			e.unknown = append(e.unknown, alter.Comparison{Test: q.Test})
		default:
			odd = append(odd, q)
		}
	}
	e.differing = odd
	return nil
}

// answers has groups of questions answered, each group in a process of its own.
func (e *expectations) answers(ctx context.Context, groups [][]alter.Question, changes []jail.Change) (found [][]string, err error) {
	interpreter := e.interpreter(ctx, "python")
	if interpreter == "" {
		return nil, nil
	}
	modules := append(slices.Clone(e.passed.Path), ".")
	for _, file := range e.files {
		modules = append(modules, path.Dir(file))
	}
	request := map[string]any{"path": slices.Compact(modules), "groups": groups}
	return found, e.runProgram(ctx, interpreter, alter.Asker, request, changes, &found)
}

func oneByOne(questions []alter.Question) (groups [][]alter.Question) {
	for _, q := range questions {
		groups = append(groups, []alter.Question{q})
	}
	return groups
}

// isAsExpected reports whether an answer is what a test expects, whatever its class.
func isAsExpected(q alter.Question, answer string) bool {
	return answer != "" && strings.ContainsAny(answer[:1], "=~") && answer[1:] == q.Value[1:]
}

// isOdd reports whether answers are something else than a test expects. Of another class than
// the language's own nobody knows what it is equal to.
func isOdd(q alter.Question, answers []string) bool {
	return len(answers) == 1 && answers[0] != "" && strings.ContainsAny(answers[0][:1], "=r") && !isAsExpected(q, answers[0])
}

func odds(asked []alter.Question, answers [][]string) (odd []alter.Question) {
	for i, q := range asked {
		if i < len(answers) && isOdd(q, answers[i]) {
			odd = append(odd, q)
		}
	}
	return odd
}

// example matches what an example in the documentation of Python code gives.
var example = regexp.MustCompile(`(?m)(^[ \t]*(?:>>>|\.\.\.) .*\n)(?:[ \t]*(?:[^\s"'>.]|"[^"\n]|'[^'\n]).*\n)+`)

// apart matches files that are about code, and no part of it.
var apart = regexp.MustCompile(`(?i)\.(md|rst)$|(^|/)(docs?|tests?|examples?|samples?)/`)

// hidden takes out of the tree what could say what tests expect: the tests, what examples give,
// and files that are no code and that the code does not name, unless with data, which leaves
// those that are not apart.
func (e *expectations) hidden(withData bool) []jail.Change {
	changes, t, isTest := e.copies, e.a.tree, newGuard(pythonTests)
	code := t.textOf(slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
		return !isCode(file) || slices.Contains(e.files, file) || path.Base(file) == "setup.py"
	}))
	for _, file := range t.Files {
		switch {
		case strings.Contains(file, "-packages/"):
		case slices.Contains(e.files, file), !isCode(file) && !mentions(code, file) && (!withData || apart.MatchString(file)), isTest.has(file) && pythonTest.MatchString(e.source(file, nil).Text):
			changes = append(changes, jail.Change{Path: file, Delete: true})
		case path.Ext(file) == ".py":
			if text := []byte(e.source(file, e.a.changes).Text); bytes.Contains(text, []byte(">>>")) {
				changes = append(changes, jail.Change{Path: file, Data: example.ReplaceAll(text, []byte("$1"))})
			}
		}
	}
	return changes
}

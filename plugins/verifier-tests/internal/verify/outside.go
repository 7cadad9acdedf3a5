package verify

import (
	"context"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// maxQuestions bounds what is asked about one answer.
const maxQuestions = 500

// late is the answer to a question that was not asked since those before it took too long.
const late = "?late"

// maxAsking bounds how long questions are begun about one answer, first and again.
const maxAsking = 30 * time.Second

// patience returns how many seconds are left of that.
func (e *expectations) patience() float64 {
	if e.asking.IsZero() {
		e.asking = time.Now()
	}
	return max(0, (maxAsking - time.Since(e.asking)).Seconds())
}

// asker asks the code of one language.
type asker interface {
	// begins reports whether a file has something done before the tests, without which the code
	// may do something else: of what it gives then, errors say nothing, and values little.
	begins(file, text string) bool
	// shows returns what questions find of a file of code, and whether they do: not the tests,
	// nor what examples give.
	shows(file, text string) (string, bool)
	// answers has groups of questions answered in the tree with changes, each group in a process
	// of its own. A note of what is compared begins as [alter.Request] says, or with raised. There
	// are fewer where the rest could not be asked.
	answers(ctx context.Context, groups [][]alter.Question, changes []jail.Change) ([][]string, error)
}

// askers are those of the languages.
func (e *expectations) askers() map[string]asker {
	return map[string]asker{"node": &nodeAsker{e}, "python": &pythonAsker{e}}
}

// askOutside asks the code what the tests compare, where none of them is: without a framework,
// what is expected, names, and the inputs of other tests, each question in a process of its own.
// What answers as the tests expect there is right about them, whatever becomes of the tests.
// Those of which all is answered so are e.answered. Those of which something is not, each time,
// are e.differing, unless it hangs on what was asked before it or on what the untouched tree lacks, too.
func (e *expectations) askOutside(ctx context.Context, tests []runner.Test) error {
	askers := e.askers()
	for _, language := range slices.Sorted(maps.Keys(askers)) {
		if err := e.askIn(ctx, askers[language], language, tests); err != nil {
			return err
		}
	}
	return nil
}

func (e *expectations) askIn(ctx context.Context, in asker, language string, tests []runner.Test) error {
	asked := e.questions(tests, language)
	if len(asked) == 0 || len(asked) > maxQuestions {
		return nil
	}
	answers, err := e.answers(ctx, in, asked)
	if err != nil {
		return err
	}
	begins := e.begins(in, language)
	for i := range asked {
		asked[i].Alone = asked[i].Alone && !begins
	}
	var right, differing []alter.Question
	var first [][]string
	for i, answer := range answers {
		q := asked[i]
		switch {
		case slices.Contains(answer, late):
			e.setUnknown("the code takes too long to answer where no test runs", titleOf(q.Test, q.File))
		case begins && hasRaised(answer):
		case isOdd(q, answer):
			differing, first = append(differing, q), append(first, answer)
		case q.Expected != "" && ownClass.MatchString(strings.Join(answer, "")):
			e.setUnknown("a class of the code's own is compared with what the test computes", titleOf(q.Test, q.File))
		case len(answer) == 1 && isAsExpected(q, answer[0]):
			right = append(right, q)
		}
	}
	e.answered = append(e.answered, slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool { return !e.isWholly(t, asked, right) })...)
	if len(differing) == 0 {
		return nil
	}
	return e.askAgain(ctx, in, asked, differing, first)
}

// answers has questions answered, as far as there is time, and gives them the values that they
// expect where these are computed.
func (e *expectations) answers(ctx context.Context, in asker, asked []alter.Question) ([][]string, error) {
	groups := oneByOne(asked)
	for _, q := range slices.Concat(asked, asked) {
		if q.Expected != "" {
			groups = append(groups, []alter.Question{{File: q.File, Program: q.Expected, Apart: true}})
		}
	}
	answers, err := in.answers(ctx, groups, e.shown(in, asked, false))
	if len(answers) == len(groups) {
		expect(asked, answers[len(asked):])
	}
	return answers[:min(len(asked), len(answers))], err
}

// expect gives questions the values that they expect, where these were computed twice, the same.
func expect(asked []alter.Question, computed [][]string) {
	half, at := len(computed)/2, 0 //nolint:mnd // each was computed twice
	for i := range asked {
		if asked[i].Expected == "" {
			continue
		}
		if first := computed[at]; len(first) == 1 && strings.HasPrefix(first[0], "=") && slices.Equal(first, computed[half+at]) {
			asked[i].Value = first[0]
		}
		at++
	}
}

// isWholly reports whether all that a test compares was asked and is right.
func (e *expectations) isWholly(test runner.Test, asked, right []alter.Question) bool {
	isWrong := func(q alter.Question) bool {
		return e.isNamed(test, q.File, []string{q.Test}) && !slices.Contains(right, q)
	}
	isOpen := func(s alter.Source) bool { return e.holds(s, test) && !e.isNamed(test, s.Path, s.Answerable) }
	return slices.ContainsFunc(asked, func(q alter.Question) bool { return e.isNamed(test, q.File, []string{q.Test}) }) &&
		!slices.ContainsFunc(asked, isWrong) && !slices.ContainsFunc(e.sources, isOpen)
}

// begins reports whether the tests in a language need more than their own files to begin.
func (e *expectations) begins(in asker, language string) bool {
	return slices.ContainsFunc(e.a.tree.Files, func(file string) bool {
		return alter.Language(file) == language && in.begins(file, e.source(file, nil).Text)
	})
}

func (e *expectations) questions(tests []runner.Test, language string) []alter.Question {
	var all []alter.Question
	for _, source := range e.sources {
		if alter.Language(source.Path) != language {
			continue
		}
		all = append(all, slices.DeleteFunc(slices.Clone(source.Questions), func(q alter.Question) bool {
			return !slices.ContainsFunc(tests, func(t runner.Test) bool { return e.isNamed(t, source.Path, []string{q.Test}) })
		})...)
	}
	return all
}

// secondAnswers are those to odd questions when they are asked again: alone, with files that no code
// names, of the untouched tree, and among all in the order of the file. Those that would tell nothing
// are not asked.
type secondAnswers struct {
	alone, withData, untouched [][]string
	inOrder                    []string
}

func (e *expectations) askSecond(ctx context.Context, in asker, asked, odd []alter.Question) (second secondAnswers, err error) {
	some, all := e.shown(in, asked, false), e.shown(in, asked, true)
	found, err := in.answers(ctx, append(oneByOne(odd), asked), some)
	if err != nil {
		return second, err
	}
	if second.alone = found[:min(len(odd), len(found))]; len(found) > len(odd) {
		second.inOrder = found[len(odd)]
	}
	if !reflect.DeepEqual(all, some) {
		if second.withData, err = in.answers(ctx, oneByOne(odd), all); err != nil {
			return second, err
		}
	}
	if slices.ContainsFunc(found, hasRaised) {
		answer := *e.a
		e.a.changes = nil
		second.untouched, err = in.answers(ctx, oneByOne(odd), e.shown(in, asked, false))
		e.a.changes = answer.changes
	}
	return second, err
}

// isExcused reports whether what a question finds hangs on what was asked before it, or on what the
// untouched tree lacks, too.
func (s *secondAnswers) isExcused(i int, q alter.Question, asked []alter.Question) bool {
	isInOrder := len(s.inOrder) == len(asked) && isAsExpected(q, s.inOrder[slices.Index(asked, q)])
	return isInOrder || i < len(s.untouched) && slices.Equal(s.alone[i], s.untouched[i]) && hasRaised(s.alone[i])
}

// askAgain adds those of odd questions to e.differing that are so once more, all the same, where
// the answers were the first, and where they are not right in the order of the file.
func (e *expectations) askAgain(ctx context.Context, in asker, asked, odd []alter.Question, first [][]string) error {
	second, err := e.askSecond(ctx, in, asked, odd)
	if err != nil {
		return err
	}
	for i, answer := range second.alone {
		q := odd[i]
		if slices.Contains(answer, late) {
			e.setUnknown("the code takes too long to answer where no test runs", titleOf(q.Test, q.File))
		}
		isSame := q.Expected == "" || slices.Equal(first[i], answer)
		switch {
		case !isSame || !isOdd(q, answer) || second.isExcused(i, q, asked):
		case i < len(second.withData) && !isOdd(q, second.withData[i]):
			e.setUnknown("what is returned hangs on files that no code names", titleOf(q.Test, q.File))
		default:
			e.differing = append(e.differing, q)
		}
	}
	return nil
}

// toAsk are groups of questions without what the code must not find where they are asked: what is
// expected, but for errors, whose messages are matched there, and of which test they are.
func toAsk(groups [][]alter.Question) (all [][]alter.Question) {
	for _, group := range groups {
		var plain []alter.Question
		for _, q := range group {
			if !strings.HasPrefix(q.Value, "=raised") {
				q.Value = ""
			}
			plain = append(plain, alter.Question{File: q.File, Program: q.Program, Value: q.Value, Apart: q.Apart})
		}
		all = append(all, plain)
	}
	return all
}

func oneByOne(questions []alter.Question) (groups [][]alter.Question) {
	for _, q := range questions {
		groups = append(groups, []alter.Question{q})
	}
	return groups
}

// isAsExpected reports whether an answer is what a test expects, whatever its class.
func isAsExpected(q alter.Question, answer string) bool {
	return answer != "" && q.Value != "" && strings.ContainsAny(answer[:1], "=~") && answer[1:] == q.Value[1:]
}

// isOdd reports whether answers are something else than a test expects. Of another class than
// the language's own nobody knows what it is equal to.
func isOdd(q alter.Question, answers []string) bool {
	return len(answers) == 1 && answers[0] != "" && q.Value != "" && strings.ContainsAny(answers[0][:1], "=r") && !isAsExpected(q, answers[0])
}

// hasRaised reports whether the first of several questions has no answer but an error.
func hasRaised(answers []string) bool { return strings.HasPrefix(strings.Join(answers, ""), "raised") }

// ownClass matches a note of something that has no text, as of a class of the code's own.
var ownClass = regexp.MustCompile(`^\?\w+$`)

// apart matches files that are about code, and no part of it.
var apart = regexp.MustCompile(`(?i)\.(md|rst)$|(^|/)(docs?|tests?|examples?|samples?)/`)

// shown are the changes to the tree for questions: the answer's, without what could say what
// tests expect. That are the tests, what examples give, and files that are no code and that neither
// the code nor a question names, unless with data, which leaves those that are not apart.
func (e *expectations) shown(in asker, asked []alter.Question, withData bool) []jail.Change {
	t, hidden := e.a.tree, []jail.Change(nil)
	code := t.textOf(slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
		return !isCode(file) || slices.Contains(e.files, file) || path.Base(file) == "setup.py"
	}))
	for _, q := range asked {
		code = append(code, q.Program...)
	}
	for _, file := range t.Files {
		if strings.Contains(file, "-packages/") {
			continue
		}
		text := e.source(file, e.a.changes).Text
		shown, isShown := text, isCode(file) || toolSettings.has(file) || mentions(code, file) || withData && !apart.MatchString(file)
		if isShown && isCode(file) {
			shown, isShown = in.shows(file, text)
		}
		switch {
		case !isShown || slices.Contains(e.files, file):
			hidden = append(hidden, jail.Change{Path: file, Delete: true})
		case shown != text:
			hidden = append(hidden, jail.Change{Path: file, Data: []byte(shown)})
		}
	}
	return overlay(e.v.leftOut(t), e.a.changes, hidden)
}

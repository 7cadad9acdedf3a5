package verify

import (
	"context"
	"maps"
	"math/rand/v2"
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

// maxQuestions limits the questions about one answer, and maxEarlier those of tests that passed before the answer.
const (
	maxQuestions = 500
	maxEarlier   = 10
)

// lateAnswer is the answer to a question that was not asked because earlier ones took too long.
const lateAnswer = "?late"

// slowReason is the reason that is reported in this case.
const slowReason = "the code takes too long to answer where no test runs"

// maxAsking limits the time in which questions about one answer are begun, including repetitions.
const maxAsking = 30 * time.Second

// secondsLeft returns the rest of maxAsking in seconds.
func (e *expectations) secondsLeft() float64 {
	if e.asking.IsZero() {
		e.asking = time.Now()
	}
	return max(0, (maxAsking - time.Since(e.asking)).Seconds())
}

// asker defines how questions are asked in one language, with a program of [alter.Askers].
type asker struct {
	// begins reports whether a file has code that must run before the tests, without which the code under test
	// can behave differently: then errors say nothing about it, and values little.
	begins func(file, text string) bool
	// shows returns the content of a code file that questions can see, without the results of examples; it is
	// not shown at all if it is a test.
	shows func(file, text string) (string, bool)
	// settings returns the program's settings besides the questions, or nil if it cannot ask any.
	settings func(e *expectations) map[string]any
}

var askers = map[string]asker{"node": nodeAsker, "python": pythonAsker}

// askOutside evaluates what the tests compare outside of any test: without a framework, expectations, test names
// and inputs of other tests, each question in its own process. Code that answers as the tests expect there is
// correct about them, whatever the tests do. Tests whose questions are all answered so go to e.answered. Questions
// that are repeatedly answered differently go to e.differing, unless that depends on earlier questions or on
// something that the untouched tree lacks too. Some questions of tests that passed before the answer are asked as
// well.
func (e *expectations) askOutside(ctx context.Context, tests []runner.Test) error {
	for _, language := range slices.Sorted(maps.Keys(askers)) {
		if err := e.askIn(ctx, language, tests); err != nil {
			return err
		}
	}
	return nil
}

// inquiry has the questions about an answer in one language: those of its tests and, from index earlier on, some of
// tests that passed before the answer.
type inquiry struct {
	*expectations
	language string
	asked    []alter.Question
	earlier  int
}

func (e *expectations) askIn(ctx context.Context, language string, tests []runner.Test) error {
	asked := e.questions(tests, language)
	if len(asked) == 0 || len(asked) > maxQuestions {
		return nil
	}
	earlier := e.questions(without(e.all, tests), language)
	rand.Shuffle(len(earlier), func(i, j int) { earlier[i], earlier[j] = earlier[j], earlier[i] })
	earlier = earlier[:min(maxEarlier, len(earlier))]
	i := &inquiry{expectations: e, language: language, asked: append(asked, earlier...), earlier: len(asked)}
	answers, err := i.answers(ctx)
	if err != nil {
		return err
	}
	begins := e.begins(language)
	for at := range i.asked {
		i.asked[at].Alone = i.asked[at].Alone && !begins
	}
	var right, odd []alter.Question
	var first [][]string
	for at, answer := range answers {
		q := i.asked[at]
		switch {
		case begins && hasRaised(answer):
		case i.isOdd(q, answer):
			odd, first = append(odd, q), append(first, answer)
		case i.isEarlier(q):
		case slices.Contains(answer, lateAnswer):
			e.setUnknown(slowReason, titleOf(q.Test, q.File))
		case q.Expected != "" && ownClass.MatchString(strings.Join(answer, "")):
			e.setUnknown("a class of the code's own is compared with what the test computes", titleOf(q.Test, q.File))
		case isRight(q, answer):
			right = append(right, q)
		}
	}
	e.answered = append(e.answered, slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool { return !e.isWholly(t, i.asked, right) })...)
	if len(odd) == 0 {
		return nil
	}
	return i.askAgain(ctx, odd, first)
}

func (i *inquiry) isEarlier(q alter.Question) bool { return slices.Contains(i.asked[i.earlier:], q) }

// answers asks the questions, within the time limit, and sets expected values that must be computed.
func (i *inquiry) answers(ctx context.Context) ([][]string, error) {
	var groups [][]alter.Question
	for _, q := range slices.Concat(i.asked, i.asked) {
		if q.Expected != "" {
			groups = append(groups, []alter.Question{{File: q.File, Program: q.Expected, Apart: true}})
		}
	}
	computed := len(groups)
	answers, err := i.askGroups(ctx, append(groups, oneByOne(i.asked)...), i.shown(false))
	if len(answers) < computed {
		return nil, err
	}
	expect(i.asked, answers[:computed])
	return answers[computed:], err
}

// askGroups asks groups of questions in the tree with changes, each group in its own process. An answer is a note as
// in [alter.Request], or begins with raised. There are fewer answers than groups if the rest could not be asked.
func (i *inquiry) askGroups(ctx context.Context, groups [][]alter.Question, changes []jail.Change) (found [][]string, err error) {
	interpreter, request := i.interpreter(ctx, i.language), askers[i.language].settings(i.expectations)
	if interpreter == "" || request == nil {
		return nil, nil
	}
	request["groups"], request["patience"] = toAsk(groups), i.secondsLeft()
	return found, i.runProgram(ctx, interpreter, alter.Askers[i.language], request, changes, &found)
}

// expect sets the values that questions expect, if both computations gave the same.
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

// isWholly reports whether everything that a test compares was asked and answered correctly.
func (e *expectations) isWholly(test runner.Test, asked, right []alter.Question) bool {
	isWrong := func(q alter.Question) bool {
		return e.isNamed(test, q.File, []string{q.Test}) && !slices.Contains(right, q)
	}
	isOpen := func(s alter.Source) bool { return e.holds(s, test) && !e.isNamed(test, s.Path, s.Answerable) }
	return slices.ContainsFunc(asked, func(q alter.Question) bool { return e.isNamed(test, q.File, []string{q.Test}) }) &&
		!slices.ContainsFunc(asked, isWrong) && !slices.ContainsFunc(e.sources, isOpen)
}

// begins reports whether tests in a language need more than their own files in order to run.
func (e *expectations) begins(language string) bool {
	return slices.ContainsFunc(e.a.tree.Files, func(file string) bool {
		return alter.Language(file) == language && askers[language].begins(file, e.source(file, nil).Text)
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

// secondAnswers are the answers to odd questions that are asked again: alone, with data files that no code names,
// on the untouched tree, and together with all questions in the order of the file. Ones that could not help are
// not asked.
type secondAnswers struct {
	alone, withData, untouched [][]string
	inOrder                    []string
}

func (i *inquiry) askSecond(ctx context.Context, odd []alter.Question) (second secondAnswers, err error) {
	some, all := i.shown(false), i.shown(true)
	found, err := i.askGroups(ctx, append(oneByOne(odd), i.asked), some)
	if err != nil {
		return second, err
	}
	if second.alone = found[:min(len(odd), len(found))]; len(found) > len(odd) {
		second.inOrder = found[len(odd)]
	}
	if !reflect.DeepEqual(all, some) {
		if second.withData, err = i.askGroups(ctx, oneByOne(odd), all); err != nil {
			return second, err
		}
	}
	if slices.ContainsFunc(found, hasRaised) || slices.ContainsFunc(odd, i.isEarlier) {
		answer := *i.a
		i.a.changes = nil
		second.untouched, err = i.askGroups(ctx, oneByOne(odd), i.shown(false))
		i.a.changes = answer.changes
	}
	return second, err
}

// isRightInOrder reports whether a question is answered correctly in the order of the file.
func (i *inquiry) isRightInOrder(q alter.Question, inOrder []string) bool {
	return len(inOrder) == len(i.asked) && isAsExpected(q, inOrder[slices.Index(i.asked, q)])
}

// isLacking reports whether an odd answer depends on something that the untouched tree lacks too: there the
// question of an earlier test is not answered correctly either.
func (i *inquiry) isLacking(q alter.Question, answer, untouched []string) bool {
	if i.isEarlier(q) {
		return !isRight(q, untouched)
	}
	return hasRaised(answer) && slices.Equal(answer, untouched) && !i.isRaisedByAnswer(answer)
}

// isRaisedByAnswer reports whether the error was raised in a file that the answer changes.
func (i *inquiry) isRaisedByAnswer(found []string) bool {
	_, file, _ := strings.Cut(strings.Join(found, ""), "\n in ")
	return slices.ContainsFunc(i.a.changes, func(c jail.Change) bool { return c.Path == file })
}

// askAgain asks odd questions again.
func (i *inquiry) askAgain(ctx context.Context, odd []alter.Question, first [][]string) error {
	second, err := i.askSecond(ctx, odd)
	if err == nil {
		i.addDiffering(odd, first, &second)
	}
	return err
}

// addDiffering adds to e.differing the odd questions whose answers are odd again, are the same if the expected value is
// computed, and are not correct in the order of the file. Nothing is known of a question for which there was no time.
func (i *inquiry) addDiffering(odd []alter.Question, first [][]string, second *secondAnswers) {
	for at, answer := range second.alone {
		q := odd[at]
		withData, untouched := answerAt(second.withData, at), answerAt(second.untouched, at)
		if slices.Contains(slices.Concat(answer, withData, untouched, second.inOrder), lateAnswer) {
			if !i.isEarlier(q) {
				i.setUnknown(slowReason, titleOf(q.Test, q.File))
			}
			continue
		}
		isSame := q.Expected == "" || slices.Equal(first[at], answer)
		switch {
		case !isSame || !i.isOdd(q, answer) || i.isRightInOrder(q, second.inOrder) || i.isLacking(q, answer, untouched):
		case withData != nil && !i.isOdd(q, withData):
			i.setUnknown("what is returned depends on files that no code names", titleOf(q.Test, q.File))
		default:
			q.Alone = q.Alone || hasRaised(answer) && slices.Equal(answer, untouched)
			i.differing = append(i.differing, q)
		}
	}
}

// answerAt returns one of the answers, or nil if there are fewer.
func answerAt(answers [][]string, at int) []string {
	if at < len(answers) {
		return answers[at]
	}
	return nil
}

// toAsk returns the groups without what the code must not see: the expected values, except errors, whose messages
// are matched there, and the names of tests.
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

// isRight reports whether the answers are the one that a test expects.
func isRight(q alter.Question, answers []string) bool {
	return len(answers) == 1 && isAsExpected(q, answers[0])
}

// isOdd reports whether answers differ from what a test expects. What a value of a class of the code's own equals is
// unknown, so it only counts for a test that passed before the answer.
func (i *inquiry) isOdd(q alter.Question, answers []string) bool {
	if len(answers) != 1 || answers[0] == "" || q.Value == "" || isAsExpected(q, answers[0]) {
		return false
	}
	return strings.ContainsAny(answers[0][:1], "=r") || i.isEarlier(q) && (answers[0][0] == '~' || ownClass.MatchString(answers[0]))
}

// hasRaised reports whether the first answer is an error.
func hasRaised(answers []string) bool { return strings.HasPrefix(strings.Join(answers, ""), "raised") }

// ownClass matches the note of a value without text, as of a class of the code's own.
var ownClass = regexp.MustCompile(`^\?\w+$`)

// apart matches files that are about the code, such as documentation and examples.
var apart = regexp.MustCompile(`(?i)\.(md|rst)$|(^|/)(docs?|tests?|examples?|samples?)/`)

// shown returns the changes to the tree for questions: the answer's, without anything that could reveal what tests
// expect. It removes the tests, results of examples, and files that are no code and that neither the code nor a
// question names. withData keeps those files unless they match apart.
func (i *inquiry) shown(withData bool) []jail.Change {
	t, hidden := i.a.tree, []jail.Change(nil)
	code := t.textOf(slices.DeleteFunc(slices.Clone(t.Files), func(file string) bool {
		return !isCode(file) || slices.Contains(i.files, file) || path.Base(file) == "setup.py"
	}))
	for _, q := range i.asked {
		code = append(code, q.Program...)
	}
	for _, file := range t.Files {
		if strings.Contains(file, "-packages/") {
			continue
		}
		text := i.source(file, i.a.changes).Text
		switch shown, isShown := i.shows(file, text, code, withData); {
		case !isShown:
			hidden = append(hidden, jail.Change{Path: file, Delete: true})
		case shown != text:
			hidden = append(hidden, jail.Change{Path: file, Data: []byte(shown)})
		}
	}
	return overlay(i.v.leftOut(t), i.a.changes, hidden)
}

// shows returns the content of a file that questions can see, and whether it is shown.
func (i *inquiry) shows(file, text string, code []byte, withData bool) (string, bool) {
	switch {
	case slices.Contains(i.files, file):
		return "", false
	case isCode(file):
		return askers[i.language].shows(file, text)
	}
	return text, toolSettings.has(file) || mentions(code, file) || withData && !apart.MatchString(file)
}

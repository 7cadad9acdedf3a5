package alter

import (
	"cmp"
	"math/rand/v2"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// lineLanguage is a language whose tests are altered line by line.
type lineLanguage struct {
	// test matches the beginning of a test, function that of any function, with its name; assertion matches a
	// line on which an assertion begins.
	test, function, assertion *regexp.Regexp
	fail                      string
	notes                     *lineNotes
	// unseen is what to look for besides assertions; nil if that is unknown.
	unseen *lineChecks
}

// lines has the languages by file extension.
var lines = map[string]*lineLanguage{
	".rs": {
		test: regexp.MustCompile(`#\[(?:\w+::)*(?:test|\w+_test|rstest)\b`), function: regexp.MustCompile(`\bfn\s+(\w+)`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?assert\w*!\s*\(`),
		fail:      "::std::panic::panic_any(0);",
		notes:     rustNotes,
		unseen:    rustChecks,
	},
	".java": {
		test: regexp.MustCompile(`@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest)\b`), function: regexp.MustCompile(`\b(?:void|[A-Z]\w*)\s+(\w+)\s*\([^;]*$`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?:\w+\.)*(?:assert\w*|expect)\s*\(`),
		fail:      "if (1 > 0) throw new java.lang.AssertionError();",
		notes:     javaNotes,
		unseen:    javaChecks,
	},
	".c": cPrograms(cNotes), ".cc": cPrograms(nil), ".cpp": cPrograms(nil),
}

var lineComment = regexp.MustCompile(`(?m)^\s*//.*$|[\s;{}]//[^"\n]*$`)

// bareAssert matches a Java assert statement without parentheses, or with a message.
var bareAssert = regexp.MustCompile(`(?m)^(\s*(?:.*\{\s*)?)assert\s+([^;:"?]*(?:"[^"\n]*"[^;:"?]*)*)(?::[^;]*)?;`)

// languageOf returns the language of a file. With [Request.Whole], a Java file without a framework's tests is
// itself the test, by its main.
func (r *Request) languageOf(file Source) *lineLanguage {
	language := lines[path.Ext(file.Path)]
	if path.Ext(file.Path) != ".java" || !r.Whole || language.test.MatchString(file.Text) {
		return language
	}
	program := *language
	program.test, program.function = regexp.MustCompile(`^`), regexp.MustCompile(`\bvoid\s+(main)\s*\([^;]*$`)
	return &program
}

// cPrograms returns the language of C programs, each of which is one test.
func cPrograms(notes *lineNotes) *lineLanguage {
	return &lineLanguage{
		test: regexp.MustCompile(`^`), function: regexp.MustCompile(`\bint\s+(main)\s*\([^;]*$`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?i:assert|check|expect|require)\w*\s*\(`),
		fail:      "__builtin_trap();",
		notes:     notes,
	}
}

// lineAlteration alters the assertions of a file, from its first test on.
type lineAlteration struct {
	language *lineLanguage
	request  *Request
	random   *rand.Rand
	source   *Source
	prefix   string
	// name is the current test. A test that must panic is left unchanged.
	name string
	// statement is the current assertion as read so far, place its position.
	statement string
	place     int
	// opens means that the body of the test has not begun yet, isOpen that it has not ended.
	inTests, begins, panics, leaves, opens, isOpen bool
	// indent is the indentation of the current function. inner is that of a function in the body of a test, "" outside
	// of one: an assertion in it can run while another unwinds the stack.
	indent, inner string
	// notes are the tests with comparisons that record values; their other comparisons are left unchanged.
	// They are found by a pass with collects set. values are the tests in which literals were altered.
	notes, values map[string]bool
	collects      bool
	counts        map[string]int
	// last is the code of the last line that has any.
	last string
	// others maps the altered literals to their replacements, without quotes.
	others map[string]string
}

func (a *lineAlteration) otherLiteral(literal string) string {
	other := otherLiteral(literal, a.random)
	a.others[strings.Trim(literal, `"'`)] = strings.Trim(other, `"'`)
	return other
}

// lineSource alters the assertions of a file: each literal in them, or else their truth.
func lineSource(file Source, request *Request, random *rand.Rand) Source {
	altered := Source{Path: file.Path}
	if path.Ext(file.Path) == ".java" {
		file.Text = bareAssert.ReplaceAllString(file.Text, "${1}assert (${2});")
	}
	a := &lineAlteration{language: request.languageOf(file), request: request, random: random, source: &altered, prefix: "x" + randomWord(random) + "_", notes: map[string]bool{}, values: map[string]bool{}, counts: map[string]int{}, others: map[string]string{}}
	if a.language.notes != nil && request.Record != "" {
		a.collects = true
		a.pass(file.Text)
	}
	a.collects = false
	altered.Text = lineComment.ReplaceAllStringFunc(a.pass(file.Text), func(comment string) string { return alterComment(comment, a.others) })
	for _, test := range altered.Tests {
		if !a.values[test] && request.Way == Expectation {
			altered.Truths = append(altered.Truths, test)
		}
	}
	return altered
}

func (a *lineAlteration) pass(text string) string {
	var out strings.Builder
	a.name, a.statement, a.inner, a.inTests, a.begins, a.leaves, a.opens, a.isOpen, a.last = "", "", "", false, false, false, false, false, ""
	helpers := a.helpersAt(text)
	at := 0
	for line := range strings.Lines(text) {
		out.WriteString(a.line(line, at))
		a.last = cmp.Or(strings.TrimSpace(lineComment.ReplaceAllString(line, "")), a.last)
		if at += len(line); at == helpers {
			out.WriteString(a.helpers())
		}
	}
	return out.String() + a.statement
}

// helpersAt returns the position for the helpers, or -1.
func (a *lineAlteration) helpersAt(text string) int {
	at, found := 0, -1
	if a.collects || len(a.notes) == 0 || a.language.notes.after == nil {
		return found
	}
	for line := range strings.Lines(text) {
		if at += len(line); a.language.notes.after.MatchString(line) && (found < 0 || a.language.notes == cNotes) {
			found = at
		}
	}
	return found
}

func (a *lineAlteration) helpers() string {
	return strings.NewReplacer("@record", strconv.Quote(a.request.Record), "@", a.prefix).Replace(a.language.notes.helpers)
}

func (a *lineAlteration) line(line string, at int) string {
	a.inTests = a.inTests || a.language.test.MatchString(line)
	a.begins = a.begins || a.language.test.MatchString(line)
	a.panics = a.panics || strings.Contains(line, "#[should_panic")
	a.isOpen = a.isOpen && !strings.HasPrefix(line, a.indent+"}")
	function, indent := a.language.function.FindStringSubmatch(line), line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case !a.inTests || function == nil:
		ends := a.inner != "" && strings.HasPrefix(line, a.inner+"}")
		line = a.assertionLine(a.bodyLine(line), at)
		if ends {
			a.inner = ""
		}
		return line
	case a.begins || !a.isOpen || len(indent) <= len(a.indent):
		unended := a.statement
		a.name, a.leaves, a.statement, a.opens, a.begins, a.panics = function[1], a.panics || !a.begins, "", a.begins, false, false
		a.indent, a.inner, a.isOpen = indent, "", !isOnOneLine(line)
		return unended + a.assertionLine(a.bodyLine(line), at)
	case isOnOneLine(line):
		return line
	}
	if a.inner == "" && strings.Contains(line, "{") {
		a.inner = indent
	}
	return a.assertionLine(line, at)
}

// isOnOneLine reports whether a line has the whole body of a function.
func isOnOneLine(line string) bool {
	return strings.Contains(line, "{") && strings.Count(line, "{") == strings.Count(line, "}")
}

// assertionLine reads a line on which an assertion can begin or continue. It returns "" until the assertion
// is complete.
func (a *lineAlteration) assertionLine(line string, at int) string {
	if a.statement == "" && (!a.inTests || a.leaves || a.inner != "" || a.request.Way == End || isUsed.MatchString(a.last) || !a.language.assertion.MatchString(line)) {
		if a.inTests && !a.leaves && a.isOpen && a.language.unseen.mayCompare(line, a.last) {
			a.setUnseen(line)
		}
		return line
	}
	if a.statement == "" {
		a.place = at
	}
	if a.statement += line; !strings.Contains(line, ";") {
		return ""
	}
	statement := a.statement
	a.statement = ""
	return a.assertion(assertionOf(statement, a.language.assertion.FindStringIndex(statement)[1]))
}

func (a *lineAlteration) assertion(s *lineAssertion) string {
	c := s.comparison()
	isNoted := a.request.Record != "" && s.canRecord(&c, a.language.notes)
	text, isValue := s.text, false
	switch {
	case a.collects:
		mark(a.notes, a.name, isNoted)
	case a.request.Way == Reach:
		at := strings.LastIndexAny(text[:s.at], " \t{") + 1
		text = text[:at] + a.language.fail + text[at:]
	case isNoted:
		text = a.withNote(s, &c, a.place)
	case a.notes[a.name] || a.request.Way != Expectation:
	default:
		text, isValue = s.alter(&c, a.otherLiteral)
		mark(a.values, a.name, isValue)
	}
	if text != s.text {
		a.source.count(a.name, a.counts)
	}
	if !isNoted && !isValue && !a.language.unseen.isValueless(c.call.name) {
		a.setUnseen(s.text)
	}
	return text
}

func mark(tests map[string]bool, test string, is bool) {
	if is {
		tests[test] = true
	}
}

// bodyLine extends the line on which the body of a test begins: by a failure for End, or by the helpers.
func (a *lineAlteration) bodyLine(line string) string {
	brace := strings.Index(line, "{") + 1
	if !a.opens || brace == 0 || a.collects {
		return line
	}
	a.opens = false
	switch {
	case a.request.Way == End:
		a.source.count(a.name, a.counts)
		return line[:brace] + a.language.fail + line[brace:]
	case a.notes[a.name] && a.language.notes.after == nil && a.request.Way != Reach:
		return line[:brace] + " " + a.helpers() + line[brace:]
	}
	return line
}

func (s *Source) count(name string, counts map[string]int) {
	if counts[name] == 0 {
		s.Tests = append(s.Tests, name)
	}
	counts[name]++
	s.Count++
}

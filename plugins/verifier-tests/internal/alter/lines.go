package alter

import (
	"math/rand/v2"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// lineLanguage is a language whose tests are altered by lines.
type lineLanguage struct {
	// test begins a test, function begins any function and holds its name; assertion is a
	// line on which one begins.
	test, function, assertion *regexp.Regexp
	fail                      string
	notes                     *lineNotes
}

// lines are the languages by the endings of their files.
var lines = map[string]*lineLanguage{
	".rs": {
		test: regexp.MustCompile(`#\[(?:\w+::)*(?:test|\w+_test|rstest)\b`), function: regexp.MustCompile(`\bfn\s+(\w+)`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?assert\w*!\s*\(`),
		fail:      "::std::panic::panic_any(0);",
		notes:     rustNotes,
	},
	".java": {
		test: regexp.MustCompile(`@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest)\b`), function: regexp.MustCompile(`\b(?:void|[A-Z]\w*)\s+(\w+)\s*\([^;]*$`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?:\w+\.)*(?:assert\w*|expect)\s*\(`),
		fail:      "if (1 > 0) throw new java.lang.AssertionError();",
		notes:     javaNotes,
	},
	".c": cPrograms(cNotes), ".cc": cPrograms(nil), ".cpp": cPrograms(nil),
}

// cPrograms are one test each.
func cPrograms(notes *lineNotes) *lineLanguage {
	return &lineLanguage{
		test: regexp.MustCompile(`^`), function: regexp.MustCompile(`\bint\s+(main)\s*\([^;]*$`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?i:assert|check|expect|require)\w*\s*\(`),
		fail:      "__builtin_trap();",
		notes:     notes,
	}
}

// lineAlteration alters the assertions of a file. Only what follows the first test is looked at.
type lineAlteration struct {
	language *lineLanguage
	request  *Request
	random   *rand.Rand
	source   *Source
	prefix   string
	// name is the test at hand, within an assertion that goes on from the line before. One that
	// is to panic is left as it is.
	name string
	// statement is the assertion at hand, as far as it has been read.
	statement                               lineAssertion
	inTests, begins, within, panics, leaves bool
	// noted are the tests with comparisons that note, of which others are left as they are;
	// collects says that these are looked for, and pool has what they expect. changed expect
	// something else in this draw, values have more to compare than truths.
	noted, changed, values map[string]bool
	pool                   []string
	collects               bool
	counts                 map[string]int
}

// lineSource alters the assertions of a file: each literal in them, or else their truth.
func lineSource(file Source, request *Request, random *rand.Rand) Source {
	altered := Source{Path: file.Path}
	a := &lineAlteration{language: lines[path.Ext(file.Path)], request: request, random: random, source: &altered, prefix: "x" + word(random) + "_", noted: map[string]bool{}, changed: map[string]bool{}, values: map[string]bool{}, counts: map[string]int{}}
	if a.language.notes != nil && request.Record != "" {
		a.collects = true
		a.pass(file.Text)
	}
	a.collects = false
	altered.Text = a.pass(file.Text)
	for _, test := range altered.Tests {
		if !a.values[test] && request.Way == Expectation {
			altered.Truths = append(altered.Truths, test)
		}
		if a.noted[test] && !a.changed[test] && request.Way == Expectation {
			altered.Unaltered = append(altered.Unaltered, test)
		}
	}
	return altered
}

// pass goes through the lines once.
func (a *lineAlteration) pass(text string) string {
	var out strings.Builder
	a.name, a.inTests, a.begins, a.within, a.leaves = "", false, false, false, false
	helpers := a.helpersAt(text)
	for at := 0; at < len(text); {
		line := text[at:]
		if end := strings.IndexByte(line, '\n'); end >= 0 {
			line = line[:end+1]
		}
		out.WriteString(a.line(line, at))
		if at += len(line); at == helpers {
			out.WriteString(a.helpers())
		}
	}
	return out.String()
}

// helpersAt is where what comparisons call is put, or -1.
func (a *lineAlteration) helpersAt(text string) int {
	at, found := 0, -1
	if a.collects || len(a.noted) == 0 || a.language.notes.after == nil {
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
	if function := a.language.function.FindStringSubmatch(line); a.inTests && function != nil {
		line = a.functionLine(line, function[1])
	}
	starts := a.inTests && !a.leaves && a.language.assertion.MatchString(line)
	if a.within = a.request.Way != End && (starts || a.within); !a.within {
		return line
	}
	if starts {
		a.statement.begin(line, a.language.assertion.FindStringIndex(line)[1])
	}
	a.statement.text += line
	a.within = !strings.Contains(line, ";")
	if a.language.notes != nil && a.request.Record != "" {
		if c, ok := a.language.notes.find(line); ok && a.collects {
			a.noted[a.name], a.pool = true, append(a.pool, c.note)
		} else if ok && a.request.Way != Reach {
			a.source.count(a.name, a.counts)
			return a.noteLine(line, &c, at)
		} else if !ok && a.noted[a.name] && a.request.Way != Reach {
			return line
		}
	}
	changed := a.otherLine(line, starts)
	if changed != line && !a.collects {
		a.source.count(a.name, a.counts)
	}
	return changed
}

// functionLine is the first line of a function, which fails at once where tests are to.
func (a *lineAlteration) functionLine(line, name string) string {
	begins, brace := a.begins, strings.Index(line, "{")+1
	a.name, a.leaves, a.within, a.begins, a.panics = name, a.panics, false, false, false
	switch {
	case !begins || brace == 0 || a.collects:
	case a.request.Way == End:
		a.source.count(name, a.counts)
		return line[:brace] + a.language.fail + line[brace:]
	case a.noted[name] && a.language.notes.after == nil && a.request.Way != Reach:
		return line[:brace] + " " + a.helpers() + line[brace:]
	}
	return line
}

// otherLine is a line of an assertion that notes nothing.
func (a *lineAlteration) otherLine(line string, starts bool) string {
	switch {
	case a.request.Way == Reach && starts:
		at := a.language.assertion.FindStringIndex(line)[1]
		at = strings.LastIndexAny(line[:at], " \t{") + 1
		return line[:at] + a.language.fail + line[at:]
	case a.request.Way == Expectation:
		changed := a.statement.otherLine(line, a.random)
		a.values[a.name] = a.values[a.name] || changed != line
		if changed == line && starts {
			return a.statement.opposite(line)
		}
		return changed
	}
	return line
}

// count counts an alteration of a test.
func (s *Source) count(name string, counts map[string]int) {
	if counts[name] == 0 {
		s.Tests = append(s.Tests, name)
	}
	counts[name]++
	s.Count++
}

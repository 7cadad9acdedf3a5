package alter

import (
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineLanguage is a language whose tests are altered by lines.
type lineLanguage struct {
	// test begins a test, function begins any function and holds its name; assertion is a
	// line on which one begins.
	test, function, assertion *regexp.Regexp
	// truth inverts what must be true or false.
	truth func(line string) string
	fail  string
}

// lines are the languages by the endings of their files.
var lines = map[string]*lineLanguage{
	".rs": {
		test: regexp.MustCompile(`#\[(?:\w+::)*(?:test|\w+_test|rstest)\b`), function: regexp.MustCompile(`\bfn\s+(\w+)`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?assert\w*!\s*\(`),
		truth:     func(line string) string { return rustTruth.ReplaceAllString(line, "${1}!(${2})${3}") },
		fail:      "::std::panic::panic_any(0);",
	},
	".java": {
		test: regexp.MustCompile(`@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest)\b`), function: regexp.MustCompile(`\b(?:void|[A-Z]\w*)\s+(\w+)\s*\([^;]*$`),
		assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?:\w+\.)*(?:assert\w*|expect)\s*\(`),
		truth:     javaTruths.Replace,
		fail:      "if (1 > 0) throw new java.lang.AssertionError();",
	},
	".c": cPrograms, ".cc": cPrograms, ".cpp": cPrograms,
}

// cPrograms are one test each.
var cPrograms = &lineLanguage{
	test: regexp.MustCompile(`^`), function: regexp.MustCompile(`\bint\s+(main)\s*\([^;]*$`),
	assertion: regexp.MustCompile(`^\s*(?:.*\{\s*)?(?i:assert|check|expect|require)\w*\s*\(`),
	truth:     func(line string) string { return line },
	fail:      "__builtin_trap();",
}

var (
	rustTruth   = regexp.MustCompile(`^(.*assert!\s*\()([^,"]*)(\);\s*}?)$`)
	javaTruths  = strings.NewReplacer("assertTrue(", "assertFalse(", "assertFalse(", "assertTrue(", "assertNull(", "assertNotNull(", "assertNotNull(", "assertNull(")
	textLiteral = regexp.MustCompile(`"(?:[^"\\]|\\.)+"`)
	lastName    = regexp.MustCompile(`[\w!]*\s*$`)
	// literals are numbers and texts; what is within a name or a text is no number.
	literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b\d+(?:\.\d+)?\b`)
)

// lineSource alters the assertions of a file: each literal in them, or else their truth.
// Only what follows the first test is looked at.
func lineSource(file Source, request *Request, random *rand.Rand) Source {
	language, altered, way := lines[path.Ext(file.Path)], Source{Path: file.Path}, request.Way
	var out strings.Builder
	name, inTests, begins, within := "", false, false, false
	count := 0
	for line := range strings.Lines(file.Text) {
		inTests = inTests || language.test.MatchString(line)
		begins = begins || language.test.MatchString(line)
		if function := language.function.FindStringSubmatch(line); inTests && function != nil {
			name, count, within = function[1], 0, false
			if way == End && begins && strings.Contains(line, "{") {
				brace := strings.Index(line, "{") + 1
				line = line[:brace] + language.fail + line[brace:]
				altered.count(name, &count)
			}
			begins = false
		}
		starts := inTests && language.assertion.MatchString(line)
		if within = way != End && (starts || within); within {
			changed := line
			if way == Reach && starts {
				at := language.assertion.FindStringIndex(line)[1]
				at = strings.LastIndexAny(line[:at], " \t{") + 1
				changed = line[:at] + language.fail + line[at:]
			} else if way == Expectation {
				changed = otherLine(line, random)
				if changed == line {
					changed = strings.TrimSuffix(language.truth(strings.TrimSuffix(line, "\n")), "\n") + line[len(strings.TrimSuffix(line, "\n")):]
				}
			}
			if changed != line {
				altered.count(name, &count)
			}
			within, line = !strings.Contains(line, ";"), changed
		}
		out.WriteString(line)
	}
	altered.Text = out.String()
	return altered
}

// count counts an alteration of a test.
func (s *Source) count(name string, count *int) {
	if *count == 0 {
		s.Tests = append(s.Tests, name)
	}
	*count++
	s.Count++
}

// otherLine returns a line with another text in the place of the one that is compared with,
// or else with other literals, some of which may be the test's input.
func otherLine(line string, random *rand.Rand) string {
	for _, at := range textLiteral.FindAllStringIndex(line, -1) {
		if isCompared(line, at[0], at[1]) {
			return line[:at[0]+1] + nearText(line[at[0]+1:at[1]-1], random) + line[at[1]-1:]
		}
	}
	return literals.ReplaceAllStringFunc(line, func(literal string) string { return otherWord(literal, random) })
}

// isCompared reports whether a literal is one of what the call round it compares: two
// arguments, since a third would be a message, or three of memcmp.
func isCompared(line string, from, to int) bool {
	before, after := strings.TrimSpace(line[:from]), strings.TrimSpace(line[to:])
	if !strings.HasSuffix(before, "(") && !strings.HasSuffix(before, ",") || !strings.HasPrefix(after, ")") && !strings.HasPrefix(after, ",") {
		return false // it is a part of an expression
	}
	backwards := []byte(textLiteral.ReplaceAllStringFunc(before, blank))
	slices.Reverse(backwards)
	open, earlier := outOf(backwards, ')', '(')
	end, later := outOf([]byte(textLiteral.ReplaceAllStringFunc(after, blank)), '(', ')')
	if open < 0 || end < 0 {
		return false
	}
	name, most := lastName.FindString(before[:len(before)-1-open]), 1
	if strings.Contains(name, "cmp") {
		most++
	}
	return comparerName.MatchString(name) && !partName.MatchString(name) && earlier+later <= most
}

func blank(text string) string { return strings.Repeat("_", len(text)) }

// outOf returns where a text leaves the brackets round its beginning, -1 where it does not,
// and how many commas there are within them and no others.
func outOf(text []byte, open, end byte) (at, commas int) {
	depth := 0
	for i, c := range text {
		switch c {
		case open:
			depth++
		case end:
			if depth--; depth < 0 {
				return i, commas
			}
		case ',':
			if depth == 0 {
				commas++
			}
		}
	}
	return -1, 0
}

// otherWord returns another literal of the same kind.
func otherWord(literal string, random *rand.Rand) string {
	if strings.HasPrefix(literal, `"`) {
		return `"` + longerText(literal[1:len(literal)-1], random) + `"`
	}
	whole, fraction, _ := strings.Cut(literal, ".")
	if whole == "0" && fraction != "" {
		return literal // it may say how near is near enough
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > 100 {
		return literal
	}
	if n += 1 + random.Int64N(20); fraction != "" {
		return strconv.FormatInt(n, 10) + "." + fraction
	}
	return strconv.FormatInt(n, 10)
}

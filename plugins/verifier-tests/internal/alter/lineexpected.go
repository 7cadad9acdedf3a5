package alter

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

var (
	textLiteral = regexp.MustCompile(`"(?:[^"\\]|\\.)+"`)
	lastName    = regexp.MustCompile(`[\w!]*\s*$`)
	// literals are numbers and texts; what is within a name, a character or a text is no number.
	literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'|\b\d+(?:\.\d+)?\b`)
	// Assertions, comparisons and calls that hold where two sides differ: another literal in them
	// may well hold, too.
	differName = regexp.MustCompile(`(_ne!?|NE|Ne|_?[LG][TE]|_[lg][te]!?|(?i:not\w*|differ\w*|less\w*|greater\w*|false))$`)
	differs    = regexp.MustCompile(`!=|\s[<>]=?\s|[\w)][<>]=?\d|(?:^|\W)!\s*[\w.:>-]*\(`)
	textDiffer = regexp.MustCompile(`(?:^|\W)!\s*\w*cmp\w*\(`)
	// plainName is what assertions of a truth are called.
	plainName = regexp.MustCompile(`(?i)^(assert!?|check|expect|require|asserttrue|assertfalse)$`)
	// What makes a value of what it is given, and what is the same value as a literal.
	valueMaker = regexp.MustCompile(`(?:^|[^\w.:])(?:|f?abs|vec!|String::from|(?:List|Set)\.of|Arrays\.asList|new [A-Z]\w*|(?:\w+::)*(?:Some|Ok|Err)|\w+::[A-Z]\w*)$`)
	sameValue  = regexp.MustCompile(`^\.(?:to_string|to_owned|into|as_\w+|to_vec|abs)\(|^[^.]|^$`)
	// reckoned is what stands before a literal that is an index, a message, or reckoned with.
	reckoned = regexp.MustCompile(`[\w\])]\[[^\[\]]*$|[%^*/|]\s*$|[\w)]\s*&\s*$|&&\s*$`)
	// opposites are the assertions that hold where others do not.
	opposites = map[string]string{"assert_eq!": "assert_ne!", "assert_ne!": "assert_eq!", "assertTrue": "assertFalse", "assertFalse": "assertTrue", "assertNull": "assertNotNull", "assertNotNull": "assertNull"}
)

// lineAssertion is one as far as it has been read: its name, and where its arguments begin.
type lineAssertion struct {
	text, name string
	at         int
}

// begin begins an assertion with the line on which its arguments begin at a place.
func (s *lineAssertion) begin(line string, at int) {
	*s = lineAssertion{at: at, name: strings.TrimSpace(lastName.FindString(line[:at-1]))}
}

// opposite returns the line with the opposite of the assertion, which stands on it as a whole.
func (s *lineAssertion) opposite(line string) string {
	name := strings.LastIndex(line[:s.at], s.name)
	if other := opposites[s.name]; other != "" {
		return line[:name] + other + line[name+len(s.name):]
	}
	all := arguments(strings.TrimRight(line, " \t\r\n}"), s.at)
	if len(all) == 0 || !plainName.MatchString(s.name) || len(all) > 1 && s.name != "assert!" {
		return line
	}
	return line[:s.at] + "!(" + line[s.at:all[0][1]] + ")" + line[all[0][1]:]
}

// isOfDifference reports whether the assertion holds where what it compares differs, as far as
// its text says.
func (s *lineAssertion) isOfDifference() bool {
	text := textLiteral.ReplaceAllStringFunc(s.text[s.at:], blank)
	if differName.MatchString(s.name) {
		return true
	}
	if !plainName.MatchString(s.name) || strings.Contains(text, "abs(") {
		return false
	}
	saysEqual := textDiffer.MatchString(text) || strings.Contains(text, "==")
	return differs.MatchString(textDiffer.ReplaceAllString(text, "(")) || strings.Contains(text, "cmp(") && !saysEqual
}

// otherLine returns the last line of the assertion with another text in the place of the one
// that is compared with, or else with other literals in the place of those that are no input
// of a call and no message.
func (s *lineAssertion) otherLine(line string, random *rand.Rand) string {
	if s.isOfDifference() {
		return line
	}
	for _, at := range textLiteral.FindAllStringIndex(line, -1) {
		if isCompared(line, at[0], at[1]) {
			return line[:at[0]+1] + nearText(line[at[0]+1:at[1]-1], random) + line[at[1]-1:]
		}
	}
	var edits []edit
	for _, at := range literals.FindAllStringIndex(line, -1) {
		if s.isExpected(line, at[0], at[1]) {
			edits = append(edits, edit{at[0], at[1], otherWord(line[at[0]:at[1]], random)})
		}
	}
	return apply(line, edits)
}

// isExpected reports whether a literal of the last line is compared with as it is, or as a part
// of a value that is made of it.
func (s *lineAssertion) isExpected(line string, from, to int) bool {
	read := textLiteral.ReplaceAllStringFunc(s.text[:len(s.text)-len(line)+from], blank)
	after := textLiteral.ReplaceAllStringFunc(line[to:], blank)
	isText := line[from] == '"'
	if reckoned.MatchString(read) {
		return false
	}
	for sameValue.MatchString(after) {
		backwards := []byte(read)
		slices.Reverse(backwards)
		open, earlier := outOf(backwards, ')', '(')
		if open < 0 {
			return true
		}
		read = read[:len(read)-1-open]
		end, later := outOf([]byte(after), '(', ')')
		if len(read) == s.at-1 {
			return !isText || !s.isMessage(earlier, later)
		}
		compares := isComparer(lastName.FindString(read), isText) && !isTested(string(backwards[:open])+after[:end])
		if !compares && !valueMaker.MatchString(read) {
			return false
		}
		after = after[end+1:]
	}
	return false
}

// isMessage reports whether a text may be one that is said where the assertion fails, by the
// number of arguments before and behind it.
func (s *lineAssertion) isMessage(earlier, later int) bool {
	if plainName.MatchString(s.name) {
		return earlier+later > 0
	}
	return earlier+later > 1
}

// isComparer reports whether a function compares what it is given; numbers may say how much
// of a text it looks at.
func isComparer(name string, isText bool) bool {
	isPart := partName.MatchString(name) && !strings.Contains(name, "contains")
	return comparerName.MatchString(name) && !isPart && (isText || !strings.Contains(name, "cmp"))
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
	after = textLiteral.ReplaceAllStringFunc(after, blank)
	end, later := outOf([]byte(after), '(', ')')
	if open < 0 || end < 0 {
		return false
	}
	if isTested(string(backwards[:open]) + after[:end]) {
		return false
	}
	name, most := lastName.FindString(before[:len(before)-1-open]), 1
	if strings.Contains(name, "cmp") {
		most++
	}
	return comparerName.MatchString(name) && !partName.MatchString(name) && earlier+later <= most
}

// isTested reports whether a call that compares, by its name, is the code under test: it is
// given several literals and nothing else.
func isTested(given string) bool {
	return strings.Contains(given, ",") && !strings.ContainsFunc(given, unicode.IsLetter)
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
	if strings.HasPrefix(literal, "'") {
		if text := nearText(literal, random); len(text) == len(literal) {
			return text
		}
		return literal
	}
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

package alter

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lineComparison has the positions of an assertion's comparison: the actual and the expected expression, and
// the latter's literals. For a condition, operator compares it with its required value.
type lineComparison struct {
	actual, expected [2]int
	leaves           [][2]int
	operator         string
	// call is what compares: the assertion, or a call on its result.
	call *lineAssertion
	// note is the note of the expected value, or "" if it is unknown.
	note string
}

var (
	// literals matches numbers, strings, characters and booleans.
	literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'|\b\d+(?:\.\d+)?\b|\b(?:true|false)\b`)
	// plainLiteralText matches a literal whose note is its own text.
	plainLiteralText = regexp.MustCompile(`^\s*(?:-?\d+|"[^"\\]*"|true|false)\s*$`)
	// literalForm matches what a value made of literals can contain besides them.
	literalForm = regexp.MustCompile(`^(?:[\s,&*\[\](){}-]|vec!|String::from|(?:List|Set)\.of|Arrays\.asList|new\b|f?abs\b|(?:\w+::)*[A-Z]\w*|\w+:\s|\.(?:to_string|to_owned|into|as_\w+|to_vec|abs)\b)*$`)
	lastName    = regexp.MustCompile(`[\w!]*\s*$`)
	// Assertions that hold if two sides are equal, or if a condition holds.
	equalName = regexp.MustCompile(`(?i)(equals?|same|_(str)?eq!?)$`)
	notEqual  = regexp.MustCompile(`(?i)not`)
	plainName = regexp.MustCompile(`(?i)^(assert!?|check|expect|require|asserttrue|assertfalse)$`)
	// Forms of a single expression that compares: with an operator, or with a call.
	operators = regexp.MustCompile(`&&|\|\||!=|\s[<>]=?\s|[\w)][<>]=?\d`)
	cmpCall   = regexp.MustCompile(`(?s)^\s*(!?)\s*\w*cmp\w*\s*\((.*)\)\s*(==\s*0)?\s*$`)
	// Functions that compare return only a boolean, and some compare only a part.
	compares  = regexp.MustCompile(`(?i)(?:\w*cmp|equals?|same)\w*\s*\(`)
	equalCall = regexp.MustCompile(`(?s)^\s*(?:(.+)\.)?\w*(?i:equals?|same)\s*\((.*)\)\s*$`)
	// Calls on what assertThat returns, or matchers beside its first argument: those that cannot hold with another value
	// (a text can contain another word, too), and those whose result is about the same subject.
	nextCall     = regexp.MustCompile(`^\s*\.?\s*(?:[a-zA-Z]\w*\.)*(\w+)\s*\(`)
	valueCall    = regexp.MustCompile(`^(?:is(?:EqualTo(?:Ignoring(?:Case|Whitespace|NewLines))?|SameAs|EqualByComparingTo)?|equalTo|(?:has|with)(?:Size|Length|ToString|Message|Value)|containsExactly(?:InAnyOrder)?|containsOnly)$`)
	keepsSubject = regexp.MustCompile(`^(?:as|describedAs|(?:is|has|contains)[A-Z]?\w*)$`)
	// Calls on an assertion of an error that compile with any class of errors.
	anyThrown   = regexp.MustCompile(`^(?:isThrownBy|as|describedAs|(?:has|is|with)[A-Z]?\w*)$`)
	thrownName  = regexp.MustCompile(`^assert(?:Throws(?:Exactly)?|ThatExceptionOfType)$`)
	thrownClass = regexp.MustCompile(`^\s*([\w.]+)\.class\b`)
	// opposites maps assertions to those that hold when they do not. All that can be asserted about has both.
	opposites = map[string]string{
		"assert_eq!": "assert_ne!", "assert_ne!": "assert_eq!", "assertTrue": "assertFalse", "assertFalse": "assertTrue", "assertNull": "assertNotNull", "assertNotNull": "assertNull",
		"isTrue": "isFalse", "isFalse": "isTrue", "isEqualTo": "isNotEqualTo", "isNotEqualTo": "isEqualTo", "isSameAs": "isNotSameAs", "isNull": "isNotNull", "isNotNull": "isNull",
		"isEmpty": "isNotEmpty", "isNotEmpty": "isEmpty", "isPresent": "isNotPresent", "isNotPresent": "isPresent", "isInstanceOf": "isNotInstanceOf", "isExactlyInstanceOf": "isNotExactlyInstanceOf",
	}
)

// arguments returns the positions of a call's arguments, from after its opening bracket, or nil unless the
// statement ends after the call.
func arguments(text string, from int) [][2]int {
	all, end := callArguments(text, from)
	if end < 0 || !strings.HasPrefix(strings.TrimSpace(text[end:]), ";") {
		return nil
	}
	return all
}

// callArguments returns the positions of a call's arguments, and the end of the call, -1 if that is missing.
func callArguments(text string, from int) (all [][2]int, end int) {
	depth, start, quoted := 0, from, false
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth--; depth < 0 {
				return append(all, [2]int{start, i}), i + 1
			}
		case c == ',' && depth == 0:
			all, start = append(all, [2]int{start, i}), i+1
		}
	}
	return nil, -1
}

// lineAssertion is the text of an assertion, its name, and the position of its arguments.
type lineAssertion struct {
	text, name string
	at         int
}

func assertionOf(text string, at int) *lineAssertion {
	return &lineAssertion{text: text, at: at, name: strings.TrimSpace(lastName.FindString(text[:at-1]))}
}

func (s *lineAssertion) textAt(at [2]int) string { return s.text[at[0]:at[1]] }

// comparison returns what the assertion compares; leaves and operator are empty if that is unknown.
func (s *lineAssertion) comparison() (c lineComparison) {
	if strings.HasPrefix(s.name, "assertThat") {
		return s.chainComparison()
	}
	c = s.ownComparison()
	c.call = s
	return c
}

// chainComparison is comparison for an assertion whose result is called, or that is given a matcher: the literals in all
// calls that compare with values, or else the last call that has an opposite.
func (s *lineAssertion) chainComparison() lineComparison {
	subject, calls := s.calls()
	c, isSubject := lineComparison{call: s}, true
	for _, call := range calls {
		all, _ := callArguments(call.text, call.at)
		var made [][2]int
		if valueCall.MatchString(call.name) {
			made = slices.DeleteFunc(all, func(at [2]int) bool { return !call.isMade(at) })
		}
		equal := lineComparison{}
		if isSubject && len(made) == 1 && len(subject) == 1 && (call.name == "is" || strings.EqualFold(strings.TrimPrefix(call.name, "is"), "equalTo")) {
			equal = call.equality([][2]int{subject[0], made[0]})
		}
		switch {
		case len(equal.leaves) > 0 && len(c.leaves) == 0:
			c = equal
		case len(made) > 0:
			for _, at := range made {
				c.leaves = append(c.leaves, call.literalsIn(at)...)
			}
		case len(c.leaves) > 0 || call.opposite() == "":
			isSubject = isSubject && keepsSubject.MatchString(call.name)
			continue
		case isSubject && len(subject) == 1 && (call.name == "isTrue" || call.name == "isFalse"):
			c = call.truth(subject[0], call.name == "isTrue")
		}
		c.call, isSubject = call, isSubject && keepsSubject.MatchString(call.name)
	}
	return c
}

// calls returns what an assertion is about, and the calls on its result, or the matcher that it is given.
func (s *lineAssertion) calls() (subject [][2]int, calls []*lineAssertion) {
	subject, end := callArguments(s.text, s.at)
	if len(subject) > 1 {
		end, subject = subject[len(subject)-1][0], subject[len(subject)-2:len(subject)-1]
	}
	for end >= 0 {
		next := nextCall.FindStringSubmatchIndex(s.text[end:])
		if next == nil {
			break
		}
		call := &lineAssertion{text: s.text, name: s.text[end+next[2] : end+next[3]], at: end + next[1]}
		if _, end = callArguments(s.text, call.at); end >= 0 {
			calls = append(calls, call)
		}
	}
	return subject, calls
}

// ownComparison is comparison for an assertion that itself compares.
func (s *lineAssertion) ownComparison() (c lineComparison) {
	all := arguments(s.text, s.at)
	switch {
	case len(all) == 0:
	case plainName.MatchString(s.name):
		return s.plainComparison(all)
	case len(all) > 1 && equalName.MatchString(s.name) && !notEqual.MatchString(s.name):
		sides := s.withoutMessage(all)
		if c = s.equality(sides); len(c.leaves) == 0 && opposites[s.name] == "" {
			c.leaves = s.ownLiterals(sides)
		}
	}
	return c
}

// plainComparison is comparison for an assertion of a condition.
func (s *lineAssertion) plainComparison(all [][2]int) (c lineComparison) {
	if len(all) > 1 && s.name != "assert!" && !slices.ContainsFunc(all, func(at [2]int) bool { return !s.isMade(at) }) {
		// A helper of the tests takes the input first, and the expected values after it.
		return lineComparison{leaves: s.literalsIn([2]int{all[1][0], all[len(all)-1][1]})}
	}
	isTruth := !strings.EqualFold(s.name, "assertfalse")
	if isTruth {
		c = s.equality(s.sides(all[0]))
	}
	if len(c.leaves) == 0 {
		c = s.truth(all[0], isTruth)
	}
	return c
}

// withoutMessage returns the two arguments that are compared. JUnit 4 puts a message before them.
func (s *lineAssertion) withoutMessage(all [][2]int) [][2]int {
	if len(all) > 2 && s.isText(all[0]) && !s.isText(all[2]) && !strings.Contains(s.textAt(all[2]), "->") {
		return all[1:3]
	}
	return all[:2]
}

// equality returns the comparison of two sides, if exactly one of them is made of literals.
func (s *lineAssertion) equality(sides [][2]int) (c lineComparison) {
	if len(sides) != 2 || s.isMade(sides[0]) == s.isMade(sides[1]) {
		return c
	}
	at := slices.IndexFunc(sides, s.isMade)
	c.actual, c.expected = sides[1-at], sides[at]
	c.leaves = s.literalsIn(c.expected)
	if text := s.textAt(c.expected); plainLiteralText.MatchString(text) && (strings.Contains(s.text, "strcmp(") || !compares.MatchString(s.text[s.at:])) {
		c.note = "=" + strings.TrimSpace(text)
		if strings.HasPrefix(c.note, "=-") && len(c.leaves) == 1 {
			c.leaves[0][0] = c.expected[0] + strings.Index(text, "-")
		}
	}
	return c
}

// isMade reports whether a value is made of literals.
func (s *lineAssertion) isMade(at [2]int) bool {
	return literals.MatchString(s.textAt(at)) && literalForm.MatchString(literals.ReplaceAllString(s.textAt(at), ""))
}

func (s *lineAssertion) literalsIn(at [2]int) (all [][2]int) {
	for _, literal := range literals.FindAllStringIndex(s.textAt(at), -1) {
		all = append(all, [2]int{at[0] + literal[0], at[0] + literal[1]})
	}
	return all
}

func (s *lineAssertion) isText(at [2]int) bool {
	return strings.HasPrefix(strings.TrimSpace(s.textAt(at)), `"`)
}

// ownLiterals returns the literals of two sides of which neither or both are made of literals, except those in
// the arguments of calls.
func (s *lineAssertion) ownLiterals(sides [][2]int) (own [][2]int) {
	for _, side := range sides {
		for _, at := range literals.FindAllStringIndex(s.textAt(side), -1) {
			before := literals.ReplaceAllString(s.textAt([2]int{side[0], side[0] + at[0]}), "")
			if strings.Count(before, "(") == strings.Count(before, ")") && strings.Count(before, "[") == strings.Count(before, "]") {
				own = append(own, [2]int{side[0] + at[0], side[0] + at[1]})
			}
		}
	}
	return own
}

// sides returns the two sides that an expression compares, or nil.
func (s *lineAssertion) sides(at [2]int) [][2]int {
	from, whole := at[0], s.textAt(at)
	within := func(match []int, group int) [2]int { return [2]int{from + match[2*group], from + match[2*group+1]} }
	if call := cmpCall.FindStringSubmatchIndex(whole); call != nil {
		if isEqual := (call[2] < call[3]) != (call[6] >= 0); !isEqual {
			return nil
		}
		all := arguments(s.text[:from+call[5]]+");", from+call[4])
		return all[:min(2, len(all))]
	}
	if call := equalCall.FindStringSubmatchIndex(whole); call != nil {
		all := arguments(s.text[:from+call[5]]+");", from+call[4])
		if len(all) == 1 && call[2] >= 0 {
			all = append([][2]int{within(call, 1)}, all...)
		}
		return all[:min(2, len(all))]
	}
	blank := literals.ReplaceAllStringFunc(whole, func(text string) string { return strings.Repeat("_", len(text)) })
	if strings.Count(blank, "==") != 1 || operators.MatchString(blank) {
		return nil
	}
	middle := from + strings.Index(blank, "==")
	return [][2]int{{from, middle}, {middle + len("=="), at[1]}}
}

// truth returns the comparison of a condition that must equal wanted.
func (s *lineAssertion) truth(at [2]int, wanted bool) lineComparison {
	operator := "!="
	if wanted {
		operator = "=="
	}
	return lineComparison{actual: at, expected: [2]int{at[0], at[0]}, operator: operator, note: "=" + strconv.FormatBool(wanted)}
}

// canRecord reports whether the assertion can record what it compares.
func (s *lineAssertion) canRecord(c *lineComparison, notes *lineNotes) bool {
	if notes == nil || c.note == "" {
		return false
	}
	return len(c.leaves) == 1 || c.operator != "" && slices.Contains(notes.truths, c.call.name)
}

// opposite returns the name of the assertion that holds when this one does not, or "" if there is none that compiles in
// its place: AssertJ's isNull and isEmpty return nothing, so that no call can follow them.
func (s *lineAssertion) opposite() string {
	opposite := opposites[s.name]
	if (opposite == "isNull" || opposite == "isEmpty") && arguments(s.text, s.at) == nil {
		return ""
	}
	return opposite
}

// thrown returns the position of the class of errors that an assertion expects, or nil if another may not compile there.
func (s *lineAssertion) thrown() []int {
	_, end := callArguments(s.text, s.at)
	isUsed := end >= 0 && arguments(s.text, s.at) == nil
	if s.name == "assertThatExceptionOfType" {
		_, calls := s.calls()
		isUsed = len(calls) == 0 || slices.ContainsFunc(calls, func(call *lineAssertion) bool { return !anyThrown.MatchString(call.name) })
	}
	class := thrownClass.FindStringSubmatchIndex(s.text[s.at:])
	if class == nil || isUsed || !thrownName.MatchString(s.name) {
		return nil
	}
	return []int{s.at + class[2], s.at + class[3]}
}

// inversion returns the edit that replaces the name of a call by its opposite.
func (s *lineAssertion) inversion() edit {
	at := strings.LastIndex(s.text[:s.at], s.name)
	return edit{at, at + len(s.name), s.opposite()}
}

// alter returns the assertion with other literals (isValue is true) or else inverted.
func (s *lineAssertion) alter(c *lineComparison, other func(literal string) string) (text string, isValue bool) {
	var edits []edit
	var texts []string
	for _, at := range c.leaves {
		texts = append(texts, s.textAt(at))
	}
	for i, at := range c.leaves {
		edits = append(edits, edit{at[0], at[1], otherOf(texts[i], texts, other)})
	}
	if len(edits) > 0 {
		return apply(s.text, edits), true
	}
	if class := s.thrown(); class != nil { // an error that nothing throws, and that is no parent of another
		return s.text[:class[0]] + "java.lang.InstantiationError" + s.text[class[1]:], false
	}
	if c.call.opposite() != "" {
		return apply(s.text, []edit{c.call.inversion()}), false
	}
	all := arguments(s.text, s.at)
	if len(all) == 0 || !plainName.MatchString(s.name) || len(all) > 1 && s.name != "assert!" {
		return s.text, false
	}
	return s.text[:s.at] + "!(" + s.textAt([2]int{s.at, all[0][1]}) + ")" + s.text[all[0][1]:], false
}

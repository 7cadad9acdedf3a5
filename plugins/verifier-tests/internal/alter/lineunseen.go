package alter

import (
	"regexp"
	"slices"
	"strings"
)

// lineChecks tells which lines of a test may compare something otherwise than by an assertion at their beginning.
type lineChecks struct {
	// fails matches what fails a test; calls matches a statement that is a call with arguments whose result nobody uses,
	// such as that of a helper which compares, and harmless those of these that compare nothing.
	fails, calls, harmless *regexp.Regexp
	// valueless matches the names of assertions that do not say which value they expect, so that code gains nothing by
	// reading them.
	valueless *regexp.Regexp
}

var (
	rustChecks = &lineChecks{
		fails:     regexp.MustCompile(`\b(?:panic|unreachable|\w*assert\w*)!|\breturn\s+Err\b`),
		calls:     regexp.MustCompile(`^\s*(?:\w+::)*\w+!?\s*\((?:\s*[^)\s].*;|.*[(,\[{]|\s*)\s*$`),
		harmless:  regexp.MustCompile(`^\s*(?:e?print(?:ln)?!|dbg!|write(?:ln)?!|(?:std|core|fs|env|io|mem|thread|process|tokio|log|tracing|env_logger)::|drop\b|if\b|while\b|for\b|match\b|return\b|Some\b|Ok\b|Err\b)`),
		valueless: regexp.MustCompile(`^assert_ne!`),
	}
	javaChecks = &lineChecks{
		fails:     regexp.MustCompile(`\bfail\s*\(|\bassert\w*\s*\(|\bassert\s|\bthrow\s+new\s+(?:\w+\.)*Assertion\w*`),
		calls:     regexp.MustCompile(`^\s*(?:new\s+)?(?:[A-Z]\w*\.)*\w+\s*\((?:\s*[^)\s].*;|.*[(,\[{]|\s*)\s*$`),
		harmless:  regexp.MustCompile(`^\s*(?:System\.|Thread\.|TimeUnit\.|Files\.|Collections\.|Arrays\.|Mockito\.|(?:when|given|mock|super|this|if|while|for|switch|try|catch|synchronized|return)\b)`),
		valueless: regexp.MustCompile(`^assert(?:Not\w*|Null|Throws\w*|DoesNotThrow|Timeout\w*|InstanceOf)$|^(?:isNot\w*|isNull|is\w*InstanceOf)$`),
	}
)

// isUsed matches a line which is followed by what takes the result of the next one: that may be no other value.
var isUsed = regexp.MustCompile(`(?:=|[=-]>|\breturn)$`)

// mayCompare reports whether a line of a test may compare something. last is the code before it: that of a statement which
// has not ended goes on in the line.
func (c *lineChecks) mayCompare(line, last string) bool {
	if c == nil || strings.HasPrefix(strings.TrimSpace(line), "//") {
		return false
	}
	goesOn := last != "" && !strings.ContainsRune(";{}]", rune(last[len(last)-1]))
	return c.fails.MatchString(line) || !goesOn && c.calls.MatchString(line) && !c.harmless.MatchString(line)
}

func (c *lineChecks) isValueless(assertion string) bool {
	return c == nil || c.valueless.MatchString(assertion)
}

// setUnseen keeps the first place of a test at which something is compared that was not altered.
func (a *lineAlteration) setUnseen(text string) {
	const enough = 80
	isOf := func(u Unseen) bool { return u.Test == a.name }
	if a.collects || a.request.Way != Expectation || slices.ContainsFunc(a.source.Unseen, isOf) {
		return
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	a.source.Unseen = append(a.source.Unseen, Unseen{a.name, text})
}

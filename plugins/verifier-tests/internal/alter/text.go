package alter

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const letters = "abcdefghijklmnopqrstuvwxyz"

// otherLiteral returns another literal of the same kind that fits the same types, or the literal itself if it
// knows none.
func otherLiteral(literal string, random *rand.Rand) string {
	if opposite := map[string]string{"true": "false", "false": "true"}[literal]; opposite != "" {
		return opposite
	}
	if quote := literal[0]; strings.IndexByte("\"`'", quote) >= 0 {
		last := len(literal) - 1
		text := literal[:1] + otherText(literal[1:last], random) + literal[last:]
		if quote == '\'' && len(text) != len(literal) {
			return literal
		}
		return text
	}
	if n, err := strconv.ParseInt(literal, 0, 64); err == nil {
		return strconv.FormatInt(otherInt(n, random), 10)
	}
	if n, err := strconv.ParseUint(literal, 0, 64); err == nil {
		return strconv.FormatUint(n-1-random.Uint64N(n/2), 10) //nolint:mnd // as many digits, or one less
	}
	if f, err := strconv.ParseFloat(literal, 64); err == nil {
		if n := int64(f); float64(n) == f && n >= 0 { // its context may take whole numbers only: 123*1e6
			return fmt.Sprintf("%d.0", otherInt(n, random))
		}
		return fmt.Sprintf("%d.%d", random.IntN(10), 1+random.IntN(999))
	}
	return literal
}

// otherOf draws another literal with other. It avoids the literals of the same value, if possible: if those of
// a set were exchanged for one another, the set would be unchanged.
func otherOf(literal string, value []string, other func(literal string) string) string {
	const draws = 20
	drawn := other(literal)
	for n := 1; n < draws && slices.Contains(value, drawn); n++ {
		drawn = other(literal)
	}
	return drawn
}

var commentWord = regexp.MustCompile(`\w+(?:\.\w+)*`)

func alterComment(comment string, others map[string]string) string {
	return commentWord.ReplaceAllStringFunc(comment, func(old string) string { return cmp.Or(others[old], old) })
}

// otherWord returns another number for a number, and another text for a text.
func otherWord(text string, random *rand.Rand) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(otherInt(n, random), 10)
	}
	return otherText(text, random)
}

// otherInt returns another number that is smaller or, up to 127, equally small. Larger numbers keep their
// number of digits and of trailing zeros.
func otherInt(n int64, random *rand.Rand) int64 {
	const small, ten = math.MaxInt8, 10
	if n <= small {
		return (n + 1 + random.Int64N(small)) % (small + 1)
	}
	unit, low := int64(1), int64(1)
	for n%(unit*ten) == 0 {
		unit *= ten
	}
	for n/unit/low >= ten {
		low *= ten
	}
	if n/unit == low { // none is smaller
		return n + unit
	}
	return unit * (low + random.Int64N(n/unit-low))
}

// escape matches an escape sequence or a format verb.
var escape = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|%[a-z]`)

// otherText returns another text of the same form, since code can depend on the form: letters are replaced by
// letters of the same case, digits by digits. If there are none, letters are appended.
func otherText(text string, random *rand.Rand) string {
	other := func(r rune) rune {
		for _, class := range []string{letters, strings.ToUpper(letters), "0123456789"} {
			if at := strings.IndexRune(class, r); at >= 0 {
				return rune(class[(at+1+random.IntN(len(class)-1))%len(class)])
			}
		}
		return r
	}
	var b strings.Builder
	at := 0
	for _, whole := range append(escape.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		b.WriteString(strings.Map(other, text[at:whole[0]]) + text[whole[0]:whole[1]])
		at = whole[1]
	}
	if b.String() == text {
		return text + randomWord(random)
	}
	return b.String()
}

func randomWord(random *rand.Rand) string {
	const short, room = 3, 3
	return otherText(letters[:short+random.IntN(room)], random)
}

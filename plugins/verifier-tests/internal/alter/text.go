package alter

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

const letters = "abcdefghijklmnopqrstuvwxyz"

// escape matches what stands for one character, the verbs of formats too.
var escape = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|%[a-z]`)

// nearText returns another text of the same length, with characters of the same classes
// in their places, so that nothing that looks for a text of such a form can tell which is
// the true one: the last digit that can be less, else two neighbouring letters that change
// places, else another letter. Less, and the last, since a day, an hour or a digit of a number
// in another base may be no more, and a year has its own February; less by something drawn,
// so that nothing can undo it.
func nearText(text string, random *rand.Rand) string {
	open := escape.ReplaceAllStringFunc(text, func(e string) string { return strings.Repeat("\x00", len(e)) })
	lowerDigit := func(text string, at int) string {
		if c := text[at]; c >= '2' && c <= '9' {
			return strconv.Itoa(1 + random.IntN(int(c-'1')))
		}
		return ""
	}
	otherLetter := func(text string, at int) string {
		first := letterCase(text[at])
		if first == 0 {
			return ""
		}
		const others = len(letters) - 1
		return string(first + (text[at]-first+1+byte(random.IntN(others)))%byte(len(letters)))
	}
	const digitChanges = 2
	for i, change := range []func(text string, at int) string{lowerDigit, higherDigit, swap, otherLetter} {
		var found []string
		for at := range len(open) {
			if changed := change(open, at); changed != "" {
				found = append(found, text[:at]+changed+text[at+len(changed):])
			}
		}
		switch {
		case len(found) == 0:
		case i < digitChanges:
			return found[len(found)-1]
		default:
			return found[random.IntN(len(found))]
		}
	}
	return text + word(random)
}

func higherDigit(text string, at int) string {
	if c := text[at]; c == '0' || c == '1' {
		return string(c + 1)
	}
	return ""
}

func swap(text string, at int) string {
	if at+1 == len(text) || letterCase(text[at]) == 0 || letterCase(text[at]) != letterCase(text[at+1]) || text[at] == text[at+1] {
		return ""
	}
	return string([]byte{text[at+1], text[at]})
}

// letterCase returns the first letter of the alphabet in the case of a letter, or 0.
func letterCase(c byte) byte {
	for _, first := range []byte("aA") {
		if c >= first && c < first+byte(len(letters)) {
			return first
		}
	}
	return 0
}

// longerText returns a text that is no part of what the other is a part of: longer by some
// of its own letters.
func longerText(text string, random *rand.Rand) string {
	isLetter := func(r rune) bool { return r < 128 && (letterCase(byte(r)) != 0 || r >= '0' && r <= '9') }
	end := len(text)
	if last := strings.LastIndexFunc(text, isLetter); last >= 0 && !escape.MatchString(text) {
		end = last + 1
	}
	own := strings.Map(func(r rune) rune {
		if isLetter(r) {
			return r
		}
		return -1
	}, escape.ReplaceAllString(text, ""))
	if own == "" {
		own = letters
	}
	return text[:end] + draw(own, random) + text[end:]
}

// otherInt returns another number of as many digits that fits the same types, near it unless
// what is compared with is only near.
func otherInt(n int64, isPart bool, random *rand.Rand) int64 {
	const small, reach = 50, 9 // small numbers leave a byte room for more
	if isPart {
		by := 1 + random.Int64N(small)
		if n <= small {
			return n + by
		}
		return n - by
	}
	var less, more []int64
	digits := len(strconv.FormatInt(n, 10))
	for by := int64(1); by <= reach; by++ {
		if n > by && len(strconv.FormatInt(n-by, 10)) == digits {
			less = append(less, n-by)
		}
		if len(strconv.FormatInt(n+by, 10)) == digits {
			more = append(more, n+by)
		}
	}
	if n <= small {
		less = append(less, more...)
	} else if len(less) == 0 {
		less = more
	}
	return less[random.IntN(len(less))]
}

// farInt returns another number that is not more, or as little, with as many digits of which
// as many are 0 at its end.
func farInt(n int64, random *rand.Rand) int64 {
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
	if n/unit == low { // none is less
		return otherInt(n, false, random)
	}
	return unit * (low + random.Int64N(n/unit-low))
}

// farText returns some words.
func farText(text string, random *rand.Rand) string {
	from := letters + strings.Repeat(" ", 1+len(text)/len(letters))
	return draw(from, random) + word(random) + draw(from, random)[:random.IntN(3)]
}

// leadingDigit is the first digit of a number that is not 0, or its first.
var leadingDigit = regexp.MustCompile(`^(?:0?\.?0*[1-9]|\d)`)

// draw returns some of the characters.
func draw(from string, random *rand.Rand) string {
	drawn := make([]byte, 3+random.IntN(3))
	for i := range drawn {
		drawn[i] = from[random.IntN(len(from))]
	}
	return string(drawn)
}

func word(random *rand.Rand) string { return draw(letters, random) }

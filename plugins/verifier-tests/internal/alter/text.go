package alter

import (
	"math/rand/v2"
	"strings"
)

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)

// otherText returns another text of the same form, so that what reads the one by its form
// reads the other: with other digits where there are several, else longer by some of its
// own letters. What has escapes in it is only added to.
func otherText(text string, random *rand.Rand) string {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	isLetter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	escapes := strings.Contains(text, `\`)
	if !escapes && strings.IndexFunc(text, isDigit) != strings.LastIndexFunc(text, isDigit) {
		return strings.Map(func(r rune) rune {
			if isDigit(r) {
				others := strings.Replace(digits[1:], string(r), "", 1)
				return rune(others[random.IntN(len(others))])
			}
			return r
		}, text)
	}
	end := len(text)
	if last := strings.LastIndexFunc(text, func(r rune) bool { return isDigit(r) || isLetter(r) }); last >= 0 && !escapes {
		end = last + 1
	}
	added := word(random)
	for _, is := range []func(rune) bool{isDigit, isLetter} {
		if own := strings.Map(func(r rune) rune {
			if is(r) {
				return r
			}
			return -1
		}, text); own != "" {
			added = draw(own, random)
		}
	}
	return text[:end] + added + text[end:]
}

// draw returns some of the characters.
func draw(from string, random *rand.Rand) string {
	drawn := make([]byte, 3+random.IntN(3))
	for i := range drawn {
		drawn[i] = from[random.IntN(len(from))]
	}
	return string(drawn)
}

// word returns some letters.
func word(random *rand.Rand) string { return draw(letters, random) }

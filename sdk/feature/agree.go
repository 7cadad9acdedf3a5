package feature

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Method says what it means for two answers to agree.
type Method string

// The methods.
const (
	// Exact: the same text, letter case and white space aside.
	Exact Method = "exact"
	// Numeric: the last number in each is the same, up to rounding at the sixth
	// digit. "1,204.50" and "1204.5" agree.
	Numeric Method = "numeric"
	// Code: the same tokens, comments, white space and fences aside.
	Code Method = "code"
	// NGram: the share of character trigrams in common (Dice), in [0, 1].
	NGram Method = "ngram"
)

// Methods returns the known methods.
func Methods() []Method { return []Method{Exact, Numeric, Code, NGram} }

// Agree returns how far two answers agree: 0 or 1 for the exact methods, and in
// between for NGram. Empty answers, and answers without a number for Numeric,
// agree with nothing. It panics if the method is unknown.
func Agree(m Method, a, b string) float64 {
	switch m {
	case Exact:
		a, b = fold(a), fold(b)
		return truth(a != "" && a == b)
	case Numeric:
		x, ok := lastNumber(a)
		y, ok2 := lastNumber(b)
		return truth(ok && ok2 && math.Abs(x-y) <= 1e-6*max(1, math.Abs(x), math.Abs(y)))
	case Code:
		a, b = codeTokens(a), codeTokens(b)
		return truth(a != "" && a == b)
	case NGram:
		return dice(fold(a), fold(b))
	}
	panic(fmt.Sprintf("feature: unknown method %q", m))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// fold brings a text to one case and single spaces.
func fold(s string) string { return strings.Join(strings.Fields(strings.ToLower(s)), " ") }

// lastNumber returns the last decimal number of a text, commas between groups of
// digits left out.
func lastNumber(s string) (float64, bool) {
	isDigit := func(r rune) bool { return '0' <= r && r <= '9' }
	end := strings.LastIndexFunc(s, isDigit)
	if end < 0 {
		return 0, false
	}
	start := end
	for start > 0 && (isDigit(rune(s[start-1])) || s[start-1] == '.' || s[start-1] == ',') {
		start--
	}
	if start > 0 && s[start-1] == '-' && (start == 1 || !isDigit(rune(s[start-2])) && !unicode.IsLetter(rune(s[start-2]))) {
		start--
	}
	digits := strings.TrimLeft(strings.ReplaceAll(s[start:end+1], ",", ""), ".")
	x, err := strconv.ParseFloat(digits, 64)
	return x, err == nil
}

// dice returns twice the trigrams in common over the sum of both counts.
func dice(a, b string) float64 {
	if a == "" || b == "" {
		return 0
	}
	if a == b {
		return 1
	}
	counts, total := map[string]int{}, 0
	trigrams(a, func(g string) { counts[g]++; total++ })
	common := 0
	trigrams(b, func(g string) {
		total++
		if counts[g] > 0 {
			counts[g]--
			common++
		}
	})
	return 2 * float64(common) / float64(total)
}

// trigrams yields the runs of three characters of a text that is padded so that
// short texts and the ends count too.
func trigrams(s string, yield func(string)) {
	padded := []rune("\x00\x00" + s + "\x00\x00")
	for i := range len(padded) - 2 {
		yield(string(padded[i : i+3]))
	}
}

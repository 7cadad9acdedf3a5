package say

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/redact"
)

// Verdicts is listed among models for spend of steps outside their calls: on verifiers and estimators that ask models
// of their own.
const Verdicts = "(verdicts)"

// Because explains why a step ended.
func Because(s sdk.StopReason) string {
	switch s {
	case sdk.StopNotWorth:
		return "no further model was worth its price"
	case sdk.StopExhausted:
		return "every model had run"
	case sdk.StopDepth:
		return "the limit on models per step was reached"
	case sdk.StopBudget:
		return "a cap left no room for another call"
	case sdk.StopDeadline:
		return "the caller's time was up"
	case sdk.StopRefused:
		return "models refused the request, and no answer was left that stands"
	case sdk.StopError:
		return "nothing could be called"
	}
	return string(s)
}

// Plain makes untrusted text safe to display: it replaces invisible characters, direction overrides and invalid bytes
// by their code points, and the passwords of addresses.
func Plain(text string) string {
	text = redact.Addresses(strings.ReplaceAll(text, "\r\n", "\n"))
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&b, "⟨%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isHidden reports whether a character must not be displayed as it is. Line breaks, tabs and the joiners that scripts
// and emoji need are allowed.
func isHidden(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	case '\r', '\u2028', '\u2029', utf8.RuneError:
		return true
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
}

// Count formats a number with its noun, in the plural unless it is one.
func Count(n int64, noun string) string { return fmt.Sprintf("%d %s", n, Plural(n, noun)) }

// Plural returns the form of noun for n.
func Plural(n int64, noun string) string {
	if n == 1 {
		return noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") {
		return stem + "ies"
	}
	return noun + "s"
}

// longestName bounds the name of a model in a sentence, in runes.
const longestName = 160

// Short truncates a name for use in a sentence.
func Short(name string) string {
	if letters := []rune(name); len(letters) > longestName {
		return string(letters[:longestName]) + "…"
	}
	return name
}

package wire

import (
	"fmt"
	"strings"
	"unicode"
)

// The most of a plugin's words that a host takes. What is longer is cut.
const (
	maxName        = 256
	maxMessage     = 4 << 10
	maxEvidence    = 64 << 10
	maxDiagnostics = 50
	maxNames       = 100
)

// visible makes a plugin's text safe to show: control characters, which could drive a
// terminal or forge lines, are escaped, and it is cut at limit bytes.
func visible(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	if strings.IndexFunc(text, control) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if control(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func control(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// visibleAll makes names safe to show.
func visibleAll(names []string) []string {
	if len(names) > maxNames {
		names = names[:maxNames]
	}
	var out []string
	for _, name := range names {
		out = append(out, visible(name, maxName))
	}
	return out
}

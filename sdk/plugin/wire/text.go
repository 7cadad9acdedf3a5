package wire

import (
	"strings"

	"github.com/stepfall/stepfall/sdk/redact"
)

// Limits on the texts of a plugin. Longer texts are truncated.
const (
	maxName        = 256
	maxMessage     = 4 << 10
	maxEvidence    = 64 << 10
	maxDiagnostics = 50
	maxNames       = 100
	maxFields      = 2000 // of all roles together
)

// cleanText escapes control characters in a plugin's text and truncates it to limit bytes, counted after escaping.
func cleanText(text string, limit int) string {
	shown := redact.Visible(strings.ToValidUTF8(text[:min(len(text), limit)], ""))
	if len(text) <= limit && len(shown) <= limit {
		return shown
	}
	return strings.ToValidUTF8(shown[:min(len(shown), limit)], "") + "..."
}

func cleanNames(names []string) []string {
	var out []string
	for _, name := range names[:min(len(names), maxNames)] {
		out = append(out, cleanText(name, maxName))
	}
	return out
}

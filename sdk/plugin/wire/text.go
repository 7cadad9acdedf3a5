package wire

import (
	"strings"

	"github.com/stepfall/stepfall/sdk/redact"
)

// The most of a plugin's words that a host takes. What is longer is cut.
const (
	maxName        = 256
	maxMessage     = 4 << 10
	maxEvidence    = 64 << 10
	maxDiagnostics = 50
	maxNames       = 100
	maxFields      = 2000 // of all roles
)

// cleanText makes a plugin's text safe to show, and cuts it at limit bytes, those of escapes included.
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

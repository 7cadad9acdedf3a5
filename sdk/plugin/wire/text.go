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

// showable makes a plugin's text safe to show, and cuts it at limit bytes.
func showable(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return redact.Visible(text)
}

func showableNames(names []string) []string {
	if len(names) > maxNames {
		names = names[:maxNames]
	}
	var out []string
	for _, name := range names {
		out = append(out, showable(name, maxName))
	}
	return out
}

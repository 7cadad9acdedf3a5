package redact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A secret in escapes of several levels, all its characters or some, gets through no stream,
// wherever the pieces are cut; the words around it do.
func TestNestedEscapesInPieces(t *testing.T) {
	const secret, before, after = "sk-Ab3dEf6hIj9lMn2pQr5t", "the key is ", " and 100% of more text follows"
	formats := []string{"%%%02X", `\u%04x`, `\x%02x`, "&#%d;", "&#x%x;", "=%02X"}
	rng := rand.New(rand.NewPCG(1, 1))
	r := New(secret)
	for range 300 {
		text, depth := secret, 1+rng.IntN(4)
		for range depth {
			format, isWhole := formats[rng.IntN(len(formats))], rng.IntN(2) == 0 && len(text) < 400
			var b strings.Builder
			for i := range len(text) {
				if isWhole || rng.IntN(4) == 0 {
					fmt.Fprintf(&b, format, text[i])
				} else {
					b.WriteByte(text[i])
				}
			}
			text = b.String()
		}
		text = before + text + after
		stream, shown := r.Stream(), ""
		for i := 0; i < len(text); {
			end := min(len(text), i+1+rng.IntN(8))
			shown += stream.Next(text[i:end])
			i = end
		}
		shown += stream.End()
		if len(r.find(shown, true)) > 0 || !strings.Contains(shown, Mark) || !strings.HasPrefix(shown, before) || !strings.HasSuffix(shown, after) {
			t.Errorf("depth %d: %s\nis shown as %s", depth, text, shown)
		}
	}
}

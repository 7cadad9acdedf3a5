package feature

import (
	"strings"
	"testing"
)

func FuzzLowerWords(f *testing.F) {
	for _, s := range []string{"", " ", "The Answer\t is\r\n\v\f42. ", "a", " A", "İ x", "\xff A  b", "a\x00B\x1f", "\u0085a\u00a0B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := lowerWords(text), strings.Join(strings.Fields(strings.ToLower(text)), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}

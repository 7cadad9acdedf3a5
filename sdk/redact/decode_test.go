package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// The work of decoding nested escapes is linear in the length of the text.
func TestTheWorkIsLinear(t *testing.T) {
	r := New("sk-proj-R3dact/Me+Please_2026", `p@ss "word" planted/2026`)
	for name, part := range map[string]string{"percent": "25", "mixed": "%25&#x26;", "base64": "JTI1JTI1", "backslashes": `\\`, "entities": "#38;", "hex": "2525", "zeros": "&#000", "prefixes": "sk-proj-R3dact/", "prose": "a word, "} {
		work := func(n int) (sum int) {
			r.walk(view{text: "%&" + strings.Repeat(part, n/len(part))}, r.run, maxNesting, func(v *view) { sum += len(v.text) })
			return sum
		}
		if small, large := work(1<<12), work(1<<15); large > 9*small+1<<12 || small > 400<<12 {
			t.Errorf("%s: %d bytes are looked at for 4 KB, %d for 32 KB", name, small, large)
		}
	}
}

// A text without anything encoded has no view except itself, so it need not be walked.
func TestPlainTextsHaveOneView(t *testing.T) {
	r := New("sk-proj-R3dact/Me+Please_2026", "short", "R3dact99")
	random := rand.New(rand.NewPCG(1, 2))
	plain := 0
	for range 20_000 {
		text := make([]byte, random.IntN(60))
		for i := range text {
			text[i] = "aZ09+/-_  \n\r.,:{\"%\\&="[random.IntN(21)]
		}
		for _, run := range []int{6, r.run} {
			if r.isEncoded(string(text), run) {
				continue
			}
			plain++
			for _, isTail := range []bool{false, true} {
				r.walk(view{text: string(text), isTail: isTail}, run, maxNesting, func(v *view) {
					if v.source != nil || v.text != string(text) {
						t.Fatalf("%q of %q", v.text, text)
					}
				})
			}
		}
	}
	if plain < 1000 {
		t.Errorf("%d texts were plain", plain)
	}
}

package redact

import (
	"strings"
	"testing"
)

// What is decoded of a text that is all escapes within escapes grows with its length.
func TestTheWorkIsLinear(t *testing.T) {
	r := New("sk-proj-R3dact/Me+Please_2026", `p@ss "word" planted/2026`)
	for name, part := range map[string]string{"percent": "25", "mixed": "%25&#x26;", "base64": "JTI1JTI1", "backslashes": `\\`, "entities": "#38;", "hex": "2525", "zeros": "&#000", "prefixes": "sk-proj-R3dact/", "prose": "a word, "} {
		work := func(n int) (sum int) {
			r.walk(view{text: "%&" + strings.Repeat(part, n/len(part))}, r.run, nested, func(v *view) { sum += len(v.text) })
			return sum
		}
		if small, large := work(1<<12), work(1<<15); large > 9*small+1<<12 || small > 400<<12 {
			t.Errorf("%s: %d bytes are looked at for 4 KB, %d for 32 KB", name, small, large)
		}
	}
}

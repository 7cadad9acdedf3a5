package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A secret with some or all characters in nested escapes passes through no stream, wherever the pieces are split; the
// surrounding words do.
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

// A stream lets no more of a secret in nested encodings pass than a whole text does.
func TestNestedEncodingsInPieces(t *testing.T) {
	const secret = "sk-proj-4fT9xQ2mLb7RwZk1VhN8sYdC3uJe6GaPo5Ii0Xr"
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	each := func(form string) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for i := range len(s) {
				fmt.Fprintf(&b, form, s[i])
			}
			return b.String()
		}
	}
	hexes, percents, entities, escapes := each("%02x"), each("%%%02x"), each("&#x%x;"), each(`\u%04x`)
	amp := func(s string) string { return strings.ReplaceAll(s, "&", "&amp;") }
	for name, text := range map[string]string{
		"base64 twice, a value": "token=" + b64(b64(secret)), "base64 thrice": b64(b64(b64(secret))), "base64 of percents": b64(percents(secret)), "entities twice": amp(amp(entities(secret))), "base64 of escapes": b64(escapes(secret)),
		"hex thrice": hexes(hexes(hexes(secret))), "percents thrice": strings.ReplaceAll(strings.ReplaceAll(percents(secret), "%", "%25"), "%", "%25"),
	} {
		r := New(secret)
		if got := r.Known(text); strings.Contains(got, text[:len(text)/2]) {
			t.Errorf("%s: whole %s", name, got)
		}
		for _, size := range []int{1, 3, 7, 60} {
			s := r.Stream()
			shown := ""
			for from := 0; from < len(text); from += size {
				shown += s.Next(text[from:min(from+size, len(text))])
			}
			shown += s.End()
			if n := len(strings.ReplaceAll(shown, Mark, "")); n > len(text)/4 {
				t.Errorf("%s, %d at a time: %d of %d letters are shown", name, size, n, len(text))
			}
		}
	}
}

// A stream that ends within a secret reveals less than a third of it.
func TestStreamsThatEndWithinASecret(t *testing.T) {
	const key = "sk-proj-Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0LzXcVbNm9"
	r := New(key)
	for length := 1; length < len(key); length++ {
		for _, size := range []int{1, 7, len(key)} {
			text, s, shown := "it is "+key[:length], r.Stream(), ""
			for from := 0; from < len(text); from += size {
				shown += s.Next(text[from:min(len(text), from+size)])
			}
			if shown += s.End(); length > 18 && !strings.HasSuffix(shown, Mark) || len(strings.TrimSuffix(shown, Mark)) > len("it is ")+18 {
				t.Errorf("%d letters in pieces of %d: %q", length, size, shown)
			}
		}
	}
}

// A character that could begin an escape does not hide an encoded secret after it, in pieces of any length.
func TestEncodedAfterASign(t *testing.T) {
	const key = "sk-proj-Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0LzXcVbNm9"
	r := New(key)
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, encoded := range map[string]string{"twice": encode(encode(key)), "once": encode(key), "of hex": encode(hex.EncodeToString([]byte(key)))} {
		for _, sign := range []string{`\`, `\\`, `\n`, `C:\x\`, `=`, `\u003d`, `&`, `%`, `&amp`, `+\`, `{"a":"\n`, " "} {
			for size := 1; size <= 8; size++ {
				text, s, shown := "see "+sign+encoded+" end", r.Stream(), ""
				for from := 0; from < len(text); from += size {
					shown += s.Next(text[from:min(len(text), from+size)])
				}
				shown += s.End()
				before, _, isMarked := strings.Cut(strings.TrimPrefix(shown, "see "+sign), Mark)
				if most := len(encoded) * 15 / len(key); !isMarked || len(before) > most {
					t.Errorf("%s after %q in pieces of %d: %d of %d letters are shown: %q", name, sign, size, len(before), len(encoded), shown)
				}
			}
		}
	}
}

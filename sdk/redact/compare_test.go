package redact

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// between inserts a separator after every group of that many bytes.
func between(s string, n int, gap string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += n {
		b.WriteString(gap + s[i:min(len(s), i+n)])
	}
	return strings.TrimPrefix(b.String(), gap)
}

// A secret is found with any separators, in each common encoding and with a missing end, in whole texts and in
// streams; the surrounding text is kept.
func TestSpellingsOfASecret(t *testing.T) {
	const secret = "sk-Ab3dEf6hIj9lMn2pQr5t_X8z/Y1+w"
	in := "Bearer " + secret + " of the gateway"
	r := New(secret, "another-key-0123456789")
	for name, text := range map[string]string{
		"zero-width":        between(secret, 1, "\u200b"),
		"spaced":            between(secret, 1, " "),
		"over lines":        between(secret, 7, "\n"),
		"over cells":        between(secret, 5, " | "),
		"upper case":        strings.ToUpper(secret),
		"hex with colons":   between(hex.EncodeToString([]byte(secret)), 2, ":"),
		"hex, spaced":       between(strings.ToUpper(hex.EncodeToString([]byte(secret))), 2, " "),
		"base32":            base32.StdEncoding.EncodeToString([]byte(secret)),
		"base32 within":     base32.StdEncoding.EncodeToString([]byte(in)),
		"base32 over lines": between(base32.StdEncoding.EncodeToString([]byte(in)), 20, "\r\n"),
		"base32hex":         base32.HexEncoding.EncodeToString([]byte(secret)),
		"UTF-16, base64":    base64.StdEncoding.EncodeToString([]byte(between(secret, 1, "\x00") + "\x00")),
		"UTF-32, base64":    base64.StdEncoding.EncodeToString([]byte(between(secret, 1, "\x00\x00\x00") + "\x00\x00\x00")),
		"UTF-16, hex":       hex.EncodeToString([]byte("\x00" + between(secret, 1, "\x00"))),
		"UTF-7":             "+" + base64.RawStdEncoding.EncodeToString([]byte("\x00"+between(secret, 1, "\x00"))) + "-",
		"two parts, base64": base64.StdEncoding.EncodeToString([]byte(secret[:13])) + base64.StdEncoding.EncodeToString([]byte(secret[13:])),
		"base64 over lines": between(base64.StdEncoding.EncodeToString([]byte(in)), 20, "\n"),
		"base64 in quotes":  between(base64.StdEncoding.EncodeToString([]byte(in)), 16, "\" +\n\t\""),
		"without its end":   secret[:len(secret)-6],
		"without its start": secret[7:],
		"without both":      secret[4 : len(secret)-5],
	} {
		const before, after = "The key is <", "> and nothing else of it."
		whole := before + text + after
		shown := r.Known(whole)
		stream, piecewise := r.Stream(), ""
		for i := range len(whole) {
			piecewise += stream.Next(whole[i : i+1])
		}
		piecewise += stream.End()
		for how, got := range map[string]string{"whole": shown, "cut off": r.Known(before+text) + after, "in pieces": piecewise} {
			if !strings.Contains(got, Mark) || !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
				t.Errorf("%s, %s: %q", name, how, got)
			}
			r.needles.each(got, func(part span, isLong, _ bool) {
				if isLong {
					t.Errorf("%s, %s: %q is left of %q", name, how, got[part.from:part.to], text)
				}
			})
		}
	}
}

// In JSON a secret is masked within its string, so that the result is valid JSON.
func TestSecretsWithinStringsOfJSON(t *testing.T) {
	const secret = "tk-Ab3dEf6hIj9lMn2pQr5tX8zY1w"
	for _, isEvent := range []bool{false, true} {
		r := New(secret).InJSON(isEvent)
		for _, text := range []string{secret, secret[1:], secret[9:], "x"} {
			var got struct{ Content string }
			if err := json.Unmarshal([]byte(r.Known(`{"content":"`+text+`"}`)), &got); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			if isMasked := got.Content != text; isMasked != (text == secret || !isEvent && text != "x") {
				t.Errorf("an event %v: %s is %s", isEvent, text, got.Content)
			}
		}
	}
}

// Ordinary text is not masked, not even if secrets are words.
func TestOrdinaryTextStays(t *testing.T) {
	r := New("sk-Ab3dEf6hIj9lMn2pQr5t_X8z", "AKIAIOSFODNN7EXAMPLE", "550e8400-e29b-41d4-a716-446655440000", "correct-horse-battery-staple", "0123456789abcdef0123456789abcdef",
		"AAAAAAAAAAAAAAAAAAAAAAAA", "the-key-of-the-gateway", "my-very-secret-token-for-testing")
	files, bytes := 0, 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".md" && (ext != ".go" || strings.HasSuffix(path, "_test.go")) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		bytes += len(text)
		r.needles.each(string(text), func(part span, isLong, _ bool) {
			if isLong {
				t.Errorf("%s: %q is masked", path, text[part.from:part.to])
			}
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files of %d bytes, %v", files, bytes, err)
	}
}

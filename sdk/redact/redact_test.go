package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/sdk/redact"
)

const planted = `p@ss "word" planted/2026`

func TestNoFormOfASecretIsLeft(t *testing.T) {
	quoted, err := json.Marshal(map[string]string{"key": planted})
	if err != nil {
		t.Fatal(err)
	}
	r := redact.New(planted, "abc")
	for _, text := range []string{
		"it was " + planted + "!", string(quoted), "https://x/?key=" + url.QueryEscape(planted), "https://x/" + url.PathEscape(planted),
		base64.StdEncoding.EncodeToString([]byte(planted)),
	} {
		got := r.Text(text)
		if !strings.Contains(got, redact.Mark) || strings.Contains(got, "planted") || strings.Contains(got, text[len(text)-6:]) && strings.HasPrefix(text, "cEBz") {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got := redact.New("hunter2-2\n").Text("said hunter2-2."); got != "said [redacted]." {
		t.Errorf("got %q", got)
	}
	if got := r.Text("abc is too short to hide"); got != "abc is too short to hide" {
		t.Errorf("got %q", got)
	}
}

// TestAttackSpellings: a key in a server's response is redacted in every spelling.
func TestAttackSpellings(t *testing.T) {
	for _, secret := range []string{planted, "sk/live+planted=2026&x", `pl"an\ted<2026>`} {
		r := redact.New(secret)
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(string(quoted))
		if err != nil {
			t.Fatal(err)
		}
		every := ""
		for i := range len(secret) {
			every += fmt.Sprintf("%%%02X", secret[i])
		}
		for name, text := range map[string]string{
			"itself": secret, "JSON": string(quoted), "JSON in JSON": string(twice), "PHP": strings.ReplaceAll(string(quoted), "/", `\/`), "Go": strconv.Quote(secret),
			"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": strings.ToLower(url.QueryEscape(secret)), "twice": url.QueryEscape(url.QueryEscape(secret)),
			"each byte": every, "each byte in lower case": strings.ToLower(every), "HTML": html.EscapeString(secret), "hex": hex.EncodeToString([]byte(secret)), "HEX": fmt.Sprintf("%X", secret),
			"basic": base64.StdEncoding.EncodeToString([]byte("user:" + secret)), "bearer": base64.URLEncoding.EncodeToString([]byte("Bearer " + secret + "\n")),
			"raw": base64.RawURLEncoding.EncodeToString([]byte("u:" + secret)), "header": base64.RawStdEncoding.EncodeToString([]byte("Authorization: Bearer " + secret + ", x")),
		} {
			if name == "lower" && strings.ToLower(secret) != secret {
				continue
			}
			if got := r.Known("it was " + text + "!"); !strings.Contains(got, redact.Mark) || len(got) > len("it was [redacted]!")+40 {
				t.Errorf("%s of %s became %s", name, secret, got)
			}
		}
	}
}

// spell writes each byte of a text in a random escape, whose bytes may be escaped again up to depth times, and
// sometimes the whole text in base64 or hexadecimal.
func spell(r *rand.Rand, text string, depth int) string {
	var b strings.Builder
	for i := range len(text) {
		one := text[i : i+1]
		for range r.IntN(depth) {
			k := r.IntN(len(one))
			c := one[k]
			escaped := [...]string{
				fmt.Sprintf("%%%02X", c), fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%u%04x", c), fmt.Sprintf(`\u%04x`, c), fmt.Sprintf(`\U%08x`, c), fmt.Sprintf(`\u{%x}`, c), fmt.Sprintf(`\x%02x`, c), fmt.Sprintf(`\%03o`, c),
				fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#x%x;", c), fmt.Sprintf("&#X%X;", c), fmt.Sprintf("&#%040d;", c), fmt.Sprintf("&#x000%x;", c), fmt.Sprintf("=%02X", c),
			}[r.IntN(14)]
			one = one[:k] + escaped + one[k+1:]
		}
		b.WriteString(one)
	}
	if depth == 2 && r.IntN(2) == 0 {
		return b.String()
	} else if depth == 2 {
		b.Reset()
		b.WriteString(text)
	}
	pad := strings.Repeat("x", r.IntN(4)) + "//"
	switch r.IntN(6) {
	case 0:
		return base64.StdEncoding.EncodeToString([]byte(pad + b.String() + pad))
	case 1:
		return pad + base64.RawURLEncoding.EncodeToString([]byte(b.String()))
	case 2:
		return hex.EncodeToString([]byte(pad + b.String()))
	}
	return b.String()
}

// FuzzSpellings: no encoding of a key that decoders undo passes, in one piece or several, and the text beside it does.
func FuzzSpellings(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed, "sk-proj-R3dact/Me+Please_2026", "> ", " !")
	}
	f.Add(uint64(1), planted, "%25%", "&#&amp;%")
	f.Add(uint64(2), "100%25=20&amp;\\x41 of it", "\\", "=")
	f.Fuzz(func(t *testing.T, seed uint64, secret, before, after string) {
		if len(secret) < 8 || len(secret) > 100 || strings.ContainsFunc(secret+before+after, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := redact.New(secret)
		written := spell(rnd, secret, 4)
		text := before + written + after
		got := r.Known(text)
		// A digit beside an escape may be taken for one of its own.
		const digits = "0123456789abcdefABCDEF/+-_"
		apart := !strings.ContainsAny(before+after+secret, `%&\=`) && !strings.ContainsAny(before+after[:min(1, len(after))], digits)
		if apart && !strings.Contains(got, redact.Mark) {
			t.Fatalf("%q became %q", text, got)
		}
		if again := r.Known(got); again != got {
			t.Fatalf("%q, then %q", got, again)
		}
		text = before + spell(rnd, secret, 2) + after
		got = r.Known(text)
		stream, shown := r.Stream(), ""
		for rest := text; rest != ""; {
			n := 1 + rnd.IntN(min(7, len(rest)))
			shown += stream.Next(rest[:n])
			rest = rest[n:]
		}
		shown += stream.End()
		if strings.Contains(got, redact.Mark) != strings.Contains(shown, redact.Mark) || strings.Contains(shown, secret) {
			t.Fatalf("%q in pieces became %q, whole %q", text, shown, got)
		}
		if !strings.Contains(got, redact.Mark) && shown != text {
			t.Fatalf("%q in pieces became %q", text, shown)
		}
	})
}

func BenchmarkKnown(b *testing.B) {
	r := redact.New("sk-proj-R3dact/Me+Please_2026", planted)
	for name, text := range map[string]string{"prose": "The quick brown fox asks https://example.com/a for a token. ", "JSON": `{"a": "line\n\"quoted\" \u0026 more text of a model", "n": [1, 2]}` + "\n", "base64": "aGVsbG8gd29ybGQsIHRoaXM", "percent": "%2525"} {
		b.Run(name, func(b *testing.B) {
			long := strings.Repeat(text, 1<<18/len(text))
			b.SetBytes(int64(len(long)))
			for b.Loop() {
				r.Known(long)
			}
		})
	}
}

func TestShapesAreHiddenWithoutBeingKnown(t *testing.T) {
	var r *redact.Redactor
	const s = "S3cretS3cret"
	for _, text := range []string{
		"Incorrect API key provided: sk-proj-" + s, "Authorization: Bearer " + s, "api_key=" + s, "AIzaSyA0" + s + s,
		"access_token=" + s, "OPENAI_API_KEY=" + s, `{\"password\":\"` + s + `\"}`, `{"client_secret": "` + s + `"}`, "Authorization: Basic " + s, "Authorization: Bearer%20" + s,
		"x-api-key: " + s, "glpat-" + s, "hf_" + s + s, "gsk_" + s + s, "xai-" + s + s, "sk_live_" + s, "eyJhbGciOiJIUzI1NiJ9." + s + "." + s, "SG." + s + "." + s,
		"postgres://user:" + s + "@host/db", "https://:" + s + "@host/x", "-----BEGIN RSA PRIVATE KEY-----\n" + s + "\n" + s + "\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + s, "ASIAS3CRETS3CRET1234", "ya29." + s + s, "AWS_SECRET_ACCESS_KEY=" + s + "/" + s, "secretAccessKey: '" + s + "'", "ghr_" + s, "xoxe-1-" + s,
		"passwd=" + s, "pwd: " + s, `password = "a pass phrase of S3cretS3cret words"`, "GET /v1?key=" + s + "&alt=sse", "Set-Cookie: session=" + s, "token%3D" + s, "api_key%22%3A%22" + s,
		"invalid_api_key: " + s + " is wrong", "invalid_api_key: Incorrect API key provided: sk-proj-" + s, "params[token]=" + s, "ACCESS TOKEN => token: " + s, "bearer\u00a0" + s, "n_sf-" + s + s + s + s,
	} {
		if got := r.Text("before " + text + " after"); !strings.Contains(got, redact.Mark) || strings.Contains(strings.ToLower(got), "s3cret") || !strings.HasPrefix(got, "before ") {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, text := range []string{
		"a token is four bytes", "expected token: got EOF", "input_tokens=1234567", "the password is wrong", "unexpected token '}' in JSON", "tokens: 1234567, cost",
		"risk-assessment-of-everything", "key=value", "keyboard=qwertyuiop", "https://example.com:8080/path@x", "basic understanding of things", "authorization: required", "éyj", "401 invalid_api_key: Incorrect API key provided", "expired_token: Your session has ended",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// BenchmarkText measures long texts without a secret, some with many beginnings of one.
func BenchmarkText(b *testing.B) {
	var r *redact.Redactor
	for name, text := range map[string]string{"prose": "The quick brown fox asks https://example.com/a?b=c for a token. ", "traps": `token token: sk- eyJ pwd:"` + "bearer -----begin "} {
		b.Run(name, func(b *testing.B) {
			long := strings.Repeat(text, 1<<20/len(text))
			b.SetBytes(int64(len(long)))
			for b.Loop() {
				r.Text(long)
			}
		})
	}
}

// A text that is cut within a secret reveals no part of it.
func TestCut(t *testing.T) {
	r := redact.New(planted)
	for n := range len(planted) + 1 {
		got := r.Cut("x: " + planted[:n])
		if want := "x: " + redact.Mark; n > 0 && got != want || n == 0 && got != "x: " {
			t.Errorf("cut after %d bytes: %q", n, got)
		}
	}
}

// Invalid UTF-8 is not passed on: exporters of spans and databases reject it.
func TestTextIsUTF8(t *testing.T) {
	for _, r := range []*redact.Redactor{nil, redact.New("hunter2hunter2")} {
		if got := r.Text("caf\u00e9 \xff\xfe, hunter\xff and sk-abcdefghijklmnop"); got != "caf\u00e9 \ufffd, hunter\ufffd and "+redact.Mark {
			t.Errorf("%q", got)
		}
	}
}

package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
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
	if got := r.Text("abc is too short to hide"); got != "abc is too short to hide" {
		t.Errorf("got %q", got)
	}
}

// TestAttackSpellings: however a server spells a key that it sends back, it is not there.
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
		for name, text := range map[string]string{
			"itself": secret, "JSON": string(quoted), "JSON in JSON": string(twice), "PHP": strings.ReplaceAll(string(quoted), "/", `\/`), "Go": strconv.Quote(secret),
			"query": url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": strings.ToLower(url.QueryEscape(secret)), "twice": url.QueryEscape(url.QueryEscape(secret)),
			"HTML": html.EscapeString(secret), "hex": hex.EncodeToString([]byte(secret)), "HEX": fmt.Sprintf("%X", secret),
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

func TestShapesAreHiddenWithoutBeingKnown(t *testing.T) {
	var r *redact.Redactor
	for _, text := range []string{
		"Incorrect API key provided: sk-proj-0123456789abcdef.", "Authorization: Bearer abcdefghijklmnop", "api_key=supersecretvalue", "AIzaSyA0123456789abcdefghijk",
	} {
		if got := r.Text(text); !strings.Contains(got, redact.Mark) {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got := r.Text("a token is four bytes"); got != "a token is four bytes" {
		t.Errorf("got %q", got)
	}
}

// A text that is cut anywhere within a secret shows no part of it.
func TestCut(t *testing.T) {
	r := redact.New(planted)
	for n := range len(planted) + 1 {
		got := r.Cut("x: " + planted[:n])
		if want := "x: " + redact.Mark; n > 0 && got != want || n == 0 && got != "x: " {
			t.Errorf("cut after %d bytes: %q", n, got)
		}
	}
}

package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
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

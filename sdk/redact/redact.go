package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// shortest is the shortest secret that is looked for: what is shorter would hit
// innocent text and hide nothing.
const shortest = 4

// Redactor replaces secrets. It is safe for concurrent use; nil knows shapes only.
type Redactor struct {
	forms []string // longest first
	known *strings.Replacer
}

// New returns a redactor of the secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		// Who reads it from a file sends it without the end of its line.
		if trimmed := strings.TrimSpace(s); trimmed != s && len(trimmed) >= shortest {
			r.forms = append(r.forms, spellings(trimmed)...)
		}
		if len(s) >= shortest {
			r.forms = append(r.forms, spellings(s)...)
		}
	}
	slices.SortFunc(r.forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	r.forms = slices.Compact(r.forms)
	pairs := make([]string, 0, 2*len(r.forms))
	for _, form := range r.forms {
		pairs = append(pairs, form, Mark)
	}
	r.known = strings.NewReplacer(pairs...)
	return r
}

// spellings are the ways in which programs write a secret, itself among them.
func spellings(s string) []string {
	forms := []string{s, html.EscapeString(s)}
	for _, quoted := range []string{strconv.Quote(s), strconv.QuoteToASCII(s)} {
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	// With the slashes that some escape, within JSON, and within JSON in JSON.
	for _, form := range []string{s, strings.ReplaceAll(s, "/", `\/`)} {
		for range 3 {
			forms = append(forms, form, strings.ReplaceAll(form, "/", `\/`), inJSON(form, false))
			form = inJSON(form, true)
		}
	}
	for _, escaped := range []string{url.QueryEscape(s), url.PathEscape(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20")} {
		forms = append(forms, escaped, lowerEscapes(escaped), url.QueryEscape(escaped))
	}
	every := strings.Builder{}
	for i := range len(s) {
		fmt.Fprintf(&every, "%%%02X", s[i])
	}
	forms = append(forms, every.String(), lowerEscapes(every.String()))
	forms = append(forms, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(s)))
		// Within a longer text, as "user:secret" is: what of it the neighbours do not change.
		const least = 8 // shorter ones are found in what is none
		for before := 0; before < 3 && len(s) >= least; before++ {
			text := encoding.EncodeToString(append(make([]byte, before), s...))
			forms = append(forms, text[(before*8+5)/6:(before+len(s))*8/6])
		}
	}
	return forms
}

// inJSON is a text as it stands within a JSON string.
func inJSON(s string, escapeHTML bool) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(escapeHTML)
	_ = encoder.Encode(s) // text always can be
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

var escapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// lowerEscapes writes %2f for %2F.
func lowerEscapes(s string) string { return escapes.ReplaceAllStringFunc(s, strings.ToLower) }

// Known returns the text without the secrets that were given.
func (r *Redactor) Known(s string) string {
	if r == nil || s == "" {
		return s
	}
	return r.known.Replace(s)
}

// Text returns the text without secrets and without what looks like one.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	return unshaped(r.Known(s))
}

// Split returns the beginning of a longer text without secrets, and its end, where that
// may be the beginning of one: it belongs before what comes next.
func (r *Redactor) Split(s string) (clean, rest string) {
	s = r.Known(s)
	if r == nil {
		return s, ""
	}
	longest := 0
	for _, form := range r.forms {
		for n := min(len(form)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, form[:n]) {
				longest = n
			}
		}
	}
	return s[:len(s)-longest], s[len(s)-longest:]
}

// Cut returns the beginning of a longer text without secrets: not even with the part
// of one that goes on where the text was cut.
func (r *Redactor) Cut(s string) string {
	clean, rest := r.Split(s)
	if rest == "" {
		return clean
	}
	return clean + Mark
}

// Visible makes somebody else's text safe to show: control characters, which could
// drive a terminal or forge lines, and those that hide or turn text round are escaped.
// New lines and tabs stay.
func Visible(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeRune(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError)
}

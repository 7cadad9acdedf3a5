// Package redact takes secrets out of texts before somebody else sees them: traces,
// logs, errors that clients are told.
//
//	r := redact.New(key)
//	log.Println(r.Text(err.Error()))
//
// It knows the secrets that it is given, in the forms in which programs write them, and
// what has the shape of a credential.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// shortest is the shortest secret that is looked for: what is shorter would hit
// innocent text and hide nothing.
const shortest = 4

// shapes are what credentials look like in the errors and texts of others.
var shapes = regexp.MustCompile(`(?i)\bsk-[a-z0-9_-]{12,}|\b(?:ghp|gho|ghs|github_pat|xox[abp])[_-][a-z0-9_-]{12,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{20,}|\bbearer\s+[a-z0-9._~+/-]{12,}=*|\b(?:api[_-]?key|token|password|secret)["']?\s*[=:]\s*["']?[^\s"',;]{6,}`)

// Redactor replaces secrets. It is safe for concurrent use; nil knows shapes only.
type Redactor struct {
	forms []string // longest first
	known *strings.Replacer
}

// New returns a redactor of the secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < shortest {
			continue
		}
		r.forms = append(r.forms, s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s)))
		if quoted, err := json.Marshal(s); err == nil {
			r.forms = append(r.forms, strings.Trim(string(quoted), `"`))
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
	return shapes.ReplaceAllString(r.Known(s), Mark)
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

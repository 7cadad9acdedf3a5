package redact

import (
	"regexp"
	"strings"
)

// shape is the form of one kind of credential. Searching a long text with a regular expression takes
// seconds, so an expression is tried only where its fixed beginning occurs.
type shape struct {
	begin      string // lower case
	word       bool   // it begins at the start of a word
	earlyBytes string // one of these bytes must occur within the next few; empty means any
	// form matches from the beginning on. If it has a group, only the group is the secret.
	form *regexp.Regexp
}

// value matches what follows the name of a secret: a sign, and a quoted text or the rest of the word. The
// quotes can be escaped, as in nested JSON and in URLs.
const value = `(?:\\*["'\x60]|%22|&quot;|&#34;)*\]?\s{0,8}(?:[:=]|%3a|%3d)\s*(?:"(?:[^"\\\n]|\\.){4,}"|'[^'\n]{4,}'|(?:\\*["'\x60]|%22|&quot;|&#34;|“)*[^\s"',;]{6,})`

// shapes are indexed by the first byte of their beginning.
var shapes = func() (table [256][]shape) {
	add := func(word bool, begin, rest string) {
		soon := ""
		if strings.HasSuffix(rest, value) {
			soon = ":=%"
		}
		table[begin[0]] = append(table[begin[0]], shape{begin, word, soon, regexp.MustCompile(`(?is)^` + regexp.QuoteMeta(begin) + rest)})
	}
	for begin, rest := range map[string]string{
		"sk-": `[a-z0-9_-]{12,}`, "sf-": `[a-z0-9_-]{40,}`, "sk_": `(?:live|test)_[a-z0-9]{12,}`, "rk_": `(?:live|test)_[a-z0-9]{12,}`, "whsec_": `[a-z0-9+/=]{12,}`,
		"ghp": `[_-][a-z0-9_-]{12,}`, "gho": `[_-][a-z0-9_-]{12,}`, "ghs": `[_-][a-z0-9_-]{12,}`, "ghu_": `[a-z0-9_-]{12,}`, "ghr_": `[a-z0-9_-]{12,}`,
		"github_pat": `[_-][a-z0-9_-]{12,}`, "glpat-": `[a-z0-9_.-]{12,}`, "npm_": `[a-z0-9]{20,}`, "dop_v1_": `[a-z0-9]{20,}`,
		"xox": `[a-z][_-][a-z0-9_.-]{12,}`, "xapp-": `[a-z0-9-]{12,}`, "sg.": `[a-z0-9_-]{12,}\.[a-z0-9_-]{12,}`,
		"akia": `[0-9A-Z]{16}\b`, "asia": `(?-i:[0-9A-Z]{16})\b`, "aiza": `[0-9A-Za-z_-]{20,}`, "ya29.": `[a-z0-9_.-]{20,}`,
		"hf_": `[a-z0-9]{20,}`, "gsk_": `[a-z0-9]{20,}`, "xai-": `[a-z0-9]{20,}`, "r8_": `[a-z0-9]{20,}`, "pplx-": `[a-z0-9]{20,}`,
		"eyj": `[a-z0-9_-]{8,}\.[a-z0-9_-]{8,}(?:\.[a-z0-9_-]*)*`, "bearer": `(?:[\s\x{a0}+]|%20)+[a-z0-9._~+/-]{12,}=*`,
	} {
		add(true, begin, rest)
	}
	for begin, rest := range map[string]string{
		"api": `[_-]?key` + value, "token": value, "passw": `(?:or)?d` + value, "passphrase": value, "pwd": value, "private": `[_-]?key` + value,
		"secret": `(?:[_-]?(?:access|api))?(?:[_-]?key)?` + value, "access": `[_-]?key(?:[_-]?id)?` + value, "credential": `s?` + value,
		"authorization": `(?:\\*["']|%22)*\s*(?:[:=]|%3a)\s*(?:\\*["']|%22)*(?:(?:basic|bearer|token|digest|negotiate|apikey|key)(?:\s|%20)+[^\s"',;\\]{6,}|[^\s"',;\\]{16,})`,
		"cookie":        `:[ \t]*[^\r\n]{6,}`, "?key=": `[^\s"'&]{6,}`, "&key=": `[^\s"'&]{6,}`, "?sig=": `[^\s"'&]{6,}`, "&sig=": `[^\s"'&]{6,}`,
		"://":        `([^\s/?#@"'<>]*:[^\s/?#@"'<>]+)@`,
		"-----begin": `[a-z ]*private key-----.*?(?:-----end[a-z ]*-----|$)`,
	} {
		add(false, begin, rest)
	}
	return table
}()

// removeShapes returns the text without anything that has the shape of a credential.
func removeShapes(s string) string {
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); i++ {
		for k := range shapes[lower(s[i])] {
			from, to := shapes[lower(s[i])][k].at(s, i)
			if to == from {
				continue
			}
			b.WriteString(s[done:from])
			b.WriteString(Mark)
			done, i = to, to-1
			break
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// Error messages about a key, such as "invalid_api_key: Incorrect API key provided", are not keys: they
// have the name of an error, and the first word of a sentence.
var (
	errorCode = regexp.MustCompile(`(?i)(?:invalid|incorrect|missing|expired|wrong|bad)[_-]$`)
	sentence  = regexp.MustCompile(`: [A-Z][a-z]{1,13}$`)
)

// begins reports whether s has the shape's beginning; its first byte is known to match.
func (p *shape) begins(s string) bool {
	for k := 1; k < len(p.begin); k++ {
		if k == len(s) || lower(s[k]) != p.begin[k] {
			return false
		}
	}
	return true
}

// shapeWindow is the number of bytes around a shape that are examined.
const shapeWindow = 64

// isErrorText reports whether s[from:to] belongs to an error message about a key.
func isErrorText(s string, from, to int) bool {
	return errorCode.MatchString(s[max(0, from-shapeWindow):from]) && sentence.MatchString(s[from:to]) && strings.HasPrefix(s[to:], " ")
}

func isWithinWord(s string, i int) bool { return i > 0 && s[i-1] != '_' && isWordByte(s[i-1]) }

// at returns the span of the secret whose shape begins at i; from equals to if there is none.
func (p *shape) at(s string, i int) (from, to int) {
	if !p.begins(s[i:]) || p.word && isWithinWord(s, i) {
		return i, i
	}
	if p.earlyBytes != "" && !strings.ContainsAny(s[i:min(len(s), i+shapeWindow)], p.earlyBytes) {
		return i, i
	}
	m := p.form.FindStringSubmatchIndex(s[i:])
	if m == nil || isErrorText(s, i, i+m[1]) {
		return i, i
	}
	at := len(m) - 2
	return i + m[at], i + m[at+1]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func isWordByte(c byte) bool {
	c = lower(c)
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_'
}

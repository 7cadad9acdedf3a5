package redact

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// shortest is the shortest secret that is searched for: shorter ones would match harmless text.
const shortest = 4

// shortestEncoded is the shortest secret that is searched for in base64 and hexadecimal.
const shortestEncoded = 8

// Redactor replaces secrets. It is safe for concurrent use. A nil Redactor only finds shapes of credentials.
type Redactor struct {
	secrets []string // longest first
	window  int      // how far the bytes of one secret can be apart in an encoding
	run     int      // the shortest run of base64 that can contain a secret
	isASCII bool     // all secrets are printable ASCII
	needles needles
}

// New returns a redactor of the secrets.
func New(secrets ...string) *Redactor {
	r := &Redactor{isASCII: true}
	add := func(s string) {
		if len(s) < shortest || slices.Contains(r.secrets, s) {
			return
		}
		r.secrets = append(r.secrets, s)
		r.needles.add(s)
		r.isASCII = r.isASCII && !strings.ContainsFunc(s, func(c rune) bool { return !isPrintable(c) })
		r.window = max(r.window, 3*len(s)+maxEscape)
		if n := base64.RawStdEncoding.EncodedLen(len(s)) - 1; len(s) >= shortestEncoded {
			r.run = min(cmp.Or(r.run, n), n)
		}
	}
	for _, s := range secrets {
		// A secret from a file can end with a newline that is not sent.
		for _, s := range [...]string{s, strings.TrimSpace(s), strings.ReplaceAll(s, " ", "+")} {
			// Escapes that occur in the secret itself are decoded like those of the text.
			for v := []view{{text: s}}; len(v) > 0; v = v[0].unescape(len(s)) {
				add(v[0].text)
			}
		}
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
	return r
}

func isPrintable(c rune) bool { return ' ' <= c && c <= '~' }

// isEmpty reports whether r has no secrets.
func (r *Redactor) isEmpty() bool { return r == nil || len(r.secrets) == 0 }

// AtLeast returns a redactor of the secrets with at least n bytes, or nil if there are none.
func (r *Redactor) AtLeast(n int) *Redactor {
	if r == nil {
		return nil
	}
	long := slices.DeleteFunc(slices.Clone(r.secrets), func(s string) bool { return len(s) < n })
	if len(long) == 0 {
		return nil
	}
	return New(long...)
}

// InJSON returns a redactor of the same secrets for JSON, whose matches end at the end of a string. If
// isEvent is true, partial secrets are left alone, since they can continue in the next event, where
// [Stream] finds them.
func (r *Redactor) InJSON(isEvent bool) *Redactor {
	own := *r
	own.needles.isInJSON, own.needles.isEntire = true, isEvent
	return &own
}

// Known returns the text without the given secrets, in any encoding.
func (r *Redactor) Known(s string) string { return mask(s, 0, len(s), r.find(s, true)) }

// find returns the spans of secrets in s, sorted and merged. If s is whole, partial secrets at its end count.
func (r *Redactor) find(s string, isWhole bool) (found []span) {
	if r.isEmpty() || len(s) < shortest {
		return nil
	}
	compare := func(v *view) {
		r.needles.each(v.text, func(part span, isLong, isOpen bool) {
			if isLong && (isWhole || !isOpen) {
				found = append(found, span{v.start(part.from), v.end(part.to - 1)})
			}
		})
	}
	if isPlain := !r.isEncoded(s, r.run) && !slices.ContainsFunc(r.secrets, func(secret string) bool { return strings.Contains(s, secret) }); isPlain {
		compare(&view{text: s})
		return mergeSpans(found)
	}
	r.walk(view{text: s}, r.run, maxNesting, func(v *view) {
		compare(v)
		found = append(found, v.exactSpans(r.secrets)...)
	})
	return mergeSpans(found)
}

// exactSpans returns the spans at which the secrets occur in v unchanged.
func (v *view) exactSpans(secrets []string) (found []span) {
	for _, secret := range secrets {
		for from := 0; ; {
			at := strings.Index(v.text[from:], secret)
			if at < 0 {
				break
			}
			from += at + len(secret)
			found = append(found, span{v.start(from - len(secret)), v.end(from - 1)})
		}
	}
	return found
}

// mergeSpans sorts spans and merges those that overlap.
func mergeSpans(found []span) []span {
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	list := found[:1]
	for _, f := range found[1:] {
		if last := &list[len(list)-1]; f.from < last.to {
			last.to = max(last.to, f.to)
		} else {
			list = append(list, f)
		}
	}
	return list
}

// isEncoded reports whether s might contain an escape, or a run of that many base64 digits.
func (r *Redactor) isEncoded(s string, run int) bool {
	digits := 0
	for i := range len(s) {
		switch c := s[i]; {
		case strings.IndexByte(openers, c) >= 0:
			return true
		case sextets[c] < 64:
			digits++
		case c != '\n' && c != '\r':
			digits = 0
		}
		if run > 0 && digits >= run {
			return true
		}
	}
	return false
}

// mask returns s[from:to] with the found spans replaced by the mark.
func mask(s string, from, to int, found []span) string {
	if len(found) == 0 {
		return s[from:to]
	}
	var b strings.Builder
	for _, f := range found {
		if f.to <= from || f.from >= to {
			continue
		}
		if f.from > from {
			b.WriteString(s[from:f.from])
		}
		b.WriteString(Mark)
		from = min(f.to, to)
	}
	b.WriteString(s[from:to])
	return b.String()
}

// pendingStart returns the index at which a secret begins that could continue after the end of s, with at
// least that many bytes; len(s) if there is none.
func (r *Redactor) pendingStart(s string, least int) int {
	if r.isEmpty() {
		return len(s)
	}
	const longest = 4 << 10
	begin := max(0, len(s)-min(longest, 12*r.window))
	tail, run := view{text: s[begin:], isTail: true}, base64.RawStdEncoding.EncodedLen(max(least, 2))
	at := min(len(tail.text), r.openStart(&tail, least))
	if r.isEncoded(tail.text, run) {
		r.walk(tail, run, maxNesting, func(v *view) {
			if v.isTail {
				at = min(at, r.openStart(v, least))
			}
		})
	}
	return begin + at
}

// openStart returns the index in the original text at which a secret begins that could continue after v.
func (r *Redactor) openStart(v *view, least int) int {
	at := math.MaxInt
	if v.hasOpenEscapes && v.source != nil {
		at = v.openEscapes
	}
	r.needles.each(v.text, func(part span, _, isOpen bool) {
		if isOpen {
			at = min(at, v.start(part.from))
		}
	})
	for _, secret := range r.secrets {
		if n := endsWithin(v.text, secret, min(least, len(secret)/2)); n > 0 {
			at = min(at, v.start(len(v.text)-n))
		}
	}
	return at
}

// openEscapes returns the start of the last word of s if it is mostly escapes; these can be nested, so their
// decoding depends on the end of the word. Otherwise it returns len(s).
func openEscapes(s string) int {
	const longest, perEscape = 16 << 10, 32
	at := strings.LastIndexAny(s, " \t\n") + 1
	n := 0
	for i := at; i < len(s); i++ {
		if strings.IndexByte(openers, s[i]) >= 0 {
			n++
		}
	}
	if n < 2 || n*perEscape < len(s)-at || len(s)-at > longest {
		return len(s)
	}
	return at
}

// endsWithin returns the length of the longest proper prefix of secret that ends text, with at least that many bytes.
func endsWithin(text, secret string, least int) int {
	for n := min(len(secret)-1, len(text)); n >= max(least, 1); n-- {
		if strings.HasSuffix(text, secret[:n]) {
			return n
		}
	}
	return 0
}

// Text returns the text without secrets and without anything that looks like one, as valid UTF-8: some
// exporters drop a whole batch because of one invalid text.
func (r *Redactor) Text(s string) string {
	if s == "" {
		return s
	}
	if s = removeShapes(r.Known(s)); !utf8.ValidString(s) { // several times as fast as ToValidUTF8
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// Split splits the beginning of a longer text: clean has no secrets; rest can be the beginning of one and
// must be prepended to the text that follows.
func (r *Redactor) Split(s string) (clean, rest string) {
	found, at := r.find(s, false), r.pendingStart(s, 1)
	if n := len(found); n > 0 {
		at = max(at, found[n-1].to)
	}
	return mask(s, 0, at, found), s[at:]
}

// Cut returns the beginning of a longer text without secrets, including a secret that was cut off at its
// end.
func (r *Redactor) Cut(s string) string {
	clean, rest := r.Split(s)
	if rest == "" {
		return clean
	}
	return clean + Mark
}

// Stream removes secrets from a text that arrives in pieces. What can be the beginning of a secret is held
// back until more has arrived; up to three bytes of a beginning can pass.
type Stream struct {
	r          *Redactor
	seen, held string
}

// Stream returns an empty stream, or nil if r has no secrets.
func (r *Redactor) Stream() *Stream {
	if r.isEmpty() {
		return nil
	}
	return &Stream{r: r}
}

// Next takes the next piece and returns the text that is safe to pass on.
func (s *Stream) Next(piece string) string {
	const least = 4
	if text := s.seen + s.held + piece; openEscapes(text) <= len(s.seen) {
		s.held += piece
		return ""
	}
	return s.take(piece, false, func(text string) int { return min(s.r.pendingStart(text, least), openEscapes(text)) })
}

// End returns the text that was held back.
func (s *Stream) End() string { return s.take("", true, func(text string) int { return len(text) }) }

func (s *Stream) take(piece string, isWhole bool, hold func(text string) int) string {
	text, from := s.seen+s.held+piece, len(s.seen)
	found := s.r.find(text, isWhole)
	to := max(hold(text), from)
	if n := len(found); n > 0 {
		to = max(to, found[n-1].to)
	}
	s.seen, s.held = text[max(0, to-4*maxEscape):to], text[to:]
	return mask(text, from, to, found)
}

// Visible makes untrusted text safe to show. It escapes control characters, which could drive a terminal or
// forge lines, and characters that hide or reverse text. Newlines and tabs stay.
func Visible(s string) string {
	if strings.IndexFunc(s, isUnsafe) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isUnsafe(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isUnsafe(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError)
}

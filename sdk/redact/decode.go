package redact

import (
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting limits the nesting of base64 and hexadecimal. Escapes can be nested without limit.
const maxNesting = 2

// maxEscape is longer than any escape, except one with many leading zeros.
const maxEscape = 64

// span is a part of a text.
type span struct{ from, to int }

// view is text that was decoded from a part of another view.
type view struct {
	text   string
	source *view // nil for the text itself
	// units has the source range of each byte. If it is nil, the bytes were packed from digits, each with
	// that many bits, and at has the digits' indexes in the source.
	units []unit
	at    []int32
	bits  int
	// isTail means that more text can follow. hasOpenEscapes means that the last word is mostly escapes, whose
	// decoding depends on what follows.
	isTail, hasOpenEscapes bool
	openEscapes            int // their start in the original text
}

type unit struct{ from, to int32 }

// start returns the index in the original text at which the source of byte i begins.
func (v *view) start(i int) int {
	switch {
	case v.source == nil:
		return i
	case v.units != nil:
		return v.source.start(int(v.units[i].from))
	}
	return v.source.start(int(v.at[i*8/v.bits]))
}

// end returns the index in the original text at which the source of byte i ends.
func (v *view) end(i int) int {
	switch {
	case v.source == nil:
		return i + 1
	case v.units != nil:
		return v.source.end(int(v.units[i].to - 1))
	}
	return v.source.end(int(v.at[(i*8+7)/v.bits]))
}

// walk visits v and everything decoded from it. Nested escapes are decoded in two orders, outermost first
// and innermost first, since digits next to one can belong to it. Runs of base64 must have at least run
// digits. A tail that ends in an incomplete escape is visited with and without it.
func (r *Redactor) walk(v view, run, depth int, visit func(*view)) {
	if v.isTail {
		if at := openEscapes(v.text); at < len(v.text) {
			v.hasOpenEscapes, v.openEscapes = true, v.start(at)
		}
	}
	whole := func(v *view) {
		visit(v)
		r.walkRuns(v, run, depth, visit)
	}
	if rest := trimPartial(v.text); v.isTail && rest != v.text {
		asItIs := v
		whole(&asItIs) // its last character might not begin an escape
		v.text = rest
	}
	r.unescapeAll(&v, whole)
	if folded := v.fold(); folded.source != nil {
		whole(&folded)
	}
}

// walkRuns walks the decoded runs of base64 and hexadecimal in v.
func (r *Redactor) walkRuns(v *view, run, depth int, visit func(*view)) {
	if depth == 0 || r.run == 0 {
		return
	}
	v.decodeRuns(run, func(decoded view) {
		if !r.isASCII {
			r.walk(decoded, run, depth-1, visit)
			return
		}
		decoded.eachPrintable(run*3/4, func(part view) { r.walk(part, run, depth-1, visit) })
	})
}

// unescapeAll visits v and the result of each round of decoding. A round only processes the surroundings of
// what the previous one decoded, so the work is linear in the length of the text for any depth of nesting.
func (r *Redactor) unescapeAll(v *view, visit func(*view)) {
	visit(v)
	if !strings.ContainsAny(v.text, openers) {
		return
	}
	for _, part := range v.unescape(r.window) {
		r.unescapeAll(&part, visit)
	}
}

// fold decodes from the end, so that an escape is decoded together with what follows it.
func (v *view) fold() view {
	if !strings.ContainsAny(v.text, openers) {
		return view{}
	}
	text, units := make([]byte, len(v.text)), make([]unit, len(v.text))
	at, isChanged := len(text), false
	for i := range slices.Backward(text) {
		at--
		text[at], units[at] = v.text[i], unit{int32(i), int32(i + 1)}
		for at < len(text) && strings.IndexByte(openers, text[at]) >= 0 {
			decoded, n := escape(string(text[at:min(len(text), at+2*maxEscape)]))
			if n < max(1, len(decoded)) {
				break
			}
			end := units[at+n-1].to
			at += n - len(decoded)
			for k := range len(decoded) {
				text[at+k], units[at+k] = decoded[k], unit{int32(i), end}
			}
			isChanged = true
		}
	}
	if !isChanged {
		return view{}
	}
	return view{text: string(text[at:]), source: v, units: units[at:], isTail: v.isTail}
}

// openers are the characters that begin an escape.
const openers = "%\\&="

// unescape decodes each escape once and returns the surroundings of the decoded ones.
func (v *view) unescape(window int) (parts []view) {
	var text []byte
	var units []unit
	plain, open := 0, false      // start of the pending plain text; whether a part has begun
	keep := func(from, to int) { // bytes of v
		text, units = append(text, v.text[from:to]...), appendPlain(units, from, to)
	}
	flush := func() {
		if !open {
			return
		}
		end := min(len(v.text), plain+window)
		keep(plain, end)
		parts = append(parts, view{text: string(text), source: v, units: units, isTail: v.isTail && end == len(v.text)})
		text, units = nil, nil
	}
	for i := 0; i < len(v.text); {
		var decoded string
		n := 0
		switch v.text[i] { // inlined, since this is a hot path
		case '%', '\\', '&', '=':
			decoded, n = escape(v.text[i:])
		}
		if n == 0 {
			i++
			continue
		}
		if !open || i-plain > 2*window {
			flush()
			plain, open = max(plain, i-window), true
		}
		keep(plain, i)
		for k := range len(decoded) {
			text, units = append(text, decoded[k]), append(units, unit{int32(i), int32(i + n)})
		}
		i += n
		plain = i
	}
	flush()
	return parts
}

// appendPlain appends the units of bytes that were not decoded.
func appendPlain(units []unit, from, to int) []unit {
	for i := from; i < to; i++ {
		units = append(units, unit{int32(i), int32(i + 1)})
	}
	return units
}

// escape decodes the escape at the beginning of s, which is not empty, and returns its length, or 0 if there is none.
func escape(s string) (decoded string, n int) {
	switch s[0] {
	case '%':
		if len(s) > 1 && (s[1] == 'u' || s[1] == 'U') {
			return code(s, 2, 4, 4, 16)
		}
		return octets(s, 1, 2, 16)
	case '=': // quoted-printable
		if strings.HasPrefix(s, "=\r\n") {
			return "", 3
		} else if strings.HasPrefix(s, "=\n") {
			return "", 2
		}
		return octets(s, 1, 2, 16)
	case '&':
		return entity(s)
	case '\\':
		return backslash(s)
	}
	return "", 0
}

// backslash is escape for an s that begins with a backslash.
func backslash(s string) (decoded string, n int) {
	if len(s) < 2 {
		return "", 0
	}
	switch s[1] {
	case 'u', 'U', 'x':
		return hexadecimal(s)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		for digits := 4; digits > 0 && n == 0; digits-- { // a byte of four digits must begin with a zero
			decoded, n = octets(s, 1, digits, 8)
		}
		return decoded, n
	case 'a', 'b', 'f', 'n', 'r', 't', 'v':
		return "\n", 2 // no secret contains one
	}
	if isWordByte(s[1]) {
		return "", 0
	}
	return s[1:2], 2
}

// hexadecimal is backslash for an s that continues with u, U or x.
func hexadecimal(s string) (decoded string, n int) {
	switch {
	case strings.HasPrefix(s, `\u{`), strings.HasPrefix(s, `\x{`):
		if decoded, n = code(s, 3, 1, maxEscape, 16); strings.HasPrefix(s[n:], "}") {
			return decoded, n + 1
		}
		return "", 0
	case s[1] == 'u':
		return surrogates(s)
	case s[1] == 'U':
		return code(s, 2, 8, 8, 16)
	}
	return octets(s, 2, 2, 16)
}

// octets decodes a byte that is written as that many digits at s[at:].
func octets(s string, at, digits, base int) (string, int) {
	if len(s) < at+digits {
		return "", 0
	}
	x, err := strconv.ParseUint(s[at:at+digits], base, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(x)}), at + digits
}

// code decodes a character whose number has least to most digits at s[at:], not counting leading zeros.
func code(s string, at, least, most, base int) (string, int) {
	begin := at // of the significant digits
	if most == maxEscape {
		begin = len(s) - len(strings.TrimLeft(s[at:], "0"))
	}
	end := begin
	for end < len(s) && end-begin < most && digit(s[end]) < base {
		end++
	}
	x, err := strconv.ParseUint(s[at:end], base, 21)
	if end-at < least || err != nil || x > utf8.MaxRune {
		return "", 0
	}
	return string(rune(x)), end
}

func digit(c byte) int {
	switch c = lower(c); {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	}
	return math.MaxInt
}

// surrogates decodes \uXXXX, or a surrogate pair of two.
func surrogates(s string) (string, int) {
	const length = len(`\uXXXX`)
	decoded, n := code(s, 2, 4, 4, 16)
	if n > 0 && decoded == "\uFFFD" && len(s) >= 2*length && s[length] == '\\' && s[length+1] == 'u' {
		high, _ := strconv.ParseUint(s[2:length], 16, 16)
		low, _ := strconv.ParseUint(s[length+2:2*length], 16, 16)
		if r := utf16.DecodeRune(rune(high), rune(low)); r != utf8.RuneError {
			return string(r), 2 * length
		}
	}
	return decoded, n
}

// entity decodes an HTML character reference, numeric or named.
func entity(s string) (decoded string, n int) {
	switch {
	case strings.HasPrefix(s, "&#x"), strings.HasPrefix(s, "&#X"):
		decoded, n = code(s, 3, 1, maxEscape, 16)
	case strings.HasPrefix(s, "&#"):
		decoded, n = code(s, 2, 1, maxEscape, 10)
	default:
		const longest = 33
		n = 1
		for n < min(len(s), longest) && isWordByte(s[n]) {
			n++
		}
	}
	if strings.HasPrefix(s[n:], ";") {
		n++
	}
	if decoded == "" { // not numeric
		if decoded = html.UnescapeString(s[:n]); decoded == s[:n] {
			return "", 0
		}
	}
	return decoded, n
}

// trimPartial returns s without a possibly incomplete escape at its end, and without the escapes that it can
// be part of.
func trimPartial(s string) string {
	for n := 1; n <= min(maxEscape, len(s)); n++ {
		c := s[len(s)-n]
		if strings.IndexByte(openers, c) >= 0 {
			if c == '=' && n > len("=XX") || c == '%' && n > len("%uXXXX") {
				break // not an escape, or a complete one
			}
			s, n = s[:len(s)-n], 0
		} else if !isWordByte(c) && strings.IndexByte("#{", c) < 0 {
			break
		}
	}
	return s
}

// sextets maps a base64 digit of either alphabet to its value, and any other byte to 64.
var sextets = func() (table [256]byte) {
	for i := range table {
		table[i] = 64
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for i := range len(alphabet) {
		table[alphabet[i]] = byte(i)
	}
	table['+'], table['-'], table['/'], table['_'] = 62, 62, 63, 63
	return table
}()

// decodeRuns decodes runs of at least that many base64 digits, at each of the four alignments, and the
// hexadecimal digits among them. Runs can be broken into lines.
func (v *view) decodeRuns(least int, each func(view)) {
	for i := 0; i < len(v.text); i++ {
		begin, length := i, 0
		if i, length = endOfRun(v.text, begin); length < least {
			continue
		}
		at := make([]int32, 0, length)
		for k := begin; k < i; k++ {
			if sextets[v.text[k]] < 64 {
				at = append(at, int32(k))
			}
		}
		for shift := range 4 {
			each(v.pack(at[min(shift, len(at)):], 6, i == len(v.text), func(c byte) byte { return sextets[c] }))
		}
		v.decodeHex(at, i == len(v.text), each)
	}
}

// endOfRun returns the end of the run of base64 digits that begins at i, and the number of digits.
func endOfRun(s string, i int) (end, length int) {
	const line = 60 // the shortest line that can continue on the next
	unbroken := 0
	for ; i < len(s); i++ {
		if c := s[i]; sextets[c] < 64 {
			unbroken++
			length++
		} else if (c == '\n' || c == '\r') && (unbroken >= line || unbroken == 0) {
			unbroken = 0
		} else {
			break
		}
	}
	return i, length
}

// decodeHex decodes the runs of hexadecimal digits among the digits at these indexes.
func (v *view) decodeHex(at []int32, isLast bool, each func(view)) {
	for from := 0; from < len(at); from++ {
		to := from
		for to < len(at) && digit(v.text[at[to]]) < 16 {
			to++
		}
		if to-from >= 2*shortestEncoded {
			for shift := range 2 {
				each(v.pack(at[from+shift:to], 4, isLast && to == len(at), func(c byte) byte { return byte(digit(c)) }))
			}
		}
		from = to
	}
}

// pack combines the digits at these indexes, of that many bits each, into bytes.
func (v *view) pack(at []int32, bits int, isLast bool, value func(byte) byte) view {
	text := make([]byte, 0, len(at)*bits/8)
	word, have := 0, 0
	for _, i := range at {
		word, have = word<<bits|int(value(v.text[i])), have+bits
		if have >= 8 {
			have -= 8
			text = append(text, byte(word>>have))
			word &= 1<<have - 1
		}
	}
	return view{text: string(text), source: v, at: at, bits: bits, isTail: v.isTail && isLast}
}

// eachPrintable calls each with the parts of v that have at least that many printable bytes.
func (v *view) eachPrintable(least int, each func(view)) {
	for from := 0; from < len(v.text); from++ {
		to := from
		for to < len(v.text) && (isPrintable(rune(v.text[to])) || v.text[to] == '\n' || v.text[to] == '\r') {
			to++
		}
		if to-from >= least {
			units := appendPlain(make([]unit, 0, to-from), from, to)
			each(view{text: v.text[from:to], source: v, units: units, isTail: v.isTail && to == len(v.text)})
		}
		from = to
	}
}

package redact

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf16"
)

// A secret is recognized by its letters and digits, in either case, even if it is broken over lines or has
// blanks, colons or invisible characters between them; also if UTF-8, UTF-16 or UTF-32 is encoded in
// hexadecimal, base32 or base64, at any alignment, and if parts at its ends are missing. Each such form is a
// needle. Its parts of anchorLength bytes are looked up by hash at each position of a text.
const (
	anchorLength = 8
	// leastRun and leastShare are the least length and share of a needle that count as the secret.
	leastRun, leastShare = 2 * anchorLength, 0.55
)

// foldTable maps letters to lower case, digits to themselves, and any other byte to 0.
var foldTable = func() (table [256]byte) {
	for i := range table {
		if c := lower(byte(i)); 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			table[i] = c
		}
	}
	return table
}()

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && foldTable[r] != 0 {
			return rune(foldTable[r])
		}
		return -1
	}, s)
}

// anchor is the part of a needle that begins at index at.
type anchor struct {
	needle string
	at     int
}

// needles holds the needles of all secrets. The zero value has none.
type needles struct {
	// isInJSON: a match ends at a quotation mark. isEntire: only whole needles match.
	isInJSON, isEntire bool
	anchors            map[uint64][]anchor
	marks              [1 << 11]uint64 // a Bloom filter of the anchors, by their hash
}

func hash(key uint64) (word int, bit uint64) {
	h := key * 0x9E3779B97F4A7C15 >> 47
	return int(h >> 6), 1 << (h & 63)
}

func (n *needles) add(secret string) {
	n.addNeedle(fold(secret))
	n.addEncoded([]byte(secret))
	for _, order := range [...]binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var in16, in32 []byte
		for _, r := range secret {
			in32 = order.AppendUint32(in32, uint32(r))
		}
		for _, unit := range utf16.Encode([]rune(secret)) {
			in16 = order.AppendUint16(in16, unit)
		}
		n.addEncoded(in16)
		n.addEncoded(in32)
	}
}

// addEncoded adds the hexadecimal, base32 and base64 forms of secret.
func (n *needles) addEncoded(secret []byte) {
	n.addNeedle(hex.EncodeToString(secret))
	for _, e := range []struct {
		encode       func([]byte) string
		group, digit int // bytes and bits
	}{
		{base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString, 5, 5},
		{base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString, 5, 5},
		{base64.RawStdEncoding.EncodeToString, 3, 6},
	} {
		for shift := range e.group {
			text := e.encode(append(make([]byte, shift), secret...))
			// The digits at the ends also hold bits of what is beside the secret.
			n.addNeedle(fold(text[(8*shift+e.digit-1)/e.digit : 8*(shift+len(secret))/e.digit]))
		}
	}
}

func (n *needles) addNeedle(text string) {
	if len(text) < leastRun {
		return
	}
	if n.anchors == nil {
		n.anchors = map[uint64][]anchor{}
	}
	for at := 0; at+anchorLength <= len(text); at += anchorLength {
		var key uint64
		for _, c := range []byte(text[at : at+anchorLength]) {
			key = key<<8 | uint64(c)
		}
		word, bit := hash(key)
		n.marks[word] |= bit
		n.anchors[key] = append(n.anchors[key], anchor{text, at})
	}
}

// each calls do with each part of s that a needle matches. isLong is true if the part counts as a secret,
// isOpen if the match could continue after the end of s.
func (n *needles) each(s string, do func(part span, isLong, isOpen bool)) {
	var key uint64
	for i, end := 0, 0; i < len(s); i++ {
		c := foldTable[s[i]]
		if c == 0 {
			continue
		}
		key = key<<8 | uint64(c)
		if word, bit := hash(key); n.marks[word]&bit == 0 || i < end {
			continue
		}
		for _, a := range n.anchors[key] {
			part, length, isOpen := a.extend(s, i, n.isInJSON)
			isLong := n.isLong(length, len(a.needle), isOpen)
			do(part, isLong, isOpen)
			if isLong {
				end = max(end, part.to)
			}
		}
	}
}

// isLong reports whether that many bytes of a needle count as the secret. If the match is open at the end of
// a text, leastRun suffices.
func (n *needles) isLong(length, needle int, isOpen bool) bool {
	switch {
	case n.isEntire:
		return length == needle
	case isOpen:
		return length >= leastRun
	}
	return float64(length) >= max(leastRun, leastShare*float64(needle))
}

// extend returns the part of s that the needle matches around an anchor ending at i, the number of matched
// bytes of the needle, and whether the match could continue after the end of s.
func (a *anchor) extend(s string, i int, isInJSON bool) (part span, length int, isOpen bool) {
	from, first, _ := a.follow(s, i+1, a.at+anchorLength, -1, isInJSON)
	to, last, end := a.follow(s, i, a.at+anchorLength-1, 1, isInJSON)
	return span{from, to + 1}, last - first - 1, end == len(s) && last < len(a.needle)
}

// follow extends a match from byte i of s and byte k of the needle, in steps of 1 or -1. It returns the last
// matching index of s, i if there is none, and the indexes at which it stopped in the needle and in s.
func (a *anchor) follow(s string, i, k, step int, isInJSON bool) (match, left, end int) {
	match, left = i, k+step
	for end = i + step; uint(end) < uint(len(s)) && uint(left) < uint(len(a.needle)); end += step {
		if c := foldTable[s[end]]; c == a.needle[left] {
			match = end
			left += step
		} else if c != 0 || isInJSON && s[end] == '"' {
			break
		}
	}
	return match, left, end
}

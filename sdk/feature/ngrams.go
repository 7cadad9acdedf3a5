package feature

import (
	"math"
	"unicode"
	"unicode/utf8"
)

// NGrams counts the words of a text and the pairs of neighbouring words, hashed into
// buckets, and returns the number of words. A word is a lower-cased run of letters, a run
// of digits (of which only the length counts, since the value is not informative), or any
// other character except white space. Each has a sign that depends on its hash, so that
// collisions cancel out on average.
//
// counts is cleared and filled with sign(c)·log(1 + |c|) of each bucket's sum c. Its
// length is the number of buckets.
func NGrams(text string, counts []float64) int {
	clear(counts)
	words, last := 0, uint64(0)
	for len(text) > 0 {
		hash, size := word(text)
		text = text[size:]
		if hash == 0 {
			continue
		}
		bump(counts, hash)
		if words > 0 {
			bump(counts, (last^hash>>7)*fnvPrime)
		}
		last = hash
		words++
	}
	for i, c := range counts {
		if c != 0 {
			counts[i] = math.Copysign(math.Log1p(math.Abs(c)), c)
		}
	}
	return words
}

const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

// word returns the hash of the word at the start of a text and its length in bytes, or a
// hash of 0 for white space.
func word(text string) (hash uint64, size int) {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case unicode.IsSpace(r):
		return 0, size
	case unicode.IsDigit(r):
		for size < len(text) && unicode.IsDigit(rune(text[size])) {
			size++
		}
		return (fnvBasis ^ uint64(size)) * fnvPrime, size
	case !unicode.IsLetter(r):
		return (fnvBasis ^ uint64(r) ^ 1<<32) * fnvPrime, size
	}
	hash = fnvBasis
	for i, r := range text {
		if !unicode.IsLetter(r) {
			return hash, i
		}
		hash = (hash ^ uint64(unicode.ToLower(r))) * fnvPrime
	}
	return hash, len(text)
}

func bump(counts []float64, hash uint64) {
	// The high bits of the product are well mixed.
	hash ^= hash >> 32
	hash *= 0x9e3779b97f4a7c15
	sign := 1.0
	if hash>>63 == 1 {
		sign = -1
	}
	counts[(hash>>20)%uint64(len(counts))] += sign
}

package alter

import (
	"bytes"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"unicode"
)

var (
	// lastWord matches the last word of a line, and what follows it there.
	lastWord = regexp.MustCompile(`(?m)[\pL\pN]+[^\pL\pN\n]*$`)
	// jsonLeaf matches a value in JSON that holds no others, or a name and its colon.
	jsonLeaf = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b`)
)

// Data returns the content of a data file with other values: those of JSON, and the last
// word of each line of other files. One without a word has a letter more at its end.
func Data(file string, content []byte, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(len(file))))
	values, other := lastWord, otherWord
	if path.Ext(file) == ".json" {
		values, other = jsonLeaf, otherLeaf
	}
	altered := values.ReplaceAllFunc(content, func(value []byte) []byte { return []byte(other(string(value), random)) })
	if bytes.Equal(altered, content) {
		end := len(bytes.TrimSpace(content)) + len(content) - len(bytes.TrimLeftFunc(content, unicode.IsSpace))
		altered = slices.Concat(content[:end], []byte{letters[random.IntN(len(letters))]}, content[end:])
	}
	return altered
}

// maxFactor bounds how many times larger another number is.
const maxFactor = 100

func otherLeaf(leaf string, random *rand.Rand) string {
	switch {
	case leaf[len(leaf)-1] == ':':
		return leaf
	case leaf == "null":
		return "0"
	case leaf[0] == '-':
		return "-" + otherLeaf(leaf[1:], random)
	}
	if n, err := strconv.ParseInt(leaf, 10, 32); err == nil {
		return strconv.FormatInt(n+1+random.Int64N(maxFactor*(n+maxFactor)), 10) // which no other row is likely to have
	}
	return otherLiteral(leaf, random)
}

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
	// lastWord matches the last word of a line, and what follows it on that line.
	lastWord = regexp.MustCompile(`(?m)[\pL\pN]+[^\pL\pN\n]*$`)
	// jsonLeaf matches a JSON value that contains no others, or a name with its colon.
	jsonLeaf = regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*|\b(?:true|false|null)\b`)
)

// Data returns the content of a data file with other values: those in JSON, and the last word of each line
// in other files. Content without a word gets a letter appended.
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

// maxFactor limits how many times larger another number is.
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
		return strconv.FormatInt(n+1+random.Int64N(maxFactor*(n+maxFactor)), 10) // unlikely to occur in another row
	}
	return otherLiteral(leaf, random)
}

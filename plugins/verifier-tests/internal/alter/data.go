package alter

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"unicode"
)

// Data returns the content of a data file with other values: those of JSON, and the last
// word of each line of other files. One without a word has a letter more at its end.
func Data(file string, content []byte, seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(len(file))))
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if path.Ext(file) == ".json" && decoder.Decode(&tree) == nil {
		if altered, err := json.Marshal(otherJSON(tree, random)); err == nil {
			return append(altered, '\n')
		}
	}
	altered := lastWord.ReplaceAllFunc(content, func(word []byte) []byte { return []byte(nearText(string(word), random)) })
	if bytes.Equal(altered, content) {
		end := len(bytes.TrimSpace(content)) + len(content) - len(bytes.TrimLeftFunc(content, unicode.IsSpace))
		altered = slices.Concat(content[:end], []byte{letters[random.IntN(len(letters))]}, content[end:])
	}
	return altered
}

// lastWord matches the last word of a line, and what follows it there.
var lastWord = regexp.MustCompile(`(?m)[\pL\pN]+[^\pL\pN\n]*$`)

// otherJSON returns a tree with other values at its leaves.
func otherJSON(tree any, random *rand.Rand) any {
	switch v := tree.(type) {
	case map[string]any:
		if len(v) == 0 {
			v[word(random)] = 0
		}
		for key := range v {
			v[key] = otherJSON(v[key], random)
		}
	case []any:
		if len(v) == 0 {
			return []any{0}
		}
		for i := range v {
			v[i] = otherJSON(v[i], random)
		}
	case string:
		return nearText(v, random)
	case json.Number:
		return json.Number(otherWord(v.String(), random))
	case bool:
		return !v
	case nil:
		return 0
	}
	return tree
}

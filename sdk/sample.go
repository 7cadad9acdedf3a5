package sdk

import (
	"slices"
	"strconv"
	"strings"
)

// Samples returns, for each name, the index of the model that it samples again: "small#2" is the second
// answer of "small", if "small" is among the names too. For all other names it is their own index.
func Samples(names []string) []int {
	first := make([]int, len(names))
	for i, name := range names {
		first[i] = i
		base, number, ok := cutLast(name, "#")
		if n, err := strconv.Atoi(number); !ok || err != nil || n < 2 {
			continue
		}
		if at := slices.Index(names, base); at >= 0 {
			first[i] = at
		}
	}
	for i, f := range first {
		for first[f] != f {
			f = first[f]
		}
		first[i] = f
	}
	return first
}

// Families returns, for each name, the index of the first name of the same model: its further samples (see
// [Samples]), and its arms, such as "large@low" and "large@high".
func Families(names []string) []int {
	first := Samples(names)
	seen := map[string]int{}
	for i, name := range names {
		if first[i] != i {
			continue
		}
		model, _, _ := cutLast(name, "@")
		if at, known := seen[model]; known {
			first[i] = at
		} else {
			seen[model] = i
		}
	}
	for i, f := range first {
		first[i] = first[f]
	}
	return first
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}

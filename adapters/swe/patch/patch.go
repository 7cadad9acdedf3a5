// Package patch reads and applies search/replace blocks: the form in which small
// models change code with the fewest mistakes.
//
// A block names its file on the line before the fence, or keeps the last one named:
//
//	clamp.go
//	```go
//	<<<<<<< SEARCH
//		return x
//	=======
//		return max(x, lo)
//	>>>>>>> REPLACE
//	```
//
// An empty search part makes a new file.
package patch

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
)

// Errors of Parse and Apply to branch on.
var (
	// ErrNoBlocks: the text holds no search/replace block.
	ErrNoBlocks = errors.New("no search/replace block")
	// ErrNotFound: the text searched for is not in the file, or the file not in the tree.
	ErrNotFound = errors.New("text searched for is not there")
	// ErrAmbiguous: the text searched for is in the file more than once.
	ErrAmbiguous = errors.New("text searched for is there more than once")
)

// The lines round the two halves of a block.
const (
	searchLine  = "<<<<<<< SEARCH"
	middleLine  = "======="
	replaceLine = ">>>>>>> REPLACE"
)

// Block replaces Search by Replace in the file Path. Both end with a newline
// unless they are empty.
type Block struct {
	Path            string
	Search, Replace string
}

// Parse returns the blocks of text, in order.
func Parse(text string) ([]Block, error) {
	var blocks []Block
	file := ""
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if name, ok := fileName(lines, i); ok {
			file = name
		}
		if line != searchLine {
			continue
		}
		if file == "" {
			return nil, fmt.Errorf("line %d: a search/replace block names no file", i+1)
		}
		b := Block{Path: file}
		start, half := i, &b.Search
		for i++; ; i++ {
			if i >= len(lines) {
				return nil, fmt.Errorf("line %d: the search/replace block is not closed", start+1)
			}
			mark := strings.TrimRight(lines[i], "\r\n")
			if mark == middleLine && half == &b.Search {
				half = &b.Replace
				continue
			}
			if mark == replaceLine && half == &b.Replace {
				break
			}
			*half += lines[i]
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil, ErrNoBlocks
	}
	return blocks, nil
}

// fileName returns the path that line i names, when the next line opens a fence.
func fileName(lines []string, i int) (string, bool) {
	if i+1 >= len(lines) || !strings.HasPrefix(strings.TrimSpace(lines[i+1]), "```") {
		return "", false
	}
	name := strings.Trim(strings.TrimSpace(lines[i]), "`*:")
	if name == "" || strings.ContainsAny(name, " \t") {
		return "", false
	}
	return name, true
}

// Apply returns a copy of files, by path, with the blocks applied in order.
// Nothing is applied when one of them cannot be.
func Apply(files map[string]string, blocks []Block) (map[string]string, error) {
	out := maps.Clone(files)
	if out == nil {
		out = map[string]string{}
	}
	for _, b := range blocks {
		name := path.Clean(b.Path)
		if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
			return nil, fmt.Errorf("%s lies outside the tree", b.Path)
		}
		before, exists := out[name]
		if b.Search == "" && !exists {
			out[name] = b.Replace
			continue
		}
		after, err := Replace(before, b.Search, b.Replace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = after
	}
	return out, nil
}

// Replace replaces the one place of text where search stands.
func Replace(text, search, replace string) (string, error) {
	switch {
	case search == "" || !strings.Contains(text, search):
		return "", ErrNotFound
	case strings.Count(text, search) > 1:
		return "", ErrAmbiguous
	}
	return strings.Replace(text, search, replace, 1), nil
}

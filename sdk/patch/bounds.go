package patch

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on an answer, far above what people and models write. They limit the work on it to about a
// second, because it is not subject to the timeout of a run.
const (
	maxAnswer = 8 << 20 // bytes of text and arguments
	maxFiles  = 10_000
	maxPath   = 1024 // bytes of a path
	maxDepth  = 64   // folders of a path
	maxName   = 255  // bytes of a folder or file name, the limit of file systems
	maxWork   = 256 << 20
)

// work counts the bytes that edits have processed.
type work struct{ done int }

// errWork is the error of an answer whose edits exceed maxWork.
var errWork = &Error{Reason: fmt.Sprintf("its edits search more than %d MiB of text", maxWork>>20)}

func (w *work) add(bytes int) error {
	// A fixed cost per edit covers work that does not depend on the number of bytes.
	const each = 1 << 10
	if w.done += bytes + each; w.done > maxWork {
		return errWork
	}
	return nil
}

func size(lines []string) int {
	n := len(lines)
	for _, line := range lines {
		n += len(line)
	}
	return n
}

// checkLength rejects paths that file systems would reject or that are slow to walk.
func checkLength(name string) error {
	parts := strings.Split(name, "/")
	long := slices.ContainsFunc(parts, func(part string) bool { return len(part) > maxName })
	if len(name) > maxPath || len(parts) > maxDepth || long {
		return &Error{Path: shorten(name), Reason: fmt.Sprintf("is too long a path: %d bytes, %d folders", len(name), len(parts)-1)}
	}
	hidden := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	if !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) {
		return &Error{Path: fmt.Sprintf("%+q", name), Reason: "has control characters in its path"}
	}
	return nil
}

// isGitFolder reports whether some file system treats a part of a path as .git: Windows ignores case,
// trailing dots and spaces and anything after a colon, and has short names. Characters that other systems
// ignore are rejected by checkLength.
func isGitFolder(part string) bool {
	part, _, _ = strings.Cut(part, ":")
	part = strings.TrimRight(part, ". ")
	return strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1")
}

func shorten(text string) string {
	const enough = 400
	if len(text) <= enough {
		return text
	}
	return strings.ToValidUTF8(text[:enough], "") + "..."
}

// occurrences returns the first index at or after from at which want occurs in lines, and the number of
// occurrences, counted up to two. It takes linear time, even where a naive search would not.
func occurrences(lines, want []string, from int) (first, count int) {
	// Knuth-Morris-Pratt: fall[i] is the length of the longest proper border of want[:i+1].
	fall := make([]int, len(want))
	// matched returns the number of matching lines after line, if k lines matched before it.
	matched := func(k int, line string) int {
		for k > 0 && line != want[k] {
			k = fall[k-1]
		}
		if line == want[k] {
			k++
		}
		return k
	}
	for i := 1; i < len(want); i++ {
		fall[i] = matched(fall[i-1], want[i])
	}
	first = -1
	for at, k := from, 0; at < len(lines); at++ {
		if k = matched(k, lines[at]); k < len(want) {
			continue
		}
		if count++; count == 2 {
			return first, count
		}
		first, k = at+1-len(want), fall[k-1]
	}
	return first, count
}

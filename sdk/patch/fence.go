package patch

import (
	"regexp"
	"strings"
)

// fenceStart matches a line that begins a fence, possibly in a list item.
var fenceStart = regexp.MustCompile("^[ \t]*(?:(?:[-*+]|\\d+[.)])[ \t]+)?(?:`{3,}[^`]*|~~~.*)$")

func isFence(line string) bool {
	return (strings.Contains(line, "```") || strings.Contains(line, "~~~")) && fenceStart.MatchString(line)
}

// indent returns the column at which a fence begins.
func indent(line string) int { return strings.IndexAny(line, "`~") }

// unindent removes the common leading white space of lines, up to most bytes.
func unindent(lines []string, most int) []string {
	for _, line := range lines {
		if text := strings.TrimLeft(line, " \t"); text != "" {
			most = min(most, len(line)-len(text))
		}
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line[min(most, len(line)):]
	}
	return out
}

func fenceInfo(line string) string {
	return strings.TrimSpace(strings.TrimLeft(line[max(0, indent(line)):], "`~"))
}

// maxNesting limits the depth of fences within a fence.
const maxNesting = 16

// closingFence returns the index of the line that closes the fence at line i: a fence of the same character,
// at least as long, not indented more, and without an info string. A fence with an info string opens a
// nested block, and fences in a search/replace block are ignored. An unclosed block ends at the first fence
// without an info string, or with the text.
func closingFence(lines []string, i int) int {
	column := indent(lines[i])
	mark := lines[i][column : column+1]
	length := countPrefix(lines[i][column:], mark)
	first, depth, search := len(lines), 0, false
	for j := i + 1; j < len(lines) && depth < maxNesting; j++ {
		text := strings.TrimLeft(lines[j], " \t")
		run := countPrefix(text, mark)
		switch {
		case isSearch(lines[j]):
			search = true
		case isReplaceEnd(lines[j]):
			search = false
		case run < length || strings.Contains(text[run:], "`"):
		case strings.TrimSpace(text[run:]) != "":
			if len(lines[j])-len(text) <= column && !search {
				depth++
			}
		default:
			first = min(first, j)
			if len(lines[j])-len(text) > column || search {
				continue
			}
			if depth == 0 {
				return j
			}
			depth--
		}
	}
	return first
}

func countPrefix(text, mark string) int { return len(text) - len(strings.TrimLeft(text, mark)) }

package patch

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// Parse returns the edits of an answer, in order. defaultFile, when not empty,
// is the file that a block without a path stands for. There are none in an answer
// of more than 8 MiB.
func Parse(answer *sdk.Answer, defaultFile string) []Edit {
	length := len(answer.Text)
	for _, call := range answer.ToolCalls {
		length += len(call.Arguments)
	}
	if length > maxAnswer {
		return nil
	}
	edits := parseText(answer.Text)
	for _, call := range answer.ToolCalls {
		edits = append(edits, parseToolCall(call)...)
	}
	if len(edits) == 0 && defaultFile != "" {
		if content, ok := lastBlock(answer.Text); ok {
			edits = []Edit{{Kind: Whole, Path: defaultFile, Content: content}}
		}
	}
	return edits
}

func parseToolCall(call sdk.ToolCall) []Edit {
	fields := map[string]any{}
	if json.Unmarshal([]byte(call.Arguments), &fields) != nil {
		return nil
	}
	text := func(names ...string) *string {
		for _, name := range names {
			if value, ok := fields[name].(string); ok {
				return &value
			}
		}
		return nil
	}
	deref := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	if diff := text("patch", "diff"); diff != nil {
		return parseText(*diff)
	}
	file := text("path", "file_path", "file", "filename")
	if file == nil || *file == "" {
		return nil
	}
	name := cleanPath(*file)
	if old := text("old_string", "old_str", "search"); old != nil {
		return []Edit{{Kind: Replace, Path: name, Search: *old, Content: deref(text("new_string", "new_str", "replace"))}}
	}
	if content := text("content", "file_text", "contents"); content != nil {
		return []Edit{{Kind: Whole, Path: name, Content: *content}}
	}
	return nil
}

var (
	infoPath = regexp.MustCompile(`(?:^|[\s{,])(?:path|file|filename|title)\s*[=:]\s*"?([^\s"}]+)"?`)
	// A path on a line of its own, perhaps as a heading, in bold, in backquotes,
	// after "File:", before a colon.
	pathLine = regexp.MustCompile("^(?:#{1,6}\\s+|[-*]\\s+|\\d+\\.\\s+)?(?:\\*\\*)?(?:(?i:file|path|filename)\\s*:\\s*)?(?:\\*\\*)?`?([\\w@+.\\-/ \\[\\]()]*[\\w\\])])`?(?:\\*\\*)?\\s*:?(?:\\*\\*)?\\s*(?:\\((?i:new file|new|updated|modified)\\))?\\s*$")
	// A path in a comment on the first line of a block.
	pathComment = regexp.MustCompile(`^\s*(?://|#|--|;|/\*|<!--)\s*(?:(?i:file|path|filename)\s*:\s*)?([\w@+.\-/]+\.\w+|[\w.\-]+/[\w@+.\-/]+)\s*(?:\*/|-->)?\s*$`)
)

const (
	searchMark  = "<<<<<<< "
	middleMark  = "======="
	replaceMark = ">>>>>>> "
)

// parseText reads the text line by line. Inside a fence, and outside, a diff or
// a search/replace block is taken as such; any other fence with a path is a file.
func parseText(text string) []Edit {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	var edits []Edit
	lastPath := ""
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case isFence(line):
			end := closingFence(lines, i)
			body := lines[i+1 : end]
			edits = append(edits, parseBlock(line, body, lastPath)...)
			if path, ok := edited(edits); ok && hasSearch(body) {
				lastPath = path
			} else {
				lastPath = ""
			}
			i = end + 1
		case isSearch(line) || isDiffStart(lines, i):
			found, next := parseEdits(lines, i, lastPath)
			edits = append(edits, found...)
			if path, ok := edited(found); ok {
				lastPath = path
			}
			i = next
		default:
			if path, ok := pathFromLine(line); ok {
				lastPath = path
			} else if strings.TrimSpace(line) != "" {
				lastPath = ""
			}
			i++
		}
	}
	return edits
}

func edited(edits []Edit) (string, bool) {
	if len(edits) == 0 {
		return "", false
	}
	return edits[len(edits)-1].Path, true
}

// parseBlock reads one fenced block.
func parseBlock(fence string, body []string, before string) []Edit {
	name := before
	if match := infoPath.FindStringSubmatch(fenceInfo(fence)); match != nil {
		name = cleanPath(match[1])
	} else if _, after, ok := strings.Cut(fenceInfo(fence), ":"); ok && looksLikePath(after) {
		name = cleanPath(after)
	} else if looksLikePath(fenceInfo(fence)) && strings.ContainsAny(fenceInfo(fence), "./") {
		name = cleanPath(fenceInfo(fence))
	}
	for i := range body {
		if isSearch(body[i]) || isDiffStart(body, i) {
			return parseAll(body, name)
		}
	}
	if name == "" && len(body) > 0 {
		if match := pathComment.FindStringSubmatch(body[0]); match != nil && looksLikePath(match[1]) {
			name = cleanPath(match[1])
		}
	}
	if name == "" {
		return nil
	}
	return []Edit{{Kind: Whole, Path: name, Content: joinLines(body)}}
}

// parseAll reads every diff and search/replace block in lines.
func parseAll(lines []string, name string) []Edit {
	var edits []Edit
	for i := 0; i < len(lines); {
		if isSearch(lines[i]) || isDiffStart(lines, i) {
			found, next := parseEdits(lines, i, name)
			edits = append(edits, found...)
			i = next
			continue
		}
		if path, ok := pathFromLine(lines[i]); ok {
			name = path
		} else if match := pathComment.FindStringSubmatch(lines[i]); match != nil {
			name = cleanPath(match[1])
		}
		i++
	}
	return edits
}

func parseEdits(lines []string, i int, name string) ([]Edit, int) {
	if isSearch(lines[i]) {
		edit, next := parseSearch(lines, i, name)
		return []Edit{edit}, next
	}
	return parseDiff(lines, i)
}

// parseSearch reads the search/replace block at line i.
func parseSearch(lines []string, i int, name string) (Edit, int) {
	edit := Edit{Kind: Replace, Path: name}
	var search, replace []string
	i++
	for ; i < len(lines) && strings.TrimRight(lines[i], " ") != middleMark; i++ {
		search = append(search, lines[i])
	}
	for i++; i < len(lines) && !strings.HasPrefix(lines[i], replaceMark); i++ {
		replace = append(replace, lines[i])
	}
	edit.Search, edit.Content = joinLines(search), joinLines(replace)
	return edit, min(i+1, len(lines))
}

func isSearch(line string) bool {
	return strings.HasPrefix(line, searchMark+"SEARCH") || strings.HasPrefix(line, searchMark+"ORIGINAL")
}

func hasSearch(lines []string) bool {
	return slices.ContainsFunc(lines, isSearch)
}

func isFence(line string) bool {
	trimmed := strings.TrimLeft(line, " ")
	return strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")
}

func fenceInfo(line string) string {
	return strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "`~"))
}

// closingFence returns the line that closes the fence at line i: the next one of
// the same character, at least as long and without an info string. A block that
// is never closed ends with the text.
func closingFence(lines []string, i int) int {
	open := strings.TrimLeft(lines[i], " ")
	length := len(open) - len(strings.TrimLeft(open, open[:1]))
	for j := i + 1; j < len(lines); j++ {
		trimmed := strings.TrimSpace(lines[j])
		if len(trimmed) >= length && strings.Trim(trimmed, open[:1]) == "" && trimmed != "" {
			return j
		}
	}
	return len(lines)
}

// lastBlock returns the content of the last fenced block.
func lastBlock(text string) (string, bool) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	content, found := "", false
	for i := 0; i < len(lines); i++ {
		if !isFence(lines[i]) {
			continue
		}
		end := closingFence(lines, i)
		content, found = joinLines(lines[i+1:end]), true
		i = end
	}
	return content, found
}

func pathFromLine(line string) (string, bool) {
	match := pathLine.FindStringSubmatch(strings.TrimSpace(line))
	if match == nil || !looksLikePath(match[1]) {
		return "", false
	}
	return cleanPath(match[1]), true
}

// looksLikePath tells file names from prose: no spaces, and an extension or a
// folder, or a name that is known to stand alone.
func looksLikePath(s string) bool {
	if s == "" || strings.ContainsAny(s, " \t\"'`") || len(s) > 400 {
		return false
	}
	switch s {
	case "Makefile", "Dockerfile", "LICENSE", "README", "Gemfile", "Rakefile":
		return true
	}
	base := path.Base(s)
	dot := strings.LastIndexByte(base, '.')
	extension := dot >= 0 && dot < len(base)-1 && !strings.HasSuffix(s, ".")
	return extension || strings.Contains(s, "/") && !strings.HasSuffix(s, "/")
}

// cleanPath brings a path into the form in which files are compared: without a
// leading ./ and with . and .. resolved. Whether it stays inside the tree is
// checked when it is applied.
func cleanPath(s string) string {
	return path.Clean(strings.TrimPrefix(strings.TrimSpace(strings.ReplaceAll(s, "\\", "/")), "./"))
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

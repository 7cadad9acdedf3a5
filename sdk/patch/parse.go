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
// is the file that a block without a path stands for. An answer of more than 8 MiB
// has one that is refused.
func Parse(answer *sdk.Answer, defaultFile string) []Edit {
	length := len(answer.Text)
	for _, call := range answer.ToolCalls {
		length += len(call.Arguments)
	}
	if length > maxAnswer {
		return []Edit{{Refused: "the answer is longer than 8 MiB"}}
	}
	edits := parseText(afterThinking(answer.Text))
	if len(edits) == 0 {
		edits = parseText(answer.Text)
	}
	for _, call := range answer.ToolCalls {
		edits = append(edits, parseArguments(call.Arguments)...)
	}
	if len(edits) == 0 && defaultFile != "" {
		if content, ok := blockFor(defaultFile, answer.Text); ok {
			edits = []Edit{{Kind: whole, Path: defaultFile, Content: content, Fenced: true}}
		}
	}
	return edits
}

var thinkingEnd = regexp.MustCompile(`(?m)</think(?:ing)?>[ \t\r]*$`)

// afterThinking returns what follows a model's thoughts, which may hold drafts.
func afterThinking(text string) string {
	end := thinkingEnd.FindStringIndex(text)
	if end == nil {
		return text
	}
	before := textLines(text[:end[0]])
	fences := len(slices.DeleteFunc(slices.Clone(before), func(line string) bool { return !isFence(line) }))
	if !strings.HasPrefix(strings.TrimSpace(text), "<think") && fences%2 == 1 {
		return text // it stands in a block
	}
	return text[end[1]:]
}

func parseArguments(arguments string) []Edit {
	var value any
	if json.Unmarshal([]byte(arguments), &value) != nil {
		return nil
	}
	return editsOf(value, "")
}

// editsOf returns the edits of an object, or of several in a list or a field edits, which
// are of the file unless they say another.
func editsOf(value any, file string) (edits []Edit) {
	if list, ok := value.([]any); ok {
		for _, one := range list {
			edits = append(edits, editsOf(one, file)...)
		}
		return edits
	}
	fields, _ := value.(map[string]any)
	text := func(names ...string) (text string, found bool) {
		for _, name := range names {
			if text, found = fields[name].(string); found {
				return text, true
			}
		}
		return "", false
	}
	if diff, ok := text("patch", "diff"); ok {
		return parseText(diff)
	}
	if own, ok := text("path", "file_path", "file", "filename"); ok {
		file = own
	}
	if list, ok := fields["edits"]; ok {
		return editsOf(list, file)
	}
	if file == "" {
		return nil
	}
	if old, ok := text("old_string", "old_str", "search"); ok {
		content, _ := text("new_string", "new_str", "replace")
		return []Edit{{Kind: Replace, Path: cleanPath(file), Search: old, Content: content}}
	}
	if content, ok := text("content", "file_text", "contents"); ok {
		return []Edit{{Kind: whole, Path: cleanPath(file), Content: content}}
	}
	return nil
}

var (
	infoPath = regexp.MustCompile(`(?:^|[\s{,])(?:path|file|filename|title)\s*[=:]\s*"?([^\s"}]+)"?`)
	// A path on a line of its own, perhaps as a heading, in bold, in backquotes,
	// after "File:", before a colon.
	pathLine = regexp.MustCompile("^(?:#{1,6}\\s+|[-*]\\s+|\\d+\\.\\s+)?(?:\\*\\*)?(?:(?i:file|path|filename)\\s*:\\s*)?(?:\\*\\*)?`?([\\w@+.\\-/ \\[\\]()]*[\\w\\])])`?(?:\\*\\*)?\\s*:?(?:\\*\\*)?\\s*(?:\\([\\w ,-]+\\))?\\s*$")
	// A sentence that says what is written to the one file that it names.
	pathSentence = regexp.MustCompile("^(?i:please |now |then |next, |first, )*(?i:replace|update|create|rewrite|change|modify|edit|save|put|write|overwrite)\\b[^`]*`([^`\\s]+)`[^`]*:$")
	// A file between tags.
	fileTag = regexp.MustCompile(`^<file (?:path|name)="([^"]+)">\s*$`)
	// A path in a comment on the first line of a block.
	pathComment = regexp.MustCompile(`^\s*(?://|#|--|;|/\*|<!--)\s*(?:(?i:file|path|filename)\s*:\s*)?([\w@+.\-/]+\.\w+|[\w.\-]+/[\w@+.\-/]+)\s*(?:\([\w ,-]+\))?\s*(?:\*/|-->)?\s*$`)
)

const (
	searchMark  = "<<<<<<< "
	middleMark  = "======="
	replaceMark = ">>>>>>> "
)

// textLines returns the lines of an answer, without carriage returns and byte order marks.
func textLines(text string) []string {
	const mark = "\ufeff"
	text = strings.ReplaceAll(strings.TrimPrefix(text, mark), "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\n"+mark, "\n"), "\n")
}

// parseText reads the text line by line. Inside a fence, and outside, a diff, an
// envelope or a search/replace block is taken as such; any other fence with a path is
// a file.
func parseText(text string) []Edit {
	lines := textLines(text)
	var edits []Edit
	lastPath := ""
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case isFence(line):
			end := closingFence(lines, i)
			body := unindent(lines[i+1:end], indent(line))
			edits = append(edits, parseBlock(line, body, lastPath)...)
			if path, ok := joinEdits(edits); ok && hasSearch(body) {
				lastPath = path
			} else {
				lastPath = ""
			}
			i = end + 1
		case fileTag.MatchString(line):
			end := i + 1
			for end < len(lines) && strings.TrimSpace(lines[end]) != "</file>" {
				end++
			}
			edits = append(edits, Edit{Kind: whole, Path: cleanPath(fileTag.FindStringSubmatch(line)[1]), Content: joinLines(lines[i+1 : end])})
			i = min(end+1, len(lines))
		case isEdit(lines, i):
			found, next := parseEdits(lines, i, lastPath)
			edits = append(edits, found...)
			if path, ok := joinEdits(found); ok {
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

func joinEdits(edits []Edit) (string, bool) {
	if len(edits) == 0 {
		return "", false
	}
	return edits[len(edits)-1].Path, true
}

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
		if isEdit(body, i) {
			return parseAll(body, name)
		}
	}
	if edits := parseArguments(joinLines(body)); len(edits) > 0 && name == "" {
		return edits // an editing tool's arguments, written out
	}
	if name == "" && len(body) > 0 {
		if match := pathComment.FindStringSubmatch(body[0]); match != nil && looksLikePath(match[1]) {
			name = cleanPath(match[1])
		} else if hasTitle(body) {
			name, body = cleanPath(strings.TrimSuffix(strings.TrimSpace(body[0]), ":")), body[1:]
		}
	}
	if name == "" {
		return nil
	}
	return []Edit{{Kind: whole, Path: name, Content: joinLines(body), Fenced: true}}
}

// parseAll reads every diff and search/replace block in lines.
func parseAll(lines []string, name string) []Edit {
	var edits []Edit
	for i := 0; i < len(lines); {
		if isEdit(lines, i) {
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
	if envelopeFile.MatchString(lines[i]) {
		edit, next := parseEnvelope(lines, i)
		return []Edit{edit}, next
	}
	return parseDiff(lines, i)
}

// isEdit reports whether an edit of another form than a whole file begins at line i.
func isEdit(lines []string, i int) bool {
	return isSearch(lines[i]) || isDiffStart(lines, i) || envelopeFile.MatchString(lines[i])
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

// fenceStart is what stands before a fence: it may be an item of a list.
var fenceStart = regexp.MustCompile("^[ \t]*(?:(?:[-*+]|\\d+[.)])[ \t]+)?(```|~~~)")

func isFence(line string) bool { return fenceStart.MatchString(line) }

// isPlainFence leaves out items of lists, which lines of a diff look like.
func isPlainFence(line string) bool {
	line = strings.TrimLeft(line, " ")
	return strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")
}

// indent returns where on its line a fence begins.
func indent(line string) int { return strings.IndexAny(line, "`~") }

// unindent takes so much white space from the beginning of each line.
func unindent(lines []string, most int) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line[min(most, len(line)-len(strings.TrimLeft(line, " \t"))):]
	}
	return out
}

func fenceInfo(line string) string {
	return strings.TrimSpace(strings.TrimLeft(line[max(0, indent(line)):], "`~"))
}

// closingFence returns the line that closes the fence at line i: the next one of
// the same character, at least as long and without an info string. A block that
// is never closed ends with the text.
func closingFence(lines []string, i int) int {
	open := lines[i][indent(lines[i]):]
	length := len(open) - len(strings.TrimLeft(open, open[:1]))
	for j := i + 1; j < len(lines); j++ {
		trimmed := strings.TrimSpace(lines[j])
		if len(trimmed) >= length && strings.Trim(trimmed, open[:1]) == "" && trimmed != "" {
			return j
		}
	}
	return len(lines)
}

// blockFor returns the content of the fenced block that stands for a file: the last one
// in the file's language that is not introduced as an example of its use, or else the
// last one.
func blockFor(file, text string) (content string, found bool) {
	lines := textLines(text)
	names := append(languages[path.Ext(file)], strings.TrimPrefix(path.Ext(file), "."))
	best, before := 0, ""
	for i := 0; i < len(lines); i++ {
		if !isFence(lines[i]) {
			if strings.TrimSpace(lines[i]) != "" {
				before = lines[i]
			}
			continue
		}
		end := closingFence(lines, i)
		fits := 1
		if language, _, _ := strings.Cut(strings.ToLower(fenceInfo(lines[i])), " "); language == "" {
			fits = 2
		} else if slices.Contains(names, language) {
			fits = 3
		}
		if fits > 1 && !exampleLine.MatchString(before) {
			fits += 2
		}
		if fits >= best {
			best, content, found = fits, joinLines(unindent(lines[i+1:end], indent(lines[i]))), true
		}
		i, before = end, ""
	}
	return content, found
}

var exampleLine = regexp.MustCompile(`(?i)\b(example|usage|output|prints?|run it|try it)\b`)

// languages are the names of blocks in the language of a file, by its ending.
var languages = map[string][]string{
	".py": {"python", "python3"}, ".js": {"javascript", "node"}, ".cjs": {"javascript", "js"}, ".mjs": {"javascript", "js"}, ".ts": {"typescript"}, ".go": {"golang"}, ".rs": {"rust"},
	".rb": {"ruby"}, ".cc": {"cpp", "c++"}, ".cpp": {"c++"}, ".cs": {"csharp", "c#"}, ".kt": {"kotlin"}, ".hs": {"haskell"}, ".pl": {"perl"}, ".sh": {"bash", "shell"},
}

// hasTitle reports whether the first line of a block is the path of what follows. A list
// of paths is none.
func hasTitle(body []string) bool {
	return bareName.MatchString(body[0]) && slices.ContainsFunc(body[1:], func(line string) bool { return strings.TrimSpace(line) != "" && !bareName.MatchString(line) })
}

var bareName = regexp.MustCompile(`^\s*[\w@+.\-/]*\w\.\w{1,10}:?\s*$`)

func pathFromLine(line string) (string, bool) {
	match := pathLine.FindStringSubmatch(strings.TrimSpace(line))
	if match == nil {
		match = pathSentence.FindStringSubmatch(strings.TrimSpace(line))
	}
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

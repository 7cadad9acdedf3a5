package patch

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk"
)

// Parse returns the edits of an answer, in order. defaultFile, if not empty, is the file for a block
// without a path. For an answer of more than 8 MiB, or one whose blocks name no file, it returns a single
// edit that is Refused.
func Parse(answer *sdk.Answer, defaultFile string) []Edit {
	length := len(answer.Text)
	for _, call := range answer.ToolCalls {
		length += len(call.Arguments)
	}
	if length > maxAnswer {
		return []Edit{{Refused: "the answer is longer than 8 MiB"}}
	}
	read := readText(afterThinking(answer.Text))
	if len(read.edits) == 0 {
		read = readText(answer.Text)
	}
	edits := read.edits
	for _, call := range answer.ToolCalls {
		edits = append(edits, parseArguments(call.Arguments)...)
	}
	if defaultFile != "" && !slices.ContainsFunc(edits, func(e Edit) bool { return !e.Mentioned || e.Path == defaultFile }) {
		if content, ok := blockFor(defaultFile, answer.Text); ok {
			return []Edit{{Kind: whole, Path: defaultFile, Content: content, Fenced: true}}
		}
	}
	if len(edits) == 0 && read.unnamed != "" {
		return []Edit{{Refused: "the answer holds no edit that can be read: " + read.unnamed + " names no file", Unread: true}}
	}
	return edits
}

var thinkingEnd = regexp.MustCompile(`(?m)</think(?:ing)?>[ \t\r]*$`)

// afterThinking returns the text after a model's reasoning, which can contain drafts.
func afterThinking(text string) string {
	end := thinkingEnd.FindStringIndex(text)
	if end == nil {
		return text
	}
	before := textLines(text[:end[0]])
	fences := len(slices.DeleteFunc(slices.Clone(before), func(line string) bool { return !isFence(line) }))
	if !strings.HasPrefix(strings.TrimSpace(text), "<think") && fences%2 == 1 {
		return text // the tag is inside a block
	}
	return text[end[1]:]
}

// textLines returns the lines of an answer, without carriage returns and byte order marks.
func textLines(text string) []string {
	const mark = "\ufeff"
	text = strings.ReplaceAll(strings.TrimPrefix(text, mark), "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\n"+mark, "\n"), "\n")
}

// reader parses an answer line by line.
type reader struct {
	lines []string
	edits []Edit
	// name is the path announced for the next block; last is the file of the last edit, and of search/replace
	// blocks that follow it.
	name name
	last string
	// isIllustration means that the previous line introduces an illustration of the file that a heading
	// names.
	isIllustration bool
	// prose is the last line of prose; unnamed describes the first block that names no file.
	prose, unnamed string
	// failures counts the lines that looked like JSON but were not.
	failures int
}

func parseText(text string) []Edit { return readText(text).edits }

// readText parses the text line by line. Diffs, envelopes and search/replace blocks are recognized inside
// and outside of fences; any other fence with a path is a whole file.
func readText(text string) *reader {
	r := &reader{lines: textLines(text)}
	for i := 0; i < len(r.lines); {
		i = r.read(i)
	}
	r.edits = reconcile(r.edits)
	return r
}

// read parses what begins at line i and returns the index of the line after it.
func (r *reader) read(i int) int {
	const most = 20 // attempts to parse JSON
	line := r.lines[i]
	switch {
	case isFence(line):
		end := closingFence(r.lines, i)
		r.readBlock(fenceInfo(line), unindent(r.lines[i+1:end], indent(line)))
		return end + 1
	case strings.Contains(line, "<") && fileTag.MatchString(line):
		if next := r.readTags(i); next > i {
			return next
		}
	case strings.HasPrefix(line, "===") && fileRule.MatchString(line):
		if next := r.readRule(i); next > i {
			return next
		}
	case isEdit(r.lines, i), r.name.path != "" && isHunk(line):
		found, next := parseEdit(r.lines, i, r.fileOf())
		r.add(found)
		return next
	case isSearch(strings.TrimLeft(line, " \t")):
		if found, next := r.readIndented(i); next > i {
			r.add(found)
			return next
		}
	case strings.HasPrefix(line, "{") || strings.HasPrefix(line, "["):
		if r.failures >= most {
			break
		}
		if found, count := parseJSON(r.lines[i:]); len(found) > 0 {
			r.add(found...)
			return i + count
		}
		r.failures++
	}
	r.readSentence(line)
	return i + 1
}

func (r *reader) add(edits ...Edit) {
	r.edits = append(r.edits, edits...)
	if len(edits) > 0 {
		r.last = edits[len(edits)-1].Path
	}
	r.name = name{}
}

// fileOf returns the file of an edit that does not name one itself.
func (r *reader) fileOf() name {
	if r.name == (name{}) {
		return name{path: r.last}
	}
	return r.name
}

func (r *reader) readSentence(line string) {
	if isBlank(line) {
		return
	}
	if edits, to := parseSentence(line); len(edits) > 0 {
		r.edits = append(r.edits, edits...)
		r.name = name{path: to, loose: true}
		return
	}
	r.isIllustration = false
	found, ok := lineName(line)
	switch {
	case ok:
		r.name, r.last = found, ""
	case r.name.sticky && !strings.HasPrefix(line, "#"):
		r.name.loose, r.isIllustration = true, illustrationLine.MatchString(line)
	default:
		r.name, r.last = name{}, ""
	}
	r.prose = line
}

var (
	// A file between tags, or its content between tags if the path is between others.
	fileTag = regexp.MustCompile(`^\s*<(file|content|file_content|file_text|parameter)(?:\s+(?:path|name)="([^"]+)")?>(?:<!\[CDATA\[)?(.*)$`)
	// The line before a file that is neither fenced nor between tags.
	fileRule = regexp.MustCompile(`^={3,} \S.* ={3,}$`)
)

// readTags parses the file between tags at line i and returns the index of the line after it, or i if the
// tag names no file.
func (r *reader) readTags(i int) int {
	match := fileTag.FindStringSubmatch(r.lines[i])
	file := r.name.path
	switch {
	case match[1] == "file" && match[2] != "":
		file = cleanPath(match[2])
	case file == "", match[1] == "file", match[1] == "parameter" && !slices.Contains(contentFields, match[2]):
		return i
	}
	end := "</" + match[1] + ">"
	body := []string{match[3]}
	for !strings.HasSuffix(strings.TrimSpace(body[len(body)-1]), end) && i+1 < len(r.lines) {
		i++
		body = append(body, r.lines[i])
	}
	last := &body[len(body)-1]
	*last = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(*last), end), "]]>")
	if *last == "" {
		body = body[:len(body)-1]
	}
	if len(body) > 0 && body[0] == "" {
		body = body[1:]
	}
	r.add(Edit{Kind: whole, Path: file, Content: joinLines(body)})
	return i + 1
}

// readRule parses the file after a rule with its name at line i and returns the index of the line after it,
// or i if there is none.
func (r *reader) readRule(i int) int {
	file, ok := nameOf(r.lines[i])
	end := i + 1
	for end < len(r.lines) && !fileRule.MatchString(r.lines[end]) {
		end++
	}
	text := strings.TrimSpace(strings.Join(r.lines[i+1:end], "\n"))
	if !ok || file.loose || text == "" || slices.ContainsFunc(r.lines[i+1:end], isFence) {
		return i
	}
	r.add(Edit{Kind: whole, Path: file.path, Content: text + "\n"})
	return end
}

func (r *reader) readBlock(info string, body []string) {
	defer func() { r.prose = "" }()
	language, _, _ := strings.Cut(strings.ToLower(info), " ")
	file := r.name
	if own := infoName(info); own != "" {
		file = name{path: own}
	}
	isNamed := file.path != "" && !file.loose
	var arguments []Edit
	if !isNamed {
		arguments = parseArguments(joinLines(body))
	}
	switch {
	case hasEdit(body):
		if file == (name{}) {
			file = r.fileOf()
		}
		r.add(parseAll(body, file)...)
	case isHunks(body), isChange(file.path, language):
		if file.path == "" && file.spaced == "" {
			r.skip()
			return
		}
		if !isHunks(body) {
			body = append([]string{"@@"}, body...)
		}
		r.add(parseAll(body, file)...)
	case len(arguments) > 0:
		r.add(arguments...)
	case slices.Contains(shells, language) && (!isNamed || !fitsLanguage(file.path, language)) && infoName(info) == "":
		r.readCommands(file, body)
	default:
		r.readFile(file, language, body)
	}
}

// readCommands parses a block of shell commands. It keeps the announced name for the next block.
func (r *reader) readCommands(file name, body []string) {
	edits := parseCommands(body)
	r.edits = append(r.edits, edits...)
	if _, _, ok := title(body); ok && len(edits) == 0 {
		r.readFile(name{}, "", body)
	} else if file.loose {
		r.name = name{}
	}
}

// replacementLine matches prose between a block and the block that replaces it.
var replacementLine = regexp.MustCompile(`(?i)^\W*(?:with|by|to)(?: (?:this|the following))?\W*$`)

// readFile parses a block as a whole file, whose path is given or in its first line.
func (r *reader) readFile(file name, language string, body []string) {
	if file.loose && r.isIllustration {
		return
	}
	if n := len(r.edits) - 1; file == (name{}) && n >= 0 && r.edits[n].Mentioned && r.edits[n].Fenced && replacementLine.MatchString(r.prose) {
		old := r.edits[n]
		r.edits[n] = Edit{Kind: Replace, Path: old.Path, Spaced: old.Spaced, Search: old.Content, Content: joinLines(body), Mentioned: true}
		return
	}
	if file.path == "" || file.loose {
		if path, rest, ok := title(body); ok {
			file, body = name{path: path}, rest
		}
	}
	if file.path == "" && file.spaced == "" || file.loose && !fitsLanguage(file.path, language) {
		r.skip()
		return
	}
	r.add(Edit{Kind: whole, Path: file.path, Spaced: file.spaced, Content: joinLines(body), Fenced: true, Mentioned: file.loose})
	r.last = ""
}

func (r *reader) skip() {
	if r.unnamed == "" {
		r.unnamed = "a block"
		if r.prose != "" {
			r.unnamed = fmt.Sprintf("the block after %q", shorten(strings.TrimSpace(r.prose)))
		}
	}
	r.name = name{}
}

// reconcile orders and filters the edits of an answer: moves come first, a mentioned block is dropped as an
// illustration if its file has another edit, and paths in a diff of two folders are made relative to these.
func reconcile(edits []Edit) []Edit {
	isMove := func(e Edit) bool { return e.Mentioned && e.From != "" }
	isNoMove := func(e Edit) bool { return !isMove(e) }
	edits = stripFolders(dropIllustrations(edits))
	return append(slices.DeleteFunc(slices.Clone(edits), isNoMove), slices.DeleteFunc(edits, isMove)...)
}

// dropIllustrations removes mentioned blocks of files that have another edit which is not mentioned or comes
// later. A revision of such an edit is kept.
func dropIllustrations(edits []Edit) (kept []Edit) {
	firm, last, revisions := map[string]*Edit{}, map[string]int{}, map[int]bool{}
	for i := range edits {
		edit := &edits[i]
		revisions[i] = edit.isMentionedFile() && edit.isRevisionOf(firm[edit.Path])
		if !edit.Mentioned || revisions[i] {
			firm[edit.Path] = edit
		} else if edit.isMentionedFile() {
			last[edit.Path] = i
		}
	}
	for i, edit := range edits {
		isShown := edit.Mentioned && edit.Kind != diff && (firm[edit.Path] != nil || edit.Kind == whole && last[edit.Path] > i)
		if revisions[i] || !isShown {
			kept = append(kept, edit)
		}
	}
	return kept
}

func (e *Edit) isMentionedFile() bool { return e.Mentioned && e.Kind == whole }

// stripFolders makes the paths of files that a diff of two folders adds or removes relative to the folders,
// whose names are known from files that are in both.
func stripFolders(edits []Edit) []Edit {
	var folders [2]string
	for _, edit := range edits {
		if edit.Folders[0] != "" {
			folders = edit.Folders
		}
	}
	for i := range edits {
		folder := ""
		if edits[i].New {
			folder = folders[1]
		} else if edits[i].Delete {
			folder = folders[0]
		}
		if folder != "" {
			edits[i].Path = strings.TrimPrefix(edits[i].Path, folder+"/")
		}
	}
	return edits
}

// isRevisionOf reports whether a block is a revision of the whole file in an earlier one: it repeats more
// than half of its lines.
func (e *Edit) isRevisionOf(earlier *Edit) bool {
	if earlier == nil || earlier.Kind != whole || 3*len(e.Content) < len(earlier.Content) {
		return false
	}
	block := map[string]bool{}
	for _, line := range textOf(e.Content) {
		block[line] = true
	}
	all := textOf(earlier.Content)
	repeated := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return !block[line] })
	return 2*len(repeated) > len(all)
}

// isHunks reports whether a block is hunks of a diff without a header.
func isHunks(body []string) bool {
	at := slices.IndexFunc(body, func(line string) bool { return !isBlank(line) })
	return at >= 0 && isHunk(body[at])
}

// isChange reports whether a block is a diff rather than a file.
func isChange(file, language string) bool {
	extension := path.Ext(file)
	return (language == "diff" || language == "patch") && extension != ".diff" && extension != ".patch"
}

var (
	exampleLine = regexp.MustCompile(`(?i)\b(example|usage|output|prints?|run it|try it)\b`)
	sentence    = regexp.MustCompile(`^[A-Z][\w',-]*(?: [\w',-]+){2,}`)
)

// title returns the path in the first line of a block, and the content, which includes the line if it is a
// comment. A list of paths has no title.
func title(body []string) (file string, rest []string, ok bool) {
	if len(body) == 0 {
		return "", nil, false
	}
	if file, ok := commentName(body[0]); ok {
		return file, body, true
	}
	if bareName.MatchString(body[0]) && slices.ContainsFunc(body[1:], func(line string) bool { return !isBlank(line) && !bareName.MatchString(line) }) {
		return cleanPath(strings.TrimSuffix(strings.TrimSpace(body[0]), ":")), body[1:], true
	}
	return "", nil, false
}

var bareName = regexp.MustCompile(`^\s*[\w@+.\-/]*\w\.\w{1,10}:?\s*$`)

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

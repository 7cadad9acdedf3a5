package patch

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// parseAll parses every diff and search/replace block in lines.
func parseAll(lines []string, file name) []Edit {
	var edits []Edit
	for i := 0; i < len(lines); {
		if isEdit(lines, i) || isHunk(lines[i]) {
			found, next := parseEdit(lines, i, file)
			edits = append(edits, found)
			i = next
			continue
		}
		if own, ok := nameOf(lines[i]); ok && !own.loose {
			file = own
		}
		i++
	}
	return edits
}

// parseEdit parses the edit at line i, whose path is file's unless it has its own.
func parseEdit(lines []string, i int, file name) (edit Edit, next int) {
	switch {
	case isSearch(lines[i]):
		edit, next = parseSearch(lines, i)
	case envelopeFile.MatchString(lines[i]):
		edit, next = parseEnvelope(lines, i)
	default:
		edit, next = parseDiff(lines, i)
	}
	if edit.Path == "" {
		edit.Path, edit.Spaced = file.path, file.spaced
	}
	return edit, next
}

// isEdit reports whether an edit other than a whole file begins at line i.
func isEdit(lines []string, i int) bool {
	return isSearch(lines[i]) || isDiffStart(lines, i) || envelopeFile.MatchString(lines[i])
}

func hasEdit(lines []string) bool {
	for i := range lines {
		if isEdit(lines, i) {
			return true
		}
	}
	return false
}

// parseSearch parses the search/replace block at line i.
func parseSearch(lines []string, i int) (Edit, int) {
	var search, replace []string
	i++
	for ; i < len(lines) && strings.TrimRight(lines[i], " ") != middleMark; i++ {
		search = append(search, lines[i])
	}
	for i++; i < len(lines) && !isReplaceEnd(lines[i]); i++ {
		replace = append(replace, lines[i])
	}
	return Edit{Kind: Replace, Search: joinLines(search), Content: joinLines(replace)}, min(i+1, len(lines))
}

const middleMark = "======="

var (
	searchMark  = regexp.MustCompile(`^(?:<{7}|-{7}) (?:SEARCH|ORIGINAL)`)
	replaceMark = regexp.MustCompile(`^(?:>{7}|\+{7}) `)
)

func isSearch(line string) bool { return searchMark.MatchString(line) }

func isReplaceEnd(line string) bool { return replaceMark.MatchString(line) }

// blockFor returns the content of the fenced block for a file: the last one in the file's language that is
// not introduced as an example, or else the last one. An answer without a block is itself the file, unless
// it begins with a sentence.
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
		language, _, _ := strings.Cut(strings.ToLower(fenceInfo(lines[i])), " ")
		if fits := fitOf(language, names, before); fits >= best {
			best, content, found = fits, joinLines(unindent(lines[i+1:end], indent(lines[i]))), true
		}
		i, before = end, ""
	}
	if whole := strings.TrimSpace(text); best == 0 && whole != "" && !sentence.MatchString(whole) {
		return whole + "\n", true
	}
	return content, found
}

// fitOf scores how likely a block after a line of prose is the file in a language with these names.
func fitOf(language string, names []string, before string) int {
	fits := 1
	if language == "" {
		fits = 2
	} else if slices.Contains(names, language) {
		fits = 3
	}
	if fits > 1 && !exampleLine.MatchString(before) {
		fits += 2
	}
	return fits
}

// readIndented parses an indented search/replace block at line i, as in a list item. It returns i if there
// is none.
func (r *reader) readIndented(i int) (Edit, int) {
	end := i + 1
	for end < len(r.lines) && !isReplaceEnd(strings.TrimLeft(r.lines[end], " \t")) {
		end++
	}
	line := r.lines[i]
	block := unindent(r.lines[i:min(end+1, len(r.lines))], len(line)-len(strings.TrimLeft(line, " \t")))
	if !isSearch(block[0]) {
		return Edit{}, i
	}
	found, next := parseEdit(block, 0, r.fileOf())
	return found, i + next
}

package patch

import (
	"regexp"
	"strconv"
	"strings"
)

var hunkHeader = regexp.MustCompile(`^@@+(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@+)?`)

// diffHead is the header of a diff, before its hunks.
type diffHead struct {
	*Edit
	// old is the path of the first of the two files. isGit is true for git's format.
	old   string
	isGit bool
}

// headerLines are the lines of a header by their prefix, with functions that parse the rest.
var headerLines = []struct {
	start string
	read  func(h *diffHead, rest string)
}{
	{"rename from ", func(h *diffHead, rest string) { h.From = cleanPath(unquote(rest)) }},
	{"copy from ", func(h *diffHead, rest string) { h.From, h.Copy = cleanPath(unquote(rest)), true }},
	{"rename to ", func(h *diffHead, rest string) { h.Path = cleanPath(unquote(rest)) }},
	{"copy to ", func(h *diffHead, rest string) { h.Path = cleanPath(unquote(rest)) }},
	{"new file mode ", func(h *diffHead, rest string) { h.New = true; h.setMode(rest) }},
	{"new mode ", func(h *diffHead, rest string) { h.setMode(rest) }},
	{"deleted file mode", func(h *diffHead, _ string) { h.Delete = true }},
	{"GIT binary patch", (*diffHead).refuseBinary},
	{"Binary files ", (*diffHead).refuseBinary},
	{"--- ", (*diffHead).oldFile},
	{"+++ ", (*diffHead).newFile},
	{"index ", ignoreRest},
	{"similarity ", ignoreRest},
	{"dissimilarity ", ignoreRest},
	{"old mode ", ignoreRest},
}

func ignoreRest(*diffHead, string) {}

// read parses a line and reports whether it belongs to the header.
func (h *diffHead) read(line string) bool {
	for _, header := range headerLines {
		if rest, ok := strings.CutPrefix(line, header.start); ok {
			header.read(h, rest)
			return true
		}
	}
	return false
}

func (h *diffHead) refuseBinary(string) {
	if !h.Delete {
		h.Refused = "is changed by a binary patch, which is not applied: only text is"
	}
}

func (h *diffHead) oldFile(rest string) {
	if h.old = diffPath(rest); h.old == "" {
		h.New = true
	} else if h.Path == "" {
		h.Path = h.old
	}
}

func (h *diffHead) newFile(rest string) {
	if to := diffPath(rest); to == "" {
		h.Delete = true
	} else if h.Path = to; !h.isGit {
		h.Path, h.Folders = trimFolders(h.old, to)
	}
}

// isDiffStart reports whether a unified diff of a file begins at line i.
func isDiffStart(lines []string, i int) bool {
	if strings.HasPrefix(lines[i], "diff --git ") {
		return true
	}
	return strings.HasPrefix(lines[i], "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ")
}

func isHunk(line string) bool { return line == "@@" || strings.HasPrefix(line, "@@ ") }

// parseDiff parses the diff of one file at line i and returns the index of the line after it.
func parseDiff(lines []string, i int) (Edit, int) {
	edit := Edit{Kind: diff}
	head := diffHead{Edit: &edit}
	var rest string
	if rest, head.isGit = strings.CutPrefix(lines[i], "diff --git "); head.isGit {
		edit.Path = gitPath(rest)
		i++
	}
	for i < len(lines) {
		if strings.HasPrefix(lines[i], "@@") {
			var hunk hunk
			hunk, i = parseHunk(lines, i)
			edit.Hunks = append(edit.Hunks, hunk)
		} else if head.read(lines[i]) {
			i++
		} else {
			break
		}
		if i < len(lines) && len(edit.Hunks) > 0 && isDiffStart(lines, i) {
			break
		}
	}
	return edit, i
}

// gitPath returns the second path of a "diff --git" line, or "" if it cannot be determined.
func gitPath(rest string) string {
	if _, to, ok := strings.Cut(rest, ` "b/`); ok {
		return diffPath(`"b/` + to)
	}
	if _, to, ok := strings.Cut(rest, " b/"); ok {
		return cleanPath(to)
	}
	return ""
}

// diffPath returns the path of a --- or +++ line, or "" for /dev/null.
func diffPath(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	s = unquote(strings.TrimSpace(s))
	if s == "/dev/null" {
		return ""
	}
	if strings.HasPrefix(s, "a/") || strings.HasPrefix(s, "b/") {
		s = s[len("a/"):]
	}
	return cleanPath(s)
}

// trimFolders handles a diff of two folders, as written by diff -r. It returns the path of the second file
// relative to its folder, and the names of both folders.
func trimFolders(old, path string) (string, [2]string) {
	before, oldRest, _ := strings.Cut(old, "/")
	now, rest, inFolder := strings.Cut(path, "/")
	if inFolder && before != now && oldRest == rest {
		return rest, [2]string{before, now}
	}
	return path, [2]string{}
}

// unquote removes the quotes and escapes that git uses for non-ASCII paths.
func unquote(path string) string {
	if plain, err := strconv.Unquote(path); err == nil && strings.HasPrefix(path, `"`) {
		return plain
	}
	return path
}

// parseHunk parses the hunk whose header is at line i. The counts in the header are ignored: models get them
// wrong.
func parseHunk(lines []string, i int) (hunk, int) {
	var hunk hunk
	if !strings.HasPrefix(lines[i], "@@") {
		i++ // the first hunk of an envelope can lack a header
	}
	for ; i < len(lines) && strings.HasPrefix(lines[i], "@@"); i++ {
		match := hunkHeader.FindStringSubmatch(lines[i])
		if match[1] != "" {
			hunk.Line, _ = strconv.Atoi(match[1])
		}
		if anchor := strings.TrimSpace(lines[i][len(match[0]):]); anchor != "" {
			hunk.Anchors = append(hunk.Anchors, anchor)
		}
	}
	lastNew := false
	for ; i < len(lines) && !isDiffStart(lines, i) && !isSignature(lines, i); i++ {
		if lines[i] == "" {
			// Empty context lines that lost their leading space, or the end of the diff.
			next, more := afterEmpty(lines, i)
			if !more {
				break
			}
			hunk.Old, hunk.New = append(hunk.Old, lines[i:next]...), append(hunk.New, lines[i:next]...)
			i, lastNew = next-1, true
			continue
		}
		mark, text := lines[i][0], lines[i][1:]
		switch mark {
		case ' ', '-', '+':
			if mark != '+' {
				hunk.Old = append(hunk.Old, text)
			}
			if lastNew = mark != '-'; lastNew {
				hunk.New = append(hunk.New, text)
			}
		case '\\':
			hunk.NoNewline = hunk.NoNewline || lastNew
		default:
			return hunk, i
		}
	}
	return hunk, i
}

var gitVersion = regexp.MustCompile(`^\d+\.\d+[\w.() -]*$`)

// isSignature reports whether line i begins the signature that git format-patch adds.
func isSignature(lines []string, i int) bool {
	return lines[i] == "-- " && i+1 < len(lines) && gitVersion.MatchString(lines[i+1])
}

// afterEmpty returns the index of the first non-empty line from i on, and whether it belongs to the hunk.
func afterEmpty(lines []string, i int) (next int, more bool) {
	for next = i; next < len(lines) && lines[next] == ""; next++ {
	}
	return next, next < len(lines) && !isDiffStart(lines, next) && strings.ContainsRune(" +-\\", rune(lines[next][0]))
}

// setMode sets the file mode from git's octal form.
func (e *Edit) setMode(git string) {
	switch strings.TrimSpace(git) {
	case "100755":
		e.Mode = 0o755
	case "100644":
		e.Mode = 0o644
	case "120000":
		e.Refused = "would become a symbolic link, which is refused"
	case "160000":
		e.Refused = "would become a repository, which is refused"
	}
}

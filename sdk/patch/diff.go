package patch

import (
	"regexp"
	"strconv"
	"strings"
)

var hunkHeader = regexp.MustCompile(`^@@+(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@+)?`)

// otherHeader is a line of git's head of a diff that changes nothing.
var otherHeader = regexp.MustCompile(`^(?:index|similarity|dissimilarity|old mode) `)

// isDiffStart reports whether a unified diff of a file begins at line i.
func isDiffStart(lines []string, i int) bool {
	if strings.HasPrefix(lines[i], "diff --git ") {
		return true
	}
	return strings.HasPrefix(lines[i], "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ")
}

func isHunk(line string) bool { return line == "@@" || strings.HasPrefix(line, "@@ ") }

// parseDiff reads the diff of one file at line i and returns the line after it.
func parseDiff(lines []string, i int) (Edit, int) {
	edit := Edit{Kind: diff}
	old := ""
	rest, git := strings.CutPrefix(lines[i], "diff --git ")
	if git {
		if _, to, ok := strings.Cut(rest, ` "b/`); ok {
			edit.Path = diffPath(`"b/` + to)
		} else if _, to, ok := strings.Cut(rest, " b/"); ok {
			edit.Path = cleanPath(to)
		}
		i++
	}
	for ; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "rename from "):
			edit.From = cleanPath(unquote(line[len("rename from "):]))
		case strings.HasPrefix(line, "copy from "):
			edit.From, edit.Copy = cleanPath(unquote(line[len("copy from "):])), true
		case strings.HasPrefix(line, "rename to "), strings.HasPrefix(line, "copy to "):
			_, to, _ := strings.Cut(line, " to ")
			edit.Path = cleanPath(unquote(to))
		case strings.HasPrefix(line, "new file mode "):
			edit.New = true
			edit.mode(line[len("new file mode "):])
		case strings.HasPrefix(line, "new mode "):
			edit.mode(line[len("new mode "):])
		case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
			if !edit.Delete {
				edit.Refused = "is changed by a binary patch, which is not applied: only text is"
			}
		case strings.HasPrefix(line, "deleted file mode"):
			edit.Delete = true
		case strings.HasPrefix(line, "--- "):
			if old = diffPath(line[4:]); old == "" {
				edit.New = true
			} else if edit.Path == "" {
				edit.Path = old
			}
		case strings.HasPrefix(line, "+++ "):
			if to := diffPath(line[4:]); to == "" {
				edit.Delete = true
			} else if edit.Path = to; !git {
				edit.Path, edit.Folders = withoutFolders(old, to)
			}
		case otherHeader.MatchString(line):
		case strings.HasPrefix(line, "@@"):
			hunk, next := parseHunk(lines, i)
			edit.Hunks = append(edit.Hunks, hunk)
			i = next - 1
		default:
			return edit, i
		}
		if i+1 < len(lines) && len(edit.Hunks) > 0 && isDiffStart(lines, i+1) {
			return edit, i + 1
		}
	}
	return edit, i
}

// diffPath returns the path of a --- or +++ line, "" for /dev/null.
func diffPath(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	s = unquote(strings.TrimSpace(s))
	if s == "/dev/null" {
		return ""
	}
	if rest, ok := strings.CutPrefix(s, "a/"); ok {
		s = rest
	} else if rest, ok := strings.CutPrefix(s, "b/"); ok {
		s = rest
	}
	return cleanPath(s)
}

// withoutFolders returns the path of the second file of a diff of two folders, as diff -r
// writes it, within its folder, and the folders.
func withoutFolders(old, path string) (string, [2]string) {
	before, oldRest, _ := strings.Cut(old, "/")
	now, rest, inFolder := strings.Cut(path, "/")
	if inFolder && before != now && oldRest == rest {
		return rest, [2]string{before, now}
	}
	return path, [2]string{}
}

// unquote returns a path that git has put between quotes, as it does with those that are
// not all of ASCII, as it is.
func unquote(path string) string {
	if plain, err := strconv.Unquote(path); err == nil && strings.HasPrefix(path, `"`) {
		return plain
	}
	return path
}

// parseHunk reads the hunk whose header is at line i. The counts of the header
// are not believed: models get them wrong.
func parseHunk(lines []string, i int) (hunk, int) {
	var hunk hunk
	lastNew := false
	if !strings.HasPrefix(lines[i], "@@") {
		i++ // the first hunk of an envelope may have no header
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
	for ; i < len(lines); i++ {
		line := lines[i]
		if isDiffStart(lines, i) || signature(lines, i) {
			break
		}
		if line == "" {
			// An empty line of context that lost its space, or the end of the diff.
			next, more := afterEmpty(lines, i)
			if !more {
				break
			}
			for ; i < next; i++ {
				hunk.Old, hunk.New = append(hunk.Old, ""), append(hunk.New, "")
			}
			i, lastNew = next-1, true
			continue
		}
		switch line[0] {
		case ' ':
			hunk.Old, hunk.New, lastNew = append(hunk.Old, line[1:]), append(hunk.New, line[1:]), true
		case '-':
			hunk.Old, lastNew = append(hunk.Old, line[1:]), false
		case '+':
			hunk.New, lastNew = append(hunk.New, line[1:]), true
		case '\\':
			hunk.NoNewline = hunk.NoNewline || lastNew
		default:
			return hunk, i
		}
	}
	return hunk, i
}

var gitVersion = regexp.MustCompile(`^\d+\.\d+[\w.() -]*$`)

// signature reports whether line i begins the signature that git format-patch ends with.
func signature(lines []string, i int) bool {
	return lines[i] == "-- " && i+1 < len(lines) && gitVersion.MatchString(lines[i+1])
}

// afterEmpty returns the first line at or after i that is not empty, and whether
// it is one of the hunk.
func afterEmpty(lines []string, i int) (next int, more bool) {
	for next = i; next < len(lines) && lines[next] == ""; next++ {
	}
	return next, next < len(lines) && !isDiffStart(lines, next) && strings.ContainsRune(" +-\\", rune(lines[next][0]))
}

// mode takes the mode of a file as git writes it.
func (e *Edit) mode(git string) {
	switch strings.TrimSpace(git) {
	case "100755":
		e.Mode = 0o755
	case "100644":
		e.Mode = 0o644
	case "120000":
		e.Refused = "is made a symbolic link, which no edit may make"
	case "160000":
		e.Refused = "is made a repository of its own, which no edit may make"
	}
}

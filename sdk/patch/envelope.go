package patch

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// envelopeFile begins the edit of a file between "*** Begin Patch" and "*** End Patch".
var envelopeFile = regexp.MustCompile(`^\*\*\* (Add|Update|Delete) File: (.+)$`)

// parseEnvelope reads the edit of one file at line i and returns the line after it.
func parseEnvelope(lines []string, i int) (Edit, int) {
	match := envelopeFile.FindStringSubmatch(lines[i])
	edit := Edit{Kind: diff, Path: cleanPath(match[2]), Delete: match[1] == "Delete", New: match[1] == "Add"}
	i++
	for i < len(lines) && !envelopeFile.MatchString(lines[i]) {
		line := lines[i]
		if to, ok := strings.CutPrefix(line, "*** Move to: "); ok {
			edit.From, edit.Path = edit.Path, cleanPath(to)
		}
		if strings.HasPrefix(line, "*** End Patch") {
			return edit, i + 1
		}
		if line == "" || strings.HasPrefix(line, "***") {
			i++
			continue
		}
		start := i - 1 // the lines of a first hunk may have no header before them
		if strings.HasPrefix(line, "@@") {
			start = i
		}
		hunk, next := parseHunk(lines, start)
		if next == i || next == start {
			return edit, i // prose: the envelope was never closed
		}
		if len(hunk.Old)+len(hunk.New) > 0 {
			edit.Hunks = append(edit.Hunks, hunk)
		}
		i = next
	}
	return edit, i
}

// Within returns the edits with the paths that are absolute and lie in one of the
// folders made relative to it. Those that begin with the name of a folder, or with a
// slash alone, may be meant so.
func Within(edits []Edit, folders ...string) []Edit {
	for i := range edits {
		edit := &edits[i]
		for _, folder := range folders {
			folder = strings.TrimSuffix(filepath.ToSlash(folder), "/") + "/"
			edit.Path, edit.From = relativeTo(folder, edit.Path), relativeTo(folder, edit.From)
			if rest, ok := strings.CutPrefix(edit.Path, path.Base(folder)+"/"); ok {
				edit.Near = rest
			}
		}
		if path.IsAbs(edit.Path) {
			edit.Near = strings.TrimLeft(edit.Path, "/")
		}
	}
	return edits
}

// relativeTo returns an absolute path in the folder relative to it, and others unchanged.
func relativeTo(folder, name string) string {
	if rest, ok := strings.CutPrefix(name, folder); ok && path.IsAbs(name) {
		return cleanPath(rest)
	}
	return name
}

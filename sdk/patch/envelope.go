package patch

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// envelopeFile matches the first line of a file's edit between "*** Begin Patch" and "*** End Patch".
var envelopeFile = regexp.MustCompile(`^\*\*\* (Add|Update|Delete) File: (.+)$`)

// parseEnvelope parses the edit of one file at line i and returns the index of the line after it.
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
		start := i - 1 // a first hunk can lack a header
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

// Within makes absolute paths below one of the folders relative to it, in place, and returns edits. For
// paths that begin with the name of a folder, or just a slash, it sets Near.
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

// relativeTo returns an absolute path below folder relative to it, and any other path unchanged.
func relativeTo(folder, name string) string {
	if rest, ok := strings.CutPrefix(name, folder); ok && path.IsAbs(name) {
		return cleanPath(rest)
	}
	return name
}

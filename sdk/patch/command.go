package patch

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	heredoc = regexp.MustCompile(`^(?:cat|tee)\b[^|;&]*<<-?\s*['"\\]?(\w+)['"]?`)
	target  = regexp.MustCompile(`(?:^tee\s+|[^>]>\s*)['"]?([^\s<>|&;'"]+)`)
	command = regexp.MustCompile(`^(?:git )?(rm|mv)((?: -\w+)*) ([^*?$|;<>]+)$|^chmod (?:[ua]?\+x|0?755) ([^*?$|;<>]+)$`)
	// Sentences that change a file: "Delete `x`.", "Rename `x` to `y`:", "`x` (deleted)".
	deleteSentence = regexp.MustCompile("^(?i:(?:(?:and|then|finally|also|now),? )*(?:delete|remove)d?(?:[ :*]+(?:the|old|now|unused|obsolete|empty|file))*)[ :*]+[`\"]?([^`*\"\\s]+)[`\"]?(?i:[ *]+file)?[ *]*(?:\\([^)]*\\))?$|^[`\"]?([^`*\"\\s]+)[`\"]?[ *]*\\((?i:deleted|removed|delete|remove)\\)$")
	renameSentence = regexp.MustCompile("^(?i:(?:(?:and|then|finally|also|now),? )*(?:rename|move)d?(?:[ :*]+(?:the|file))*)[ :*]+[`\"]?([^`*\"\\s]+)[`\"]?(?: to | -> | → | => )[`\"]?([^`*\"\\s]+)[`\"]?$")
)

// parseCommands parses a block of shell commands: here-documents of cat and tee, and rm, mv and chmod +x of
// named files. Other commands are ignored, since a block can also explain how to run something.
func parseCommands(lines []string) (edits []Edit) {
	for i := 0; i < len(lines); i++ {
		line := strings.TrimPrefix(strings.TrimSpace(lines[i]), "$ ")
		to := target.FindStringSubmatch(line)
		if match := heredoc.FindStringSubmatch(line); match != nil && to != nil && !strings.Contains(line, ">>") {
			start := i + 1
			for i = start; i < len(lines) && strings.TrimSpace(lines[i]) != match[1]; i++ {
			}
			edits = append(edits, Edit{Kind: whole, Path: cleanPath(to[1]), Content: joinLines(lines[start:i])})
			continue
		}
		for one := range strings.SplitSeq(line, "&&") {
			edits = append(edits, parseCommand(strings.TrimSpace(one))...)
		}
	}
	return edits
}

func parseCommand(line string) (edits []Edit) {
	match := command.FindStringSubmatch(line)
	if match == nil {
		return nil
	}
	var files []string
	for file := range strings.FieldsSeq(match[3] + match[4]) {
		files = append(files, strings.Trim(file, `'"`))
	}
	if match[1] == "mv" {
		if len(files) != 2 {
			return nil
		}
		if strings.HasSuffix(files[1], "/") {
			files[1] += path.Base(files[0])
		}
		return []Edit{rename(files[0], files[1])}
	}
	mode := fs.FileMode(0)
	if match[1] == "" { // chmod
		mode = 0o755
	}
	for _, file := range files {
		edits = append(edits, Edit{Kind: diff, Path: cleanPath(file), Delete: match[1] == "rm", Mode: mode, Mentioned: true})
	}
	return edits
}

func rename(from, to string) Edit {
	return Edit{Kind: diff, From: cleanPath(from), Path: cleanPath(to), Mentioned: true}
}

// parseSentence parses a line that deletes or renames a file; to is the path for a block that follows.
func parseSentence(line string) (edits []Edit, to string) {
	if !mayName(line) {
		return nil, ""
	}
	_, core := splitDecoration(line)
	if match := renameSentence.FindStringSubmatch(core); match != nil && looksLikePath(match[1]) && looksLikePath(match[2]) {
		return []Edit{rename(match[1], match[2])}, cleanPath(match[2])
	}
	if match := deleteSentence.FindStringSubmatch(core); match != nil && looksLikePath(match[1]+match[2]) {
		return []Edit{{Kind: diff, Path: cleanPath(match[1] + match[2]), Delete: true, Mentioned: true}}, ""
	}
	return nil, ""
}

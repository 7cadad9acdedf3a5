package verify

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/sdk/jail"
)

// maxCopy bounds a file that is looked at for being a copy, in bytes.
const maxCopy = 1 << 20

// copiesOfTests removes the files that hold most of the lines that were altered, which
// would say what they were: what a build copied, source maps, patches.
func (e *expectations) copiesOfTests() []jail.Change {
	var removed []jail.Change
	lines := map[string]map[string]bool{}
	for _, source := range e.sources {
		lines[source.Path] = e.alteredLines(source)
	}
	room := maxCode
	for _, file := range e.a.tree.Files {
		if slices.Contains(e.files, file) || slices.Contains(e.data, file) || room < 0 {
			continue
		}
		data, err := e.a.tree.read(file)
		if room -= len(data); err != nil || len(data) > maxCopy || bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		if slices.ContainsFunc(e.sources, func(s alter.Source) bool { return isCopy(data, s, lines[s.Path]) }) {
			removed = append(removed, jail.Change{Path: file, Delete: true})
		}
	}
	return removed
}

// alteredLines are those of a source that are others now.
func (e *expectations) alteredLines(altered alter.Source) map[string]bool {
	const short = 12 // which any code may have
	lines := map[string]bool{}
	for line := range strings.Lines(e.source(altered.Path, e.a.changes).Text) {
		if line = strings.TrimSpace(line); len(line) >= short {
			lines[line] = true
		}
	}
	for line := range strings.Lines(altered.Text) {
		delete(lines, strings.TrimSpace(line))
	}
	return lines
}

// inText undoes what JSON does to a text.
var inText = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\\`, `\`)

// isCopy reports whether a file names a test of a source and has most of the lines.
func isCopy(data []byte, source alter.Source, lines map[string]bool) bool {
	isNamed := func(test string) bool { return bytes.Contains(data, []byte(test[strings.LastIndexByte(test, '.')+1:])) }
	if len(lines) == 0 || !slices.ContainsFunc(source.Tests, isNamed) {
		return false
	}
	found := map[string]bool{}
	for line := range strings.Lines(inText.Replace(string(data))) {
		if line = strings.Trim(line, " \t\r\n+->"); lines[line] {
			found[line] = true
		}
	}
	return 2*len(found) > len(lines)
}

package verify

import (
	"bytes"
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// namedData returns the string with which the answer's Go code newly names files from which one of the tests
// takes its expectations, or "". Running with other data would not reveal this: one case that does not read them
// fails its test.
func (e *expectations) namedData(tests []runner.Test) string {
	if len(e.leftToData(tests)) == 0 {
		return ""
	}
	code := e.a.tree.textOf(slices.DeleteFunc(slices.Clone(e.a.tree.Files), func(file string) bool {
		return !isCode(file) || strings.HasSuffix(file, "_test.go") || slices.Contains(e.files, file)
	}))
	for _, change := range e.a.changes {
		for _, text := range textsInGo(change) {
			isData := func(file string) bool { return namesFile(text, file, path.Dir(change.Path)) }
			if !bytes.Contains(code, []byte(text)) && slices.ContainsFunc(e.data, isData) {
				return text
			}
		}
	}
	return ""
}

// textsInGo returns the string literals in changed Go code, and its go:embed patterns.
func textsInGo(change jail.Change) (texts []string) {
	if path.Ext(change.Path) != ".go" {
		return nil
	}
	var code scanner.Scanner
	code.Init(token.NewFileSet().AddFile("", -1, len(change.Data)), change.Data, nil, scanner.ScanComments)
	for _, kind, word := code.Scan(); kind != token.EOF; _, kind, word = code.Scan() {
		if text, err := strconv.Unquote(word); err == nil && kind == token.STRING {
			texts = append(texts, text)
		} else if patterns, ok := strings.CutPrefix(word, "//go:embed "); ok {
			texts = append(texts, strings.Fields(strings.NewReplacer(`"`, "", "`", "").Replace(patterns))...)
		}
	}
	return texts
}

// namesFile reports whether a string in the code of a folder can lead to a data file: as a path or pattern, through
// a testdata folder, or by an extension that only files with expectations have.
func namesFile(text, file, folder string) bool {
	parts, way := strings.Split(path.Clean(text), "/"), strings.Split(file, "/")
	const ofTests = "testdata"
	if slices.Contains(parts, ofTests) && slices.Contains(way, ofTests) {
		return true
	}
	if ending := path.Ext(file); ending != "" && strings.HasSuffix(text, ending) && allTests.has("any"+ending) {
		return true
	}
	if !strings.ContainsFunc(text, unicode.IsLetter) || len(parts) > len(way) || len(parts) == 1 && path.Dir(file) != folder {
		return false
	}
	matches, err := path.Match(path.Clean(text), path.Join(way[len(way)-len(parts):]...))
	return matches && err == nil
}

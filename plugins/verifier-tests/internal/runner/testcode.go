package runner

import (
	"bytes"
	"go/version"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Decides reports whether a file of the tree may not be changed so, because of what is
// in it: tests in Rust that lie in the file that they test, and where the code of a Go module
// comes from.
func Decides(file string, before, after []byte) bool {
	switch {
	case path.Base(file) == "go.mod":
		return !sameSources(before, after)
	case path.Ext(file) == ".rs":
		return rustTest.Match(rustTests.ReplaceAll(before, nil))
	}
	return false
}

// sameSources reports whether two go.mod files take all code from the same places. Requirements
// may differ: they come from the module cache, which an answer cannot change. The language may
// only become newer: before go1.22 all rounds of a loop shared a variable, so that parallel
// subtests might all try the last case.
func sameSources(before, after []byte) bool {
	old, err := modfile.Parse("go.mod", before, nil)
	if err != nil {
		return true // nothing runs there
	}
	now, err := modfile.Parse("go.mod", after, nil)
	if err != nil {
		return false
	}
	return version.Compare(language(now), language(old)) >= 0 && slices.Equal(sourceDirectives(old), sourceDirectives(now))
}

func language(f *modfile.File) string {
	if f.Go == nil {
		return "go1.16"
	}
	return "go" + f.Go.Version
}

// sourceDirectives returns the directives that say where code comes from.
func sourceDirectives(f *modfile.File) []string {
	var all []string
	for _, statement := range f.Syntax.Stmt {
		lines, block := []*modfile.Line{}, []string(nil)
		switch s := statement.(type) {
		case *modfile.Line:
			lines = append(lines, s)
		case *modfile.LineBlock:
			lines, block = s.Line, s.Token
		}
		for _, line := range lines {
			words := slices.Concat(block, line.Token)
			if !slices.Contains([]string{"require", "go", "retract", "tool"}, words[0]) {
				all = append(all, strings.Join(words, " "))
			}
		}
	}
	slices.Sort(all)
	return all
}

// Rust's tests lie in the files that they test: an answer that writes such a file anew
// would write its judge. The tests of the clean tree take their place.
var (
	rustTest = regexp.MustCompile(`(?m)^[^"/\n]*#!?\s*\[\s*(?:cfg\s*\((?:\s*all\s*\()?\s*test\b|(?:\w+\s*::\s*)*(?:test|\w+_test|test_\w+|rstest|quickcheck|proptest|parameterized|bench)\b)`)
	// rustTests are items for tests only at the outermost level, as rustfmt puts them: from
	// the attribute at the beginning of a line to the brace at the beginning of another.
	rustTests = regexp.MustCompile(`(?ms)^(?:(?:///|#\[)[^\n]*\n)*?#\[(?:cfg\((?:all\()?test\b|(?:\w+::)*(?:test|\w+_test|rstest|bench)\b)[^\n]*\]\n(?:(?:///|#\[)[^\n]*\n)*(?:[^\n]*[;}]$|[^\n]*\n.*?^[})\]][^\n]*$)\n?`)
)

// RestoreTests returns what an answer makes of a file of the tree, with the tests of
// before in the place of those of after.
func RestoreTests(file string, before, after []byte) []byte {
	if path.Ext(file) != ".rs" {
		return after
	}
	tests := rustTests.FindAll(before, -1)
	if len(tests) == 0 || slices.EqualFunc(tests, rustTests.FindAll(after, -1), bytes.Equal) {
		return after
	}
	out := rustTests.ReplaceAll(after, nil)
	out = append(out, "\nconst _: () = ();\n"...) // what the answer ends with is not about the first of them
	return append(out, bytes.Join(tests, []byte("\n"))...)
}

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

// Decides reports whether an answer must not change a file of the tree in this way, because of its content:
// Rust tests in the file that they test, or the sources of a Go module's code.
func Decides(file string, before, after []byte) bool {
	switch {
	case path.Base(file) == "go.mod":
		return !sameSources(before, after)
	case path.Ext(file) == ".rs":
		return rustTest.Match(rustTests.ReplaceAll(before, nil))
	}
	return false
}

// sameSources reports whether two go.mod files take all code from the same places. Requirements may differ: they
// come from the module cache, which an answer cannot change. The language version must not decrease: before
// go1.22 the iterations of a loop shared one variable, so parallel subtests could all test the last case.
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

// sourceDirectives returns the directives that determine where code comes from.
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

// Rust tests can be in the file that they test: an answer that rewrites such a file would rewrite its judge. The
// tests of the clean tree replace them.
var (
	rustTest = regexp.MustCompile(`(?m)^[^"/\n]*#!?\s*\[\s*(?:cfg\s*\((?:\s*all\s*\()?\s*test\b|(?:\w+\s*::\s*)*(?:test|\w+_test|test_\w+|rstest|quickcheck|proptest|parameterized|bench)\b)`)
	// rustTests matches items for tests only, at the outermost level and formatted by rustfmt: from the
	// attribute at the beginning of a line to the brace at the beginning of another.
	rustTests = regexp.MustCompile(`(?ms)^(?:(?:///|#\[)[^\n]*\n)*?#\[(?:cfg\((?:all\()?test\b|(?:\w+::)*(?:test|\w+_test|rstest|bench)\b)[^\n]*\]\n(?:(?:///|#\[)[^\n]*\n)*(?:[^\n]*[;}]$|[^\n]*\n.*?^[})\]][^\n]*$)\n?`)
)

// RestoreTests returns an answer's version of a file with the tests of before instead of its own.
func RestoreTests(file string, before, after []byte) []byte {
	if path.Ext(file) != ".rs" {
		return after
	}
	tests := rustTests.FindAll(before, -1)
	if len(tests) == 0 || slices.EqualFunc(tests, rustTests.FindAll(after, -1), bytes.Equal) {
		return after
	}
	out := rustTests.ReplaceAll(after, nil)
	out = append(out, "\nconst _: () = ();\n"...) // so that an attribute at the answer's end does not apply to the first test
	return append(out, bytes.Join(tests, []byte("\n"))...)
}

package runner

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Pruner is a [Driver] whose tests are compiled or loaded together: one that uses a name which the tree lacks, or that
// panics, keeps the others from running.
type Pruner interface {
	// Prune returns the test files in which a report has such errors, so changed that the others can run: in Go,
	// without the declarations that contain one. What uses these does not compile either, and is removed by a further
	// call with the next report. files are those of the tree.
	Prune(report *Report, files []string, read func(file string) ([]byte, error)) []jail.Change
}

// inTestFile matches lines of the compiler, with the name that is undefined, and frames of a panic, that name a line of a
// test file.
var inTestFile = regexp.MustCompile(`(?m)^(\S+_test\.go):(\d+):(?:\d+: undefined: ([\w.]+)$)?|^\s+(\S+_test\.go):(\d+) \+0x`)

// Prune implements [Pruner]. A test that ended the process, in which it was running, is removed as well.
func (*goTest) Prune(report *Report, files []string, read func(file string) ([]byte, error)) (pruned []jail.Change) {
	said := []string{report.Broken}
	lines, sources := map[string][]int{}, map[string][]byte{}
	for _, test := range report.Tests {
		if test.Status == Fail {
			said = append(said, test.Output)
		}
	}
	for _, found := range inTestFile.FindAllStringSubmatch(strings.Join(said, "\n"), -1) {
		file, source := inTree(found[1]+found[4], read)
		if line, err := strconv.Atoi(found[2] + found[5]); err == nil && file != "" {
			lines[file], sources[file] = append(lines[file], line), source
		}
		if found[3] != "" { // the compiler stops after ten errors
			lines[file] = append(lines[file], linesWith(source, regexp.MustCompile(`(?:^|[^\w.])`+regexp.QuoteMeta(found[3])+`\b`))...)
		}
	}
	if len(lines) == 0 { // a panic names its test, although others were running too
		for _, test := range report.Tests {
			if file, line := declaration(test, files, read); test.Status == Missing && file != "" {
				lines[file] = append(lines[file], line)
				sources[file], _ = read(file)
			}
		}
	}
	for file, wrong := range lines {
		source := sources[file]
		if text := withoutDeclarations(source, wrong); len(text) < len(source) {
			pruned = append(pruned, jail.Change{Path: file, Data: text})
		}
	}
	slices.SortFunc(pruned, func(a, b jail.Change) int { return cmp.Compare(a.Path, b.Path) })
	return pruned
}

// linesWith returns the numbers of the lines that match.
func linesWith(source []byte, pattern *regexp.Regexp) (numbers []int) {
	for i, line := range bytes.Split(source, []byte("\n")) {
		if pattern.Match(line) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// declaration returns the test file of the package that declares a test, and the line; "" if there is none.
func declaration(test Test, files []string, read func(file string) ([]byte, error)) (file string, line int) {
	name, _, _ := strings.Cut(test.Name, "/")
	declares := regexp.MustCompile(`^func ` + regexp.QuoteMeta(name) + `\(`)
	folder := "" // the longest, since the module's folder ends every package
	for _, one := range files {
		dir := strings.TrimSuffix(one, path.Base(one))
		if !strings.HasSuffix(one, "_test.go") || !strings.HasSuffix("/"+test.Group+"/", "/"+dir) || file != "" && len(dir) <= len(folder) {
			continue
		}
		source, _ := read(one) // without its content it declares nothing
		if at := linesWith(source, declares); len(at) > 0 {
			file, line, folder = one, at[0], dir
		}
	}
	return file, line
}

// inTree returns the path in the tree of a file that a message names by a path from elsewhere or by its module, and its
// content; "" if the tree has none.
func inTree(name string, read func(file string) ([]byte, error)) (file string, source []byte) {
	for file, isMore := strings.TrimPrefix(path.Clean(name), "/"), true; isMore; _, file, isMore = strings.Cut(file, "/") {
		if source, err := read(file); err == nil {
			return file, source
		}
	}
	return "", nil
}

// withoutDeclarations removes the outermost declarations and imports that contain one of the lines.
func withoutDeclarations(source []byte, lines []int) []byte {
	tokens := token.NewFileSet()
	file, err := parser.ParseFile(tokens, "", source, parser.SkipObjectResolution)
	if err != nil {
		return source
	}
	var removed []ast.Node
	for _, declaration := range file.Decls {
		parts := []ast.Node{declaration}
		if group, ok := declaration.(*ast.GenDecl); ok && group.Lparen.IsValid() {
			parts = nil
			for _, spec := range group.Specs {
				parts = append(parts, spec)
			}
		}
		removed = append(removed, slices.DeleteFunc(parts, func(n ast.Node) bool {
			return !slices.ContainsFunc(lines, func(line int) bool {
				return tokens.Position(n.Pos()).Line <= line && line <= tokens.Position(n.End()).Line
			})
		})...)
	}
	for _, n := range slices.Backward(removed) {
		source = slices.Concat(source[:tokens.Position(n.Pos()).Offset], source[tokens.Position(n.End()).Offset:])
	}
	return source
}

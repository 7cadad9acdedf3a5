package runner

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"

	"github.com/stepfall/stepfall/sdk/jail"
)

// Pruner is a [Driver] whose tests are compiled together: one that uses a name which the tree lacks keeps the others
// from running.
type Pruner interface {
	// Prune returns the test files in which a report has compiler errors, without the declarations that contain
	// one. What uses these does not compile either, and is removed by a further call with the next report.
	Prune(report *Report, read func(file string) ([]byte, error)) []jail.Change
}

var inTestFile = regexp.MustCompile(`(?m)^(\S+_test\.go):(\d+):`)

// Prune implements [Pruner].
func (*goTest) Prune(report *Report, read func(file string) ([]byte, error)) (pruned []jail.Change) {
	lines := map[string][]int{}
	for _, found := range inTestFile.FindAllStringSubmatch(report.Broken, -1) {
		if line, err := strconv.Atoi(found[2]); err == nil {
			lines[path.Clean(found[1])] = append(lines[path.Clean(found[1])], line)
		}
	}
	for file, wrong := range lines {
		source, err := read(file)
		if err != nil {
			continue // the command's messages name files from elsewhere
		}
		if text := withoutDeclarations(source, wrong); len(text) < len(source) {
			pruned = append(pruned, jail.Change{Path: file, Data: text})
		}
	}
	slices.SortFunc(pruned, func(a, b jail.Change) int { return cmp.Compare(a.Path, b.Path) })
	return pruned
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

package runner

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// NeedsTests returns what is wrong with the changed code in Go without its tests, and the symbols
// of tests that it links to: in a test run, where both are one program, it sees what its tests
// expect. What the unchanged tree needs of its tests is left out.
func NeedsTests(tree *Tree, changes []jail.Change) (errors, links []string) {
	changed := map[string]jail.Change{}
	for _, change := range changes {
		changed[change.Path] = change
	}
	fset := token.NewFileSet()
	before, after := goSources{tree: tree, fset: fset}, goSources{tree, fset, changed}
	folders := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(changed)) {
		if isGo := path.Ext(file) == ".go"; isGo || path.Ext(file) == ".s" {
			folders[path.Dir(file)] = folders[path.Dir(file)] || isGo
			links = append(links, without(after.testLinks(file), before.testLinks(file))...)
		}
	}
	for folder, isGo := range folders {
		if isGo {
			errors = append(errors, without(after.errorsAlone(folder), before.errorsAlone(folder))...)
		}
	}
	slices.Sort(errors)
	return errors, links
}

func without(names, others []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(others, name) })
}

// goSources are the sources of a tree with changes.
type goSources struct {
	tree    *Tree
	fset    *token.FileSet
	changed map[string]jail.Change
}

func (s goSources) read(file string) ([]byte, error) {
	change, isChanged := s.changed[file]
	if !isChanged {
		return s.tree.read(file)
	}
	if change.Delete {
		return nil, fs.ErrNotExist
	}
	return change.Data, nil
}

// goFolder is what go builds of a folder: code, the tests in the package of the code, and those
// in a package beside it.
type goFolder struct{ code, tests, outside []*ast.File }

// folder reads what is built of a folder. Files that cannot be parsed are left out.
func (s goSources) folder(dir string) (g goFolder) {
	context := build.Default
	context.OpenFile = func(name string) (io.ReadCloser, error) {
		data, err := s.read(path.Join(dir, filepath.Base(name)))
		return io.NopCloser(bytes.NewReader(data)), err
	}
	files := map[string]bool{}
	for _, file := range slices.AppendSeq(slices.Clone(s.tree.Files), maps.Keys(s.changed)) {
		files[file] = path.Dir(file) == dir && path.Ext(file) == ".go"
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if built, err := context.MatchFile(dir, path.Base(file)); !files[file] || !built || err != nil {
			continue
		}
		data, _ := s.read(file)
		parsed, err := parser.ParseFile(s.fset, file, data, parser.SkipObjectResolution)
		switch isTest := strings.HasSuffix(file, "_test.go"); {
		case err != nil:
		case !isTest:
			g.code = append(g.code, parsed)
		case strings.HasSuffix(parsed.Name.Name, "_test"):
			g.outside = append(g.outside, parsed)
		default:
			g.tests = append(g.tests, parsed)
		}
	}
	return g
}

// errorsAlone returns the errors of types that the code of a folder has without its tests and
// has not with them.
func (s goSources) errorsAlone(dir string) []string {
	g := s.folder(dir)
	if len(g.tests) == 0 {
		return nil
	}
	return without(s.typeErrors(g.code), s.typeErrors(slices.Concat(g.code, g.tests)))
}

// typeErrors checks the types of a package, of which nothing that it imports is known.
func (s goSources) typeErrors(files []*ast.File) (messages []string) {
	config := types.Config{FakeImportC: true, Error: func(err error) {
		if e := (types.Error{}); errors.As(err, &e) && !e.Soft {
			messages = append(messages, e.Msg)
		}
	}}
	_, _ = config.Check("p", s.fset, files, nil)
	return messages
}

var (
	linkname = regexp.MustCompile(`(?m)^//go:linkname\s+\S+\s+(\S+)`)
	// A symbol in assembly, in which the dots and slashes of a path are other letters.
	symbol  = regexp.MustCompile(`([^\s,$(]*\.\w+)(?:<>)?[+\-\d]*\(SB\)`)
	letters = strings.NewReplacer("·", ".", "∕", "/")
)

// testLinks returns the symbols that a file of code links to and that tests alone declare, and
// those of the program that go writes for a test.
func (s goSources) testLinks(file string) (links []string) {
	data, err := s.read(file)
	if err != nil || strings.HasSuffix(file, "_test.go") {
		return nil
	}
	text, form := string(data), linkname
	if path.Ext(file) == ".s" {
		text, form = letters.Replace(text), symbol
	}
	for _, match := range form.FindAllStringSubmatch(text, -1) {
		if s.isOfTests(file, match[1]) {
			links = append(links, match[1])
		}
	}
	return links
}

// isOfTests reports whether tests alone declare the symbol that a file names.
func (s goSources) isOfTests(file, symbol string) bool {
	above := strings.LastIndexByte(symbol, '/') + 1
	last, name, _ := strings.Cut(symbol[above:], ".")
	name = strings.Trim(name, "(*)")
	name, _, _ = strings.Cut(name, ".")
	name = strings.TrimSuffix(name, ")")
	target := strings.ReplaceAll(symbol[:above]+last, "%2e", ".")
	if target == "main" {
		return true
	}
	modules := modules(s.tree)
	for _, test := range s.tree.Files {
		dir := path.Dir(test)
		isTarget := target == "" && dir == path.Dir(file) || target != "" && strings.TrimSuffix(target, "_test") == importPath(modules, dir)
		if !isTarget || !strings.HasSuffix(test, "_test.go") {
			continue
		}
		g := s.folder(dir)
		if strings.HasSuffix(target, "_test") {
			return s.declares(g.outside, name)
		}
		return s.declares(g.tests, name) && !s.declares(g.code, name)
	}
	return false
}

// declares reports whether a name is one of a package's own.
func (s goSources) declares(files []*ast.File, name string) bool {
	var config types.Config
	config.Error, config.IgnoreFuncBodies, config.FakeImportC = func(error) {}, true, true
	p, _ := config.Check("p", s.fset, files, nil)
	return p.Scope().Lookup(name) != nil
}

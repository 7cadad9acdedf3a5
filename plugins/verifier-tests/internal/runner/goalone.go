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

// NeedsTests returns what is wrong with the changed code in Go without its tests, and what it
// uses that binds it to them: in a test run, where both are one program, it sees what its tests
// expect. That are symbols of tests, and what the code sets of the standard library by which
// they reckon. What the unchanged tree needs of its tests is left out.
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
			links = append(links, without(after.settings(file), before.settings(file))...)
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

// setters are functions that change what the standard library answers to others, or ask whether
// it is tests that run.
var setters = regexp.MustCompile(`^(mime\.AddExtensionType|testing\.Testing)$|^flag\.Lookup\("test\.`)

// testBinary matches a text that the name of a program of tests, or one of its options, has.
var testBinary = regexp.MustCompile("^[\"`](\\.test(\\.exe)?|-{1,2}test\\..*)[\"`]$")

// settings are what a file of code sets of the standard library.
func (s goSources) settings(file string) (found []string) {
	data, err := s.read(file)
	if err != nil || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, data, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	isStandard := map[string]bool{}
	for _, imported := range parsed.Imports {
		name := strings.Trim(imported.Path.Value, `"`)
		first, _, _ := strings.Cut(name, "/")
		isStandard[path.Base(name)] = imported.Name == nil && !strings.Contains(first, ".")
	}
	for name := range isStandard { // one that a variable hides is none
		isStandard[name] = isStandard[name] && !hides(parsed, name)
	}
	text := func(node ast.Node) string { return string(data[node.Pos()-1 : node.End()-1]) }
	asksName := bytes.Contains(data, []byte("os.Args")) || bytes.Contains(data, []byte("os.Executable("))
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BasicLit:
			if asksName && testBinary.MatchString(n.Value) {
				found = append(found, n.Value)
			}
		case *ast.CallExpr:
			if setters.MatchString(text(n.Fun)) || setters.MatchString(text(n)) {
				found = append(found, text(n.Fun))
			}
		case *ast.AssignStmt:
			for _, target := range n.Lhs {
				selected, ok := target.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if owner, ok := selected.X.(*ast.Ident); ok && isStandard[owner.Name] && n.Tok == token.ASSIGN && owner.Name != "flag" && owner.Name != "os" {
					found = append(found, text(selected))
				}
			}
		}
		return true
	})
	return found
}

// hides reports whether a file has a variable of the name.
func hides(file *ast.File, name string) (found bool) {
	ast.Inspect(file, func(node ast.Node) bool {
		var names []ast.Expr
		switch n := node.(type) {
		case *ast.AssignStmt:
			names = n.Lhs
		case *ast.RangeStmt:
			names = []ast.Expr{n.Key, n.Value}
		case *ast.Field:
			found = found || slices.ContainsFunc(n.Names, func(i *ast.Ident) bool { return i.Name == name })
		case *ast.ValueSpec:
			found = found || slices.ContainsFunc(n.Names, func(i *ast.Ident) bool { return i.Name == name })
		}
		return !found && !slices.ContainsFunc(names, func(e ast.Expr) bool {
			i, ok := e.(*ast.Ident)
			found = found || ok && i.Name == name
			return found
		})
	})
	return found
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

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every package says what it is for, and every exported function, method, type,
// constant and variable has a comment, methods of interfaces too. Fields of structs
// are documented where their name and type leave something open.
func TestExportedNamesHaveComments(t *testing.T) {
	names := 0
	for dir, files := range goPackages(t) {
		documented := false
		for _, f := range files {
			documented = documented || f.file.Doc != nil
			names += countExported(f.file)
			for _, at := range uncommented(f.file) {
				t.Errorf("%s: %s has no comment", f.fset.Position(at.Pos()), at.Name)
			}
		}
		if !documented {
			t.Errorf("%s: the package has no comment", dir)
		}
	}
	if names < 500 {
		t.Errorf("found only %d exported names", names)
	}
}

func TestUncommentedNamesAreFound(t *testing.T) {
	const source = `package p

func F() {}

type T struct{ Field int }

func (T) Method() {}

func (t) Method() {} // the receiver is not exported

type t struct{ Field int }

// I is explained, and Told with it.
type I interface {
	Call()
	Told()
}

// Single has a comment, which is that of its method.
type Single interface{ Do() }

const (
	A = 1
	B = 2 // B has one.
)

// The group has one.
var (
	C = 1
)
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range uncommented(file) {
		got = append(got, name.Name)
	}
	if want := "F T Method Call A"; strings.Join(got, " ") != want {
		t.Errorf("found %v, want %s", got, want)
	}
}

type goFile struct {
	fset *token.FileSet
	file *ast.File
}

// goPackages returns the packages that others may import or run, by folder,
// without tests, internal packages and what tests use.
func goPackages(t *testing.T) map[string][]goFile {
	t.Helper()
	found := map[string][]goFile{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "internal" || name == "bin" || (strings.HasPrefix(name, ".") && path != root) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		found[filepath.Dir(path)] = append(found[filepath.Dir(path)], goFile{fset, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func countExported(file *ast.File) int {
	count := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() && id.Obj != nil && id.Obj.Pos() == id.Pos() {
			count++
		}
		return true
	})
	return count
}

// uncommented returns the exported names that a file declares without a comment.
func uncommented(file *ast.File) []*ast.Ident {
	var found []*ast.Ident
	need := func(commented bool, names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() && !commented {
				found = append(found, name)
			}
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil || receiver(decl.Recv.List[0].Type).IsExported() {
				need(decl.Doc != nil, decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					need(decl.Doc != nil || spec.Doc != nil || spec.Comment != nil, spec.Names...)
				case *ast.TypeSpec:
					need(decl.Doc != nil || spec.Doc != nil, spec.Name)
					if methods, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
						about := spec.Doc.Text() + decl.Doc.Text() // may explain all methods
						alone := about != "" && len(methods.Methods.List) == 1
						for _, method := range methods.Methods.List {
							need(alone || method.Doc != nil || method.Comment != nil || mentions(about, method.Names), method.Names...)
						}
					}
				}
			}
		}
	}
	return found
}

// mentions reports whether the comment of an interface speaks of a method.
func mentions(about string, names []*ast.Ident) bool {
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name.Name + `\b`).MatchString(about) {
			return false
		}
	}
	return true
}

func receiver(expr ast.Expr) *ast.Ident {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	case *ast.Ident:
		return expr
	}
	return ast.NewIdent("_")
}

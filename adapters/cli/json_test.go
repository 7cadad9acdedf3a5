package cli

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestTableCommandsHaveJSON walks the tree of commands: each whose code can reach newTable
// or newListing has --json, so that a program need not read a table.
func TestTableCommandsHaveJSON(t *testing.T) {
	printing := tableCommands(t)
	if len(printing) < 18 {
		t.Fatalf("only %d commands are found to print tables: the search is broken: %v", len(printing), printing)
	}
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if printing[cmd.Short] {
			seen++
			if cmd.Flag("json") == nil {
				t.Errorf("%s prints a table and has no --json", cmd.CommandPath())
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(Streams{}))
	if seen != len(printing) {
		t.Errorf("%d commands print tables, and %d of them are in the tree: %v", len(printing), seen, printing)
	}
}

// tableCommands returns the short descriptions of the commands whose RunE leads to newTable
// or newListing.
func tableCommands(t *testing.T) map[string]bool {
	t.Helper()
	set := token.NewFileSet()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	// What is imported is not looked at: only what of this package is called matters.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Error: func(error) {}, FakeImportC: true, Importer: nothing{}}
	_, _ = config.Check("cli", set, files, info) // it reports the imports

	calls := map[types.Object][]types.Object{}
	used := func(n ast.Node) (list []types.Object) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if f, ok := info.Uses[id].(*types.Func); ok {
					list = append(list, f)
				}
			}
			return true
		})
		return list
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				calls[info.Defs[f.Name]] = used(f.Body)
			}
		}
	}
	reaches := func(from []types.Object) bool {
		known := map[types.Object]bool{}
		for len(from) > 0 {
			f := from[len(from)-1]
			from = from[:len(from)-1]
			if f.Name() == "newTable" || f.Name() == "newListing" {
				return true
			}
			if !known[f] {
				known[f] = true
				from = append(from, calls[f]...)
			}
		}
		return false
	}
	out := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if sel, ok := lit.Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Command" {
				return true
			}
			var short string
			var run ast.Expr
			for _, e := range lit.Elts {
				switch kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name {
				case "Short":
					short = constant.StringVal(info.Types[kv.Value].Value)
				case "RunE":
					run = kv.Value
				}
			}
			if run != nil && reaches(used(run)) {
				out[short] = true
			}
			return true
		})
	}
	return out
}

// nothing imports empty packages.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

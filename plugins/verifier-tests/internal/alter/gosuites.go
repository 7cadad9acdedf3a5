package alter

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// suitesIn returns the tests in a folder that run suites of testify, by the types that have the methods of these.
func (r *Request) suitesIn(folder string) map[string][]string {
	if found, ok := r.suites[folder]; ok {
		return found
	}
	embedded, tests, all := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, source := range r.Files {
		if path.Dir(source.Path) != folder {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source.Path, source.Text, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for node := range ast.Preorder(file) {
			switch n := node.(type) {
			case *ast.TypeSpec:
				embedded[n.Name.Name] = embeddedNames(n.Type)
			case *ast.FuncDecl:
				for _, name := range suiteNames(n) {
					tests[name] = append(tests[name], n.Name.Name)
				}
			}
		}
	}
	for name, own := range tests {
		types := []string{name}
		for i := 0; i < len(types); i++ {
			types = append(types, slices.DeleteFunc(slices.Clone(embedded[types[i]]), func(t string) bool { return slices.Contains(types, t) })...)
		}
		for _, one := range types {
			all[one] = append(all[one], own...)
		}
	}
	if r.suites == nil {
		r.suites = map[string]map[string][]string{}
	}
	r.suites[folder] = all
	return all
}

// embeddedNames returns the names of the types that a struct embeds.
func embeddedNames(e ast.Expr) (names []string) {
	if s, ok := e.(*ast.StructType); ok {
		for _, field := range s.Fields.List {
			if len(field.Names) == 0 {
				names = append(names, typeName(field.Type))
			}
		}
	}
	return names
}

func typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.SelectorExpr:
		return typeName(t.X) + "." + t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// suiteNames returns the names in a test that calls suite.Run, the types of suites among them.
func suiteNames(f *ast.FuncDecl) (names []string) {
	if f.Recv != nil || f.Body == nil || !isTest(f) {
		return nil
	}
	isRun := false
	for node := range ast.Preorder(f.Body) {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			isRun = isRun || typeName(n) == "suite.Run"
		case *ast.Ident:
			names = append(names, n.Name)
		}
	}
	if !isRun {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isSuiteTest reports whether a method can be a test of a suite.
func isSuiteTest(f *ast.FuncDecl) bool {
	return f.Recv != nil && strings.HasPrefix(f.Name.Name, "Test") && f.Type.Params.NumFields() == 0 && len(f.Recv.List[0].Names) == 1
}

// testNames returns the names of the tests that a function or a method of a suite is, by which reports name them.
func (g *goTest) testNames(f *ast.FuncDecl) []string {
	if f.Recv == nil {
		return []string{f.Name.Name}
	}
	var names []string
	for _, test := range g.suites[typeName(f.Recv.List[0].Type)] {
		names = append(names, test+"/"+f.Name.Name)
	}
	return names
}

// findAsserters finds the names of what asserts without being given the testing.T: suites, and assert.New(t).
func (g *goTest) findAsserters() {
	g.asserters = map[string]bool{}
	for node := range ast.Preorder(g.file) {
		if method, ok := node.(*ast.FuncDecl); ok && method.Recv != nil && len(method.Recv.List[0].Names) == 1 && len(g.suites[typeName(method.Recv.List[0].Type)]) > 0 {
			g.asserters[method.Recv.List[0].Names[0].Name] = true
		}
		for _, b := range bindings(node) {
			call, ok := b.value.(*ast.CallExpr)
			if name, isName := b.name.(*ast.Ident); ok && isName && (g.isAsserter(call) || slices.Contains([]string{"assert.New", "require.New"}, typeName(call.Fun))) {
				g.asserters[name.Name] = true
			}
			if name, isName := b.name.(*ast.Ident); ok && isName && g.isTester(call) {
				g.testers[name.Name] = true
			}
		}
	}
}

// isAsserter reports whether the methods of an expression are assertions: it has such a name, or is s.Require() of one.
func (g *goTest) isAsserter(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return g.asserters[x.Name]
	case *ast.CallExpr:
		method, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (method.Sel.Name == "Require" || method.Sel.Name == "Assert") && len(x.Args) == 0 && g.isAsserter(method.X)
	}
	return false
}

// assertionSides returns the arguments of an assertion after the testing.T, if it is given one; nil if it has none.
func (g *goTest) assertionSides(call *ast.CallExpr) []ast.Expr {
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	switch {
	case len(call.Args) > 0 && g.isTester(call.Args[0]):
		return call.Args[1:]
	case isMethod && g.isAsserter(method.X):
		return call.Args
	}
	return nil
}

package alter

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// uses counts the uses of a name in the test, except in assignments to it and in reports.
func (g *goTest) uses(name string) int {
	count := 0
	ast.Inspect(g.scope.Body, func(node ast.Node) bool {
		for _, b := range bindings(node) {
			if g.text(b.name) == name {
				count--
			}
		}
		switch n := node.(type) {
		case *ast.CallExpr:
			return !g.isReport(n)
		case *ast.Ident:
			if n.Name == name {
				count++
			}
		}
		return true
	})
	return count
}

// isInput reports whether the code under test can see a field: the test does more than compare and report it,
// or passes its row on. A field named like an expected value may be converted first, and its row passed on.
func (g *goTest) isInput(field *ast.SelectorExpr) bool {
	isExpected := expectedName.MatchString(field.Sel.Name)
	row := g.text(field.X)
	scope, _ := g.root.FindNode(g.scope.Body)
	for use := range scope.Preorder((*ast.SelectorExpr)(nil), (*ast.Ident)(nil)) {
		switch text := g.text(use.Node()); {
		case text == row && !isExpected && g.isArgument(use), text == g.text(field) && !g.isOnlyCompared(use, isExpected):
			return true
		}
	}
	return false
}

// isInputList reports whether the test does more with a list than range over and compare it: it may insert the
// elements somewhere and expect to read them back.
func (g *goTest) isInputList(list ast.Expr, loop ast.Node) bool {
	name, ok := list.(*ast.Ident)
	scope, isTest := g.root.FindNode(g.scope.Body)
	if !ok || !isTest {
		return false
	}
	for use := range scope.Preorder((*ast.Ident)(nil)) {
		if use.Node().(*ast.Ident).Name != name.Name || use.Parent().Node() == loop || g.isOnlyCompared(use, false) {
			continue
		}
		isNamed := slices.ContainsFunc(bindings(use.Parent().Node()), func(b binding) bool { return b.name == use.Node() })
		call, isCall := use.Parent().Node().(*ast.CallExpr)
		isOwn := isCall && slices.ContainsFunc(call.Args, func(a ast.Expr) bool { return g.text(a) == g.tester })
		if !isNamed && !isOwn {
			return true
		}
	}
	return false
}

// isArgument reports whether a use is an argument of a call that does not compare it.
func (g *goTest) isArgument(use inspector.Cursor) bool {
	call, ok := use.Parent().Node().(*ast.CallExpr)
	return ok && call.Fun != use.Node() && !g.isOnlyCompared(use, false)
}

// isOnlyCompared reports whether a use of a value compares it or puts it into a message. An expected value may
// be converted by the standard library or its own method.
func (g *goTest) isOnlyCompared(use inspector.Cursor, isExpected bool) bool {
	for at := use; ; at = at.Parent() {
		switch parent := at.Parent().Node().(type) {
		case *ast.BinaryExpr:
			if parent.Op.Precedence() <= token.EQL.Precedence() { // comparisons, && and ||
				return true
			}
		case *ast.CallExpr:
			if compares, isLast := g.comparesIn(parent, at.Node(), isExpected); isLast {
				return compares
			}
		case *ast.IfStmt:
			return true
		case *ast.SelectorExpr, *ast.IndexExpr, *ast.SliceExpr, *ast.ParenExpr, *ast.UnaryExpr, *ast.StarExpr:
		default:
			return isExpected
		}
	}
}

// comparesIn reports whether a call compares a use of a value, reports it, or converts an expected one. isLast
// is false if the call makes another value of it.
func (g *goTest) comparesIn(call *ast.CallExpr, use ast.Node, isExpected bool) (compares, isLast bool) {
	name := calledName(call)
	compares = slices.Contains([]string{"len", "Is"}, name) || g.isReport(call) || comparerName.MatchString(name) || helperName.MatchString(name) ||
		isExpected && (call.Fun == use || converters.MatchString(g.text(call.Fun)))
	return compares, compares || !makerName.MatchString(name)
}

// converters matches functions that convert an expected value to the form that is compared.
var converters = regexp.MustCompile(`^(strings|bytes|sort|slices|maps|fmt|strconv|json|filepath|math|time|reflect|errors)\.`)

// boundValues returns the values assigned to a name, in the test or else in its file.
func (g *goTest) boundValues(name string) (found []ast.Expr) {
	isGiven := false
	look := func(node ast.Node) bool {
		for _, b := range bindings(node) {
			switch {
			case b.value == nil || g.text(b.name) != name:
			case b.isElement:
				isGiven = true
				if rows, _ := g.rows(b.value); !g.isInputList(b.value, node) {
					found = append(found, rows...)
				}
			default:
				found = append(found, b.value)
			}
		}
		_, isFunction := node.(*ast.FuncDecl)
		return !isFunction // names in other functions are unrelated
	}
	if ast.Inspect(g.scope.Body, look); len(found) > 0 || isGiven {
		return found
	}
	found, _ = g.arguments(name, g.values)
	if _, arePlain := g.otherUses(name); arePlain {
		g.reads[g.scope.Name.Name+" "+name] = true
		ast.Inspect(g.file, look)
	}
	return found
}

// runsItself matches functions that the go command runs, and no other function calls.
var runsItself = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// otherUses returns the uses of a name of the file in functions besides the tests, and whether each only reads it. A
// double of the test that stores the expected value would store the altered one, and is given the original instead.
func (g *goTest) otherUses(name string) (uses []*ast.Ident, arePlain bool) {
	arePlain = true
	for _, f := range g.definitions() {
		if f == g.scope || runsItself.MatchString(f.Name.Name) || g.reads[f.Name.Name+" "+name] {
			continue
		}
		body, _ := g.root.FindNode(f)
		for use := range body.Preorder((*ast.Ident)(nil)) {
			if at := use.Node().(*ast.Ident); at.Name == name {
				uses, arePlain = append(uses, at), arePlain && isRead(at, use.Parent().Node())
			}
		}
	}
	return uses, arePlain
}

// isRead reports whether a name is surely read where it is used.
func isRead(name *ast.Ident, parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.CallExpr:
		return p.Fun != name
	case *ast.KeyValueExpr:
		return p.Value == name
	case *ast.AssignStmt:
		return slices.Contains(p.Rhs, ast.Expr(name))
	case *ast.ReturnStmt, *ast.BinaryExpr, *ast.CompositeLit:
		return true
	}
	return false
}

// originals returns the edits that give functions besides the tests the original values of the names that the edits alter.
func (g *goTest) originals(edits []edit) (all []edit) {
	g.scope = nil
	for _, declaration := range g.file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		for i := 0; ok && i < len(group.Specs); i++ {
			values, isValues := group.Specs[i].(*ast.ValueSpec)
			for k := 0; isValues && k < len(values.Values) && len(values.Names) == len(values.Values); k++ {
				value, form := values.Values[k], "(%s)"
				if !slices.ContainsFunc(edits, func(e edit) bool { return g.offset(value.Pos()) <= e.from && e.to <= g.offset(value.End()) }) {
					continue
				}
				if values.Type != nil {
					form = "(" + g.text(values.Type) + ")(%s)"
				}
				uses, _ := g.otherUses(values.Names[k].Name)
				for _, use := range uses {
					all = append(all, edit{g.offset(use.Pos()), g.offset(use.End()), fmt.Sprintf(form, g.text(value))})
				}
			}
		}
	}
	return all
}

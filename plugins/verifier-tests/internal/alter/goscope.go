package alter

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// helpers are the functions of the file that take a testing.T and that the test alone calls.
func (g *goTest) helpers(test *ast.FuncDecl) (all []*ast.FuncDecl) {
	for _, declaration := range g.file.Decls {
		helper, ok := declaration.(*ast.FuncDecl)
		if !ok || helper.Recv != nil || helper.Body == nil || isTest(helper) || testerName(helper) == "" {
			continue
		}
		isCalled := func(in *ast.FuncDecl) bool { return len(callsIn(in, helper.Name.Name)) > 0 }
		isOther := func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && f != test && isCalled(f)
		}
		if isCalled(test) && !slices.ContainsFunc(g.file.Decls, isOther) {
			all = append(all, helper)
		}
	}
	return all
}

// testerName is what a function calls the testing.T that it is given, or "".
func testerName(f *ast.FuncDecl) string {
	at := slices.IndexFunc(f.Type.Params.List, isTesterParameter)
	if at < 0 {
		return ""
	}
	return f.Type.Params.List[at].Names[0].Name
}

func isTesterParameter(field *ast.Field) bool {
	t := field.Type
	if pointer, ok := t.(*ast.StarExpr); ok {
		t = pointer.X
	}
	selected, ok := t.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"T", "B", "F", "TB"}, selected.Sel.Name) && len(field.Names) == 1
}

// isTester reports whether an expression has the name of a testing.T, or gives one.
func (g *goTest) isTester(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return g.testers[x.Name]
	case *ast.SelectorExpr:
		return g.testers[x.Sel.Name]
	case *ast.CallExpr:
		return calledName(x) == "T"
	}
	return false
}

// isOfTester reports whether a call is one of a testing.T, or is given one, and no logger's whose
// methods have the same names.
func (g *goTest) isOfTester(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	return !ok || g.isTester(method.X) || slices.ContainsFunc(call.Args, g.isTester)
}

func callsIn(f *ast.FuncDecl, name string) (calls []*ast.CallExpr) {
	ast.Inspect(f.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			if called, ok := call.Fun.(*ast.Ident); ok && called.Name == name {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// arguments are what the test gives a helper under a name, as found there, and whether the
// name is one of its parameters.
func (g *goTest) arguments(name string, find func(ast.Expr) []ast.Expr) (found []ast.Expr, isParameter bool) {
	at, helper := 0, g.scope
	if helper == g.function {
		return nil, false
	}
	for _, field := range helper.Type.Params.List {
		for _, parameter := range field.Names {
			if parameter.Name != name {
				at++
				continue
			}
			g.scope = g.function
			defer func() { g.scope = helper }()
			for _, call := range callsIn(g.function, helper.Name.Name) {
				if at < len(call.Args) {
					found = append(found, find(call.Args[at])...)
				}
			}
			return found, true
		}
	}
	return nil, false
}

var opposite = map[token.Token]token.Token{token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS}

// plainCall matches the calls that may be made twice.
var plainCall = regexp.MustCompile(`^(len|cap|Abs|float64|int)$`)

// watchNumbers returns a comparison by < or > with a note of where its opposite does not hold
// either: of what is no number.
func (g *goTest) watchNumbers(c *ast.BinaryExpr) string {
	text := g.text(c)
	isOnce := holdsCall(c, func(name string) bool { return !plainCall.MatchString(name) })
	if opposite[c.Op] == 0 || g.request.Record == "" || isOnce || strings.Contains(g.source, "NaN") {
		return text
	}
	site := fmt.Sprintf("%s:n%d", g.path, g.offset(c.Pos()))
	g.watched = append(g.watched, Comparison{Name: site, Test: g.function.Name.Name})
	own := "" // a test that divides by 0 makes no number itself
	ast.Inspect(c, func(node ast.Node) bool {
		if division, ok := node.(*ast.BinaryExpr); ok && division.Op == token.QUO {
			own += " && (" + g.text(division.Y) + ") != 0"
		}
		return true
	})
	watched := fmt.Sprintf("(%s || !(%s %s %s)%s && %ssaw(%q, false))", text, g.text(c.X), opposite[c.Op], g.text(c.Y), own, g.prefix, site)
	g.watches = append(g.watches, edit{g.offset(c.Pos()), g.offset(c.End()), watched})
	return watched
}

// watchFailure has it noted when the test comes to a statement by which it fails: not by what is
// altered, where it goes on.
func (g *goTest) watchFailure(statement token.Pos, form string) {
	if g.request.Record == "" || g.request.Way == Reach {
		return
	}
	at := g.offset(statement)
	site := fmt.Sprintf("%s:f%d", g.path, at)
	g.watched = append(g.watched, Comparison{Name: site, Test: g.function.Name.Name, Beside: true})
	g.watches = append(g.watches, edit{at, at, fmt.Sprintf(form, fmt.Sprintf("%ssaw(%q, false)", g.prefix, site))})
}

// isPerResult reports whether an expression stands in a loop, to its end, over what the code
// returned.
func (g *goTest) isPerResult(e ast.Expr) (found bool) {
	ast.Inspect(g.scope.Body, func(node ast.Node) bool {
		loop, ok := node.(*ast.RangeStmt)
		if !ok || e.Pos() < loop.Body.Pos() || e.End() > loop.Body.End() {
			return true
		}
		found = slices.ContainsFunc(g.values(loop.X), func(v ast.Expr) bool { return holdsCall(v, func(string) bool { return true }) })
		ast.Inspect(loop.Body, func(inner ast.Node) bool {
			_, leaves := inner.(*ast.BranchStmt)
			found = found && !leaves
			return true
		})
		return true
	})
	return found
}

// reportsFailure reports whether a block calls a method with which tests fail.
func reportsFailure(block *ast.BlockStmt) bool {
	return holdsCall(block, func(name string) bool { return slices.Contains(failing, name) })
}

// holdsCall reports whether a function whose name fits is called within the node.
func holdsCall(node ast.Node, fits func(name string) bool) (found bool) {
	ast.Inspect(node, func(inner ast.Node) bool {
		call, ok := inner.(*ast.CallExpr)
		found = found || ok && fits(calledName(call))
		return !found
	})
	return found
}

// calledName returns the name of the function or method that is called.
func calledName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	case *ast.ArrayType:
		return "append" // a conversion to a slice
	}
	return ""
}

package alter

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// helpers returns the functions of the file that take a testing.T and that the test calls.
func (g *goTest) helpers(test *ast.FuncDecl) []*ast.FuncDecl {
	return slices.DeleteFunc(g.definitions(), func(helper *ast.FuncDecl) bool {
		return helper.Recv != nil || isTest(helper) || testerName(helper) == "" || !calls(test, helper)
	})
}

func calls(f, helper *ast.FuncDecl) bool { return len(callsIn(f, helper.Name.Name)) > 0 }

// isForAll reports whether other functions than the test call a helper as well.
func (g *goTest) isForAll(helper *ast.FuncDecl) bool {
	return slices.ContainsFunc(g.definitions(), func(f *ast.FuncDecl) bool { return f != g.function && calls(f, helper) })
}

// help alters the tests by what a helper compares. What other tests share is altered only where the test hands over
// what it expects.
func (g *goTest) help(helper *ast.FuncDecl) {
	g.isShared = g.isForAll(helper)
	if g.scope, g.tester = helper, testerName(helper); g.isShared && (g.tester == "_" || g.function.Recv != nil) {
		return
	}
	edits, watches, watched, compared := g.edits, g.watches, g.watched, g.compared
	g.isHanded = false
	if g.test(); g.isHanded {
		g.helped[helper.Name.Name] = true
		edits[byLiteral], compared = g.edits[byLiteral], g.compared
	}
	if g.isShared {
		g.edits, g.watches, g.watched, g.compared = edits, watches, watched, compared
	}
	g.isShared = false
}

// testerName returns the name of a function's testing.T parameter, the text for the testing.T of a suite, or "".
func testerName(f *ast.FuncDecl) string {
	if isSuiteTest(f) {
		return f.Recv.List[0].Names[0].Name + ".T()"
	}
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

// isTester reports whether an expression has the name of a testing.T, or calls a method T.
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

// isOfTester reports whether a call is a method of a testing.T or passes one, unlike a call of a logger that
// has the same methods.
func (g *goTest) isOfTester(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	return !ok || g.isTester(method.X) || slices.ContainsFunc(call.Args, g.isTester)
}

func callsIn(f *ast.FuncDecl, name string) (calls []*ast.CallExpr) {
	for node := range ast.Preorder(f.Body) {
		if call, ok := node.(*ast.CallExpr); ok {
			if called, ok := call.Fun.(*ast.Ident); ok && called.Name == name {
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// arguments applies find to the arguments that the test passes to the helper for a parameter. isParameter is
// false if the helper has no parameter of that name.
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

var oppositeOperator = map[token.Token]token.Token{token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ, token.GEQ: token.LSS}

// plainCall matches functions without side effects.
var plainCall = regexp.MustCompile(`^(len|cap|Abs|float64|int)$`)

// watchNumbers returns the text of a comparison by < or >, extended to record whether its opposite is false,
// too: then a side is NaN.
func (g *goTest) watchNumbers(c *ast.BinaryExpr) string {
	text := g.text(c)
	isOnce := holdsCall(c, func(name string) bool { return !plainCall.MatchString(name) })
	if oppositeOperator[c.Op] == 0 || g.request.Record == "" || isOnce || strings.Contains(g.source, "NaN") {
		return text
	}
	site := fmt.Sprintf("%s:n%d", g.path, g.offset(c.Pos()))
	g.watched = append(g.watched, Comparison{Name: site, Test: g.testNames(g.function)[0]})
	own := "" // a test that divides by 0 itself produces NaN
	ast.Inspect(c, func(node ast.Node) bool {
		if division, ok := node.(*ast.BinaryExpr); ok && division.Op == token.QUO {
			own += " && (" + g.text(division.Y) + ") != 0"
		}
		return true
	})
	watched := fmt.Sprintf("(%s || !(%s %s %s)%s && %ssaw(%q, false))", text, g.text(c.X), oppositeOperator[c.Op], g.text(c.Y), own, g.prefix, site)
	g.watches = append(g.watches, edit{g.offset(c.Pos()), g.offset(c.End()), watched})
	return watched
}

// watchFailure records when the test reaches a statement at which it fails by itself, not because of an
// alteration.
func (g *goTest) watchFailure(statement token.Pos, form string) {
	if g.request.Record == "" || g.request.Way == Reach {
		return
	}
	at := g.offset(statement)
	site := fmt.Sprintf("%s:f%d", g.path, at)
	g.watched = append(g.watched, Comparison{Name: site, Test: g.testNames(g.function)[0], Beside: true})
	g.watches = append(g.watches, edit{at, at, fmt.Sprintf(form, fmt.Sprintf("%ssaw(%q, false)", g.prefix, site))})
}

// isPerResult reports whether an expression is in a loop, without break, over what the code returned.
func (g *goTest) isPerResult(e ast.Expr) (found bool) {
	for node := range ast.Preorder(g.scope.Body) {
		loop, ok := node.(*ast.RangeStmt)
		if !ok || e.Pos() < loop.Body.Pos() || e.End() > loop.Body.End() {
			continue
		}
		found = slices.ContainsFunc(g.values(loop.X), func(v ast.Expr) bool { return holdsCall(v, func(string) bool { return true }) })
		for inner := range ast.Preorder(loop.Body) {
			_, leaves := inner.(*ast.BranchStmt)
			found = found && !leaves
		}
	}
	return found
}

// holdsCall reports whether the node contains a call of a function whose name fits.
func holdsCall(node ast.Node, fits func(name string) bool) bool {
	for inner := range ast.Preorder(node) {
		if call, ok := inner.(*ast.CallExpr); ok && fits(calledName(call)) {
			return true
		}
	}
	return false
}

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

// isSliceOf reports whether a call converts its argument to a slice.
func isSliceOf(c *ast.CallExpr) bool {
	_, isSlice := c.Fun.(*ast.ArrayType)
	return isSlice
}

// isHiding reports whether the test hands its testing.T to what may fail it unseen, for instance a function of another
// file: what it compares is neither altered nor recorded.
func (g *goTest) isHiding(function *ast.FuncDecl) bool {
	if function.Recv != nil {
		return true
	}
	watched := slices.DeleteFunc(g.helpers(function), func(h *ast.FuncDecl) bool {
		return h.Type.Results != nil || g.isForAll(h) && !g.helped[h.Name.Name]
	})
	return slices.ContainsFunc(append(slices.Clone(watched), function), func(f *ast.FuncDecl) bool {
		scope, _ := g.root.FindNode(f.Body)
		for use := range scope.Preorder((*ast.Ident)(nil)) {
			if g.isTester(use.Node().(*ast.Ident)) && !g.isSeen(use, f, watched) {
				return true
			}
		}
		return false
	})
}

// isSeen reports whether nothing but what is altered or watched can fail a test by this use of its testing.T.
func (g *goTest) isSeen(use inspector.Cursor, f *ast.FuncDecl, watched []*ast.FuncDecl) bool {
	switch parent := use.Parent().Node().(type) {
	case *ast.Field:
		return true
	case *ast.SelectorExpr:
		call, ok := use.Parent().Parent().Node().(*ast.CallExpr)
		if !ok || parent.Sel.Name != "Run" || len(call.Args) == 0 {
			return true
		}
		_, isOwn := call.Args[len(call.Args)-1].(*ast.FuncLit)
		return isOwn
	case *ast.CallExpr:
		name := calledName(parent)
		isOwn := slices.ContainsFunc(bindingsIn(f), func(b binding) bool {
			_, isFunction := b.value.(*ast.FuncLit)
			return isFunction && g.text(b.name) == name
		})
		return isOwn || g.seen[parent] || slices.ContainsFunc(watched, func(h *ast.FuncDecl) bool { return h.Name.Name == name })
	}
	return false
}

func bindingsIn(f *ast.FuncDecl) (all []binding) {
	for node := range ast.Preorder(f.Body) {
		all = append(all, bindings(node)...)
	}
	return all
}

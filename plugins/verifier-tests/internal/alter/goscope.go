package alter

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
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
	for _, field := range f.Type.Params.List {
		t := field.Type
		if pointer, ok := t.(*ast.StarExpr); ok {
			t = pointer.X
		}
		selected, ok := t.(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"T", "B", "F", "TB"}, selected.Sel.Name) && len(field.Names) == 1 {
			return field.Names[0].Name
		}
	}
	return ""
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

// named matches files in which something else goes by the names of tests.
var named = regexp.MustCompile(`(?i)\.Name\(\)|golden|snap`)

// rename gives subtests other names, which may say what is expected, where that is all that
// they are for.
func (g *goTest) rename(call *ast.CallExpr) {
	if calledName(call) != "Run" || len(call.Args) == 0 || g.request.Named || g.request.Way != Expectation && g.request.Way != Hold || named.MatchString(g.source) {
		return
	}
	var names []ast.Expr
	switch name := call.Args[0].(type) {
	case *ast.BasicLit:
		names = []ast.Expr{name}
	case *ast.SelectorExpr:
		if row, ok := name.X.(*ast.Ident); ok && g.mentions(name.Sel.Name) == 1 {
			names = g.fields(row.Name, name.Sel.Name)
		}
	case *ast.Ident:
		if g.uses(name.Name) == 1 {
			names = g.keys(name.Name)
		}
	}
	for i, name := range names {
		if text, ok := name.(*ast.BasicLit); ok && text.Kind == token.STRING {
			g.said = append(g.said, edit{g.offset(text.Pos()), g.offset(text.End()), strconv.Quote(fmt.Sprint(word(g.random), i))})
		}
	}
}

// mentions counts where the file selects a field but in what tests report.
func (g *goTest) mentions(field string) (count int) {
	ast.Inspect(g.file, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			return !slices.Contains(failing, calledName(call)) && !strings.HasPrefix(calledName(call), "Log")
		}
		if selected, ok := node.(*ast.SelectorExpr); ok && selected.Sel.Name == field {
			count++
		}
		return true
	})
	return count
}

// keys are those of the map over which a name ranges.
func (g *goTest) keys(name string) (keys []ast.Expr) {
	ast.Inspect(g.scope.Body, func(node ast.Node) bool {
		loop, ok := node.(*ast.RangeStmt)
		if !ok || loop.Key == nil || g.text(loop.Key) != name {
			return true
		}
		tables := []ast.Expr{loop.X}
		if table, ok := loop.X.(*ast.Ident); ok {
			tables = g.bound(table.Name)
		}
		for _, table := range tables {
			if composite, ok := table.(*ast.CompositeLit); ok {
				for _, element := range composite.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						keys = append(keys, pair.Key)
					}
				}
			}
		}
		return true
	})
	return keys
}

// watchNumbers has it noted where what is compared by < or > is no number, which is neither
// less nor more, and returns the comparison with that.
func (g *goTest) watchNumbers(c *ast.BinaryExpr) string {
	isOrder := slices.Contains([]token.Token{token.LSS, token.LEQ, token.GTR, token.GEQ}, c.Op)
	if !isOrder || g.request.Record == "" || strings.Contains(g.source, "NaN") {
		return g.text(c)
	}
	var sides []string
	for _, side := range []ast.Expr{c.X, c.Y} {
		text := g.text(side)
		if g.isVariable(side) {
			site := fmt.Sprintf("%s:n%d", g.path, g.offset(side.Pos()))
			open := fmt.Sprintf("%snumber(%q, ", g.prefix, site)
			g.watched = append(g.watched, Comparison{Name: site, Test: g.function.Name.Name})
			g.numbers = append(g.numbers, edit{g.offset(side.Pos()), g.offset(side.Pos()), open}, edit{g.offset(side.End()), g.offset(side.End()), ")"})
			text = open + text + ")"
		}
		sides = append(sides, text)
	}
	return strings.Join(sides, " "+c.Op.String()+" ")
}

// isVariable reports whether an expression has a type of its own: a constant would take another.
func (g *goTest) isVariable(e ast.Expr) bool {
	switch v := e.(type) {
	case *ast.ParenExpr:
		return g.isVariable(v.X)
	case *ast.BinaryExpr:
		return v.Op != token.SHL && (g.isVariable(v.X) || g.isVariable(v.Y))
	case *ast.SelectorExpr:
		return g.isVariable(v.X)
	case *ast.IndexExpr:
		return g.isVariable(v.X)
	case *ast.CallExpr:
		return !slices.Contains([]string{"len", "cap", "min", "max"}, calledName(v))
	case *ast.Ident:
		return g.isLocal(v.Name)
	}
	return false
}

// isLocal reports whether a name is that of a variable of the function.
func (g *goTest) isLocal(name string) (found bool) {
	ast.Inspect(g.scope.Body, func(node ast.Node) bool {
		var targets []ast.Expr
		switch n := node.(type) {
		case *ast.AssignStmt:
			targets = n.Lhs
		case *ast.RangeStmt:
			targets = []ast.Expr{n.Key, n.Value}
		}
		found = found || slices.ContainsFunc(targets, func(e ast.Expr) bool { return e != nil && g.text(e) == name })
		return !found
	})
	return found
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

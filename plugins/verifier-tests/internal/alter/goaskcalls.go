package alter

import (
	"go/ast"
	"maps"
	"slices"
)

// call takes over a call, or asks about what it compares.
func (a *goAsker) call(call *ast.CallExpr, s ast.Stmt) {
	selected, isMethod := call.Fun.(*ast.SelectorExpr)
	switch name := calledName(call); {
	case isMethod && a.isTester(selected.X) && name == "Run":
		a.subtest(call, s)
	case isMethod && a.isTester(selected.X) && slices.Contains([]string{"Helper", "Parallel", "Log", "Logf"}, name), isMethod && a.text(selected.X) == "fmt":
	case isMethod && isAsserter(a.made[a.text(selected.X)], a):
		a.assertion(name, call.Args)
	case len(call.Args) > 0 && slices.ContainsFunc(call.Args, a.isTester):
		if a.inline(call) {
			return
		}
		if a.isTester(call.Args[0]) && isMethod {
			a.assertion(name, call.Args[1:])
			return
		}
		a.refuse(s)
	default:
		if a.inline(call) {
			return
		}
		a.keep(s)
	}
}

// isAsserter reports whether a call makes what has the assertions of a test: require.New(t).
func isAsserter(made ast.Expr, a *goAsker) bool {
	call, ok := made.(*ast.CallExpr)
	return ok && calledName(call) == "New" && len(call.Args) == 1 && a.isTester(call.Args[0])
}

// inline walks through a function of the tests that is called and in which they may fail, and reports
// whether it is one.
func (a *goAsker) inline(call *ast.CallExpr) bool {
	parameters, body, receiver := a.called(call)
	const deep = 4
	if body == nil || a.inlined >= deep || !a.failsIn(parameters, body) {
		return false
	}
	names, kinds := namesOf(parameters)
	if len(names) != len(call.Args) {
		return false
	}
	known, scope := maps.Clone(a.known), a.scope
	a.inlined, a.scope = a.inlined+1, body
	maps.Copy(a.locals, assigned(body))
	a.open()
	for i, name := range names {
		a.bind(name, kinds[i], call.Args[i])
	}
	if receiver != "" {
		a.bind(receiver, nil, call.Fun.(*ast.SelectorExpr).X) //nolint:forcetypeassert // a method is called by one
	}
	a.block(body.List)
	a.close()
	a.known, a.scope, a.inlined = known, scope, a.inlined-1
	return true
}

// called is the function of the tests that a call calls; receiver is what a method calls what it is of.
func (a *goAsker) called(call *ast.CallExpr) (parameters *ast.FieldList, body *ast.BlockStmt, receiver string) {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		if made, ok := a.made[f.Name].(*ast.FuncLit); ok {
			return made.Type.Params, made.Body, ""
		}
		if function := a.functions[f.Name]; function != nil && !a.locals[f.Name] {
			return function.Type.Params, function.Body, ""
		}
	case *ast.SelectorExpr:
		if all := a.receivers[f.Sel.Name]; len(all) == 1 && len(all[0].Recv.List[0].Names) == 1 {
			return all[0].Type.Params, all[0].Body, all[0].Recv.List[0].Names[0].Name
		}
	}
	return nil, nil, ""
}

// failsIn reports whether tests may fail in the body of a function.
func (a *goAsker) failsIn(parameters *ast.FieldList, body *ast.BlockStmt) bool {
	testers := maps.Clone(a.testers)
	defer func() { a.testers = testers }()
	a.testers = maps.Clone(testers)
	a.testers[testerName(&ast.FuncDecl{Type: &ast.FuncType{Params: parameters}})] = true
	return a.mayFail(body, false)
}

func namesOf(parameters *ast.FieldList) (names []string, kinds []ast.Expr) {
	for _, field := range parameters.List {
		for _, name := range field.Names {
			names, kinds = append(names, name.Name), append(kinds, field.Type)
		}
	}
	return names, kinds
}

// bind gives a parameter its argument.
func (a *goAsker) bind(name string, kind, argument ast.Expr) {
	if a.isTester(argument) {
		if a.text(argument) != name {
			a.testers[name] = true
			a.items = append(a.items, goItem{text: name + " := " + a.text(argument) + "; _ = " + name, isKept: true})
		}
		return
	}
	a.locals[name] = true
	v, ok := a.value(argument)
	if ok && v.row != nil {
		a.known[name] = goValue{row: v.row.as(name), expr: v.expr}
		a.items = append(a.items, goItem{gives: []string{name}, row: v.row.as(name)})
		return
	}
	item := goItem{text: name + " := " + a.text(argument), gives: []string{name}, isKept: a.isOfCode(argument), isKnown: ok && v.expr != nil && !isTable(v.expr)}
	if kind != nil && !isParameter(kind) {
		item.text = "var " + name + " " + a.text(kind) + " = " + a.text(argument)
	}
	item.text += unused(item.gives)
	delete(a.known, name)
	if ok {
		a.known[name] = v
	}
	a.made[name] = argument
	a.add(item, argument)
}

// isParameter reports whether a type may be a parameter of a generic function.
func isParameter(kind ast.Expr) bool {
	return holds(kind, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		return ok && len(name.Name) == 1 && name.IsExported()
	})
}

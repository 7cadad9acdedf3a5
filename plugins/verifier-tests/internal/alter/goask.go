package alter

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// maxRows bounds the rows of a table that are asked about.
const maxRows = 100

// goAsker makes the questions of one test in Go: each is a program with the statements by which
// the test comes to what it compares, and one row of a table, without what is expected, names,
// messages, what only looks, and other tests. It walks through the test as the test would run if
// all is right, so that it is known what is compared.
type goAsker struct {
	*goPackage
	test *ast.FuncDecl
	// scope is the body of the function at hand, locals are the names that functions give a value,
	// testers what they call the testing.T.
	scope           ast.Node
	locals, testers map[string]bool
	// path are the rows and subtests that the program at hand enters, of which depth were entered;
	// forks are those of further programs.
	path  []goFork
	depth int
	forks [][]goFork
	// known are the values of names as the source gives them, made the calls that made others.
	known   map[string]goValue
	made    map[string]ast.Expr
	items   []goItem
	calls   int
	inlined int
	// isOpen says that something is compared that is not asked, isOver that the rest is not walked.
	isOpen, isOver bool
	questions      []Question
}

// goFork is a row of a loop, or a subtest, that has a program of its own.
type goFork struct {
	in  ast.Stmt
	row int
}

// goItem is a part of a program.
type goItem struct {
	text  string
	gives []string
	needs map[string]bool
	// isKept says that it is done whatever needs it, isOfCode that it makes calls of the code under
	// test, isOfType that it has a value of its types, isKnown that what it gives is known from the source. Of a block level is 1 where it
	// opens and -1 where it closes. row is one of a table.
	isKept, isOfCode, isOfType, isKnown bool
	level, calls                        int
	row                                 *goRow
}

// ask returns the questions of a test, and whether nothing else is compared in it.
func (p *goPackage) ask(test *ast.FuncDecl) ([]Question, bool) {
	all, isOpen := []Question(nil), false
	for forks := [][]goFork{nil}; len(forks) > 0; forks = forks[1:] {
		a := &goAsker{
			goPackage: p, test: test, scope: test.Body, locals: assigned(test), testers: map[string]bool{testerName(test): true},
			path: forks[0], known: map[string]goValue{}, made: map[string]ast.Expr{},
		}
		a.block(test.Body.List)
		all, forks, isOpen = append(all, a.questions...), append(forks, a.forks...), isOpen || a.isOpen
		if len(forks) > maxRows {
			return nil, false
		}
	}
	return all, !isOpen && len(all) > 0
}

// isAsked reports whether the program at hand is about what it comes to, and not only about a row
// behind it.
func (a *goAsker) isAsked() bool { return a.depth == len(a.path) }

// block walks through statements and reports whether they leave the function or the row.
func (a *goAsker) block(list []ast.Stmt) bool {
	for _, statement := range list {
		if a.isOver || a.statement(statement) {
			return true
		}
	}
	return false
}

func (a *goAsker) statement(statement ast.Stmt) (leaves bool) {
	switch s := statement.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			a.call(call, s)
			return false
		}
		a.keep(s)
	case *ast.IfStmt:
		return a.branch(s)
	case *ast.RangeStmt:
		a.loop(s)
	case *ast.BlockStmt:
		a.open()
		leaves = a.block(s.List)
		a.close()
	case *ast.SwitchStmt:
		a.cases(s)
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	case *ast.AssignStmt:
		a.assign(s)
	case *ast.DeclStmt:
		a.declare(s)
	default:
		a.keep(s)
	}
	return leaves
}

func (a *goAsker) open()  { a.items = append(a.items, goItem{text: "{", isKept: true, level: 1}) }
func (a *goAsker) close() { a.items = append(a.items, goItem{text: "}", isKept: true, level: -1}) }

// keep takes over a statement as it is, where no test can fail in it.
func (a *goAsker) keep(s ast.Stmt) {
	if a.mayFail(s, false) {
		a.refuse(s)
		return
	}
	a.add(goItem{text: a.text(s), gives: stored(s), isKept: true}, s)
}

// add adds an item that is made of a node.
func (a *goAsker) add(item goItem, node ast.Node) {
	item.needs, item.isOfCode, item.calls = goNames(node, a.text), a.isOfCode(node), a.countCalls(node)
	for name := range a.typesIn(node) {
		item.isOfType = item.isOfType || a.isNameOfCode(baseOf(name))
	}
	a.items = append(a.items, item)
}

// refuse leaves out a statement: what comes after it is asked only where it has no say in it.
func (a *goAsker) refuse(node ast.Node) {
	a.isOpen = a.isOpen || a.isAsked()
	if !a.isPure(node) {
		a.isOpen, a.isOver = true, true
	}
}

// isPure reports whether a node uses nothing that the test has made before.
func (a *goAsker) isPure(node ast.Node) bool {
	for name := range goNames(node, a.text) {
		base := baseOf(name)
		if _, isRow := a.known[beforeDot(name)]; isRow && strings.Contains(name, "[") {
			continue
		}
		if slices.ContainsFunc(a.items, func(i goItem) bool { return !i.isKnown && i.row == nil && slices.Contains(i.gives, base) }) {
			return false
		}
	}
	return true
}

// mayFail reports whether a test may fail or be skipped in a node, or, but where it is given to what
// makes something, what it calls may have it fail.
func (a *goAsker) mayFail(node ast.Node, isMade bool) bool {
	return holds(node, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		if selected, ok := call.Fun.(*ast.SelectorExpr); ok && a.isTester(selected.X) {
			return !slices.Contains([]string{"TempDir", "Cleanup", "Setenv", "Chdir", "Context", "Helper", "Log", "Logf"}, selected.Sel.Name)
		}
		return !isMade && slices.ContainsFunc(call.Args, a.isTester)
	})
}

func (a *goAsker) isTester(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && a.testers[name.Name]
}

// subtest walks through one, in a program of its own where it needs nothing of the test.
func (a *goAsker) subtest(call *ast.CallExpr, s ast.Stmt) {
	function, ok := call.Args[len(call.Args)-1].(*ast.FuncLit)
	if !ok || len(function.Type.Params.List) != 1 || len(function.Type.Params.List[0].Names) != 1 {
		a.refuse(s)
		return
	}
	for range a.entered(s, 1, a.inlined == 0 && a.isPure(function)) {
		tester := function.Type.Params.List[0].Names[0].Name
		a.open()
		if !a.testers[tester] {
			a.testers[tester] = true
			a.items = append(a.items, goItem{text: tester + " := " + testerName(a.test) + "; _ = " + tester, isKept: true})
		}
		a.block(function.Body.List)
		a.close()
	}
	a.leave(s)
}

// entered are the rows of a loop, or the subtest, that the program at hand enters: one that it is
// about, none where each has a program of its own, or else all.
func (a *goAsker) entered(s ast.Stmt, rows int, isPure bool) (all []int) {
	if a.depth < len(a.path) && a.path[a.depth].in == s {
		a.depth++
		return []int{a.path[a.depth-1].row}
	}
	for row := range rows {
		if !isPure {
			all = append(all, row)
		} else if a.isAsked() {
			a.forks = append(a.forks, append(slices.Clone(a.path), goFork{s, row}))
		}
	}
	return all
}

// leave ends the program that is about a row or subtest of a statement.
func (a *goAsker) leave(s ast.Stmt) {
	a.isOver = a.isOver || len(a.path) > 0 && a.path[len(a.path)-1].in == s
}

// loop walks through the rows of a table.
func (a *goAsker) loop(s *ast.RangeStmt) {
	rows := a.rowsOf(s)
	if len(rows) == 0 || len(rows) > maxRows {
		a.keep(s)
		return
	}
	for _, i := range a.entered(s, len(rows), a.inlined == 0 && a.isPure(s.Body)) {
		a.open()
		a.bindRow(s, rows[i])
		a.block(s.Body.List)
		a.close()
	}
	a.leave(s)
}

// branch walks through the branch that is taken, where that is known, or asks about what must not be.
func (a *goAsker) branch(s *ast.IfStmt) (leaves bool) {
	if s.Init != nil {
		a.open()
		defer a.close()
		a.statement(s.Init)
	}
	isTaken, isKnown := a.truth(s.Cond)
	switch {
	case isKnown && isTaken:
		return a.block(s.Body.List)
	case isKnown:
	case a.onlyFails(s.Body):
		a.hold(s.Cond, false)
	default:
		a.keep(s)
		return false
	}
	if s.Else != nil {
		return a.statement(s.Else)
	}
	return false
}

// onlyFails reports whether a block fails the test, and does nothing else.
func (a *goAsker) onlyFails(block *ast.BlockStmt) bool {
	fails := false
	for _, statement := range block.List {
		switch s := statement.(type) {
		case *ast.ReturnStmt, *ast.BranchStmt:
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			if !ok {
				return false
			}
			selected, isMethod := call.Fun.(*ast.SelectorExpr)
			isOurs := isMethod && a.isTester(selected.X)
			if !isOurs && !strings.HasPrefix(calledName(call), "Print") {
				return false
			}
			fails = fails || isOurs && slices.Contains(failing, calledName(call))
		default:
			return false
		}
	}
	return fails
}

// cases asks about a switch of conditions that must not be.
func (a *goAsker) cases(s *ast.SwitchStmt) {
	isFailing := s.Tag == nil && s.Init == nil
	for _, clause := range s.Body.List {
		c := clause.(*ast.CaseClause) //nolint:forcetypeassert // a switch has no others
		isFailing = isFailing && a.onlyFails(&ast.BlockStmt{List: c.Body})
	}
	if !isFailing {
		a.keep(s)
		return
	}
	for _, clause := range s.Body.List {
		for _, condition := range clause.(*ast.CaseClause).List { //nolint:forcetypeassert // as above
			a.hold(condition, false)
		}
	}
}

// assign takes over what gives names a value.
func (a *goAsker) assign(s *ast.AssignStmt) {
	if a.mayFail(s, true) {
		a.refuse(s)
		return
	}
	item := goItem{text: a.text(s), gives: stored(s), isKept: s.Tok != token.DEFINE || a.isOfCode(s) || a.callsLocal(s)}
	name, isName := s.Lhs[0].(*ast.Ident)
	if s.Tok == token.DEFINE {
		item.text += unused(item.gives)
	}
	if isName && len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		a.made[name.Name] = s.Rhs[0]
		if _, isFunction := s.Rhs[0].(*ast.FuncLit); !isFunction && a.give(name.Name, s.Rhs[0]) {
			return
		}
		item.isKnown = a.isPlain(name.Name)
	}
	a.add(item, s)
}

// unused has the compiler take names for used.
func unused(names []string) string {
	var text strings.Builder
	for _, name := range names {
		if name != "_" {
			text.WriteString("; _ = " + name)
		}
	}
	return text.String()
}

// callsLocal reports whether a method of what the test has made is called, which may change it.
func (a *goAsker) callsLocal(node ast.Node) bool {
	return holds(node, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return false
		}
		selected, isMethod := call.Fun.(*ast.SelectorExpr)
		return isMethod && a.locals[rootOf(selected.X)] && !a.isTester(selected.X)
	})
}

// give has it known what a name is, and reports whether it is a row that needs no statement.
func (a *goAsker) give(name string, e ast.Expr) bool {
	v, ok := a.value(e)
	delete(a.known, name)
	if ok && v.row != nil {
		v.row = v.row.as(name)
		a.known[name] = v
		a.items = append(a.items, goItem{gives: []string{name}, row: v.row})
		return true
	}
	if ok && v.expr != nil && a.countGiven(name) == 1 {
		if _, isPlain := plainGo(v.expr); isPlain || isTable(v.expr) {
			a.known[name] = v
		}
	}
	return false
}

// isPlain reports whether a name is that of a value which nothing can change.
func (a *goAsker) isPlain(name string) bool {
	v, ok := a.known[name]
	return ok && v.expr != nil && !isTable(v.expr)
}

// declare takes over a declaration.
func (a *goAsker) declare(s *ast.DeclStmt) {
	declaration, ok := s.Decl.(*ast.GenDecl)
	if !ok || a.mayFail(s, true) {
		a.refuse(s)
		return
	}
	item := goItem{text: a.text(s), gives: stored(s)}
	if declaration.Tok == token.VAR {
		item.text, item.isKept = item.text+unused(item.gives), a.isOfCode(s) || a.callsLocal(s)
	}
	for _, spec := range declaration.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
			a.made[v.Names[0].Name] = v.Values[0]
			_ = a.give(v.Names[0].Name, v.Values[0])
			item.isKnown = a.isPlain(v.Names[0].Name)
		}
	}
	a.add(item, s)
}

// countGiven counts where the function at hand gives a name a value.
func (a *goAsker) countGiven(name string) (count int) {
	for _, stored := range stored(a.scope) {
		if stored == name {
			count++
		}
	}
	return count
}

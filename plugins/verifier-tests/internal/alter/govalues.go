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

// madeOfLiterals returns the values of an expression that are made of literals, except those by which the test chooses
// what it checks, as in if test.want == "".
func (g *goTest) madeOfLiterals(e ast.Expr) []ast.Expr {
	choosing := g.comparedLiterals(e)
	return slices.DeleteFunc(slices.Clone(g.values(e)), func(value ast.Expr) bool {
		return len(g.literals(value)) == 0 || slices.Contains(choosing, g.text(value))
	})
}

// comparedLiterals returns the literals with which the test compares a name or field by an operator.
func (g *goTest) comparedLiterals(e ast.Expr) (found []string) {
	if isLiteral(e) || holdsCall(e, func(string) bool { return true }) {
		return nil
	}
	text := g.text(e)
	for node := range ast.Preorder(g.scope.Body) {
		c, ok := node.(*ast.BinaryExpr)
		if !ok || c.Op != token.EQL && c.Op != token.NEQ {
			continue
		}
		for _, sides := range [][2]ast.Expr{{c.X, c.Y}, {c.Y, c.X}} {
			if isLiteral(sides[1]) && g.text(sides[0]) == text {
				found = append(found, g.text(sides[1]))
			}
		}
	}
	return found
}

// alterLiterals replaces each literal of the values with another of the same kind.
func (g *goTest) alterLiterals(values ...ast.Expr) {
	for _, value := range values {
		literals := g.literals(value)
		var texts []string
		for _, literal := range literals {
			texts = append(texts, g.text(literal))
		}
		for i, literal := range literals {
			g.replace(byLiteral, literal, otherOf(texts[i], texts, func(text string) string { return otherLiteral(text, g.random) }))
		}
	}
}

func (g *goTest) literals(e ast.Expr) []ast.Expr {
	if e = ast.Unparen(e); isLiteral(e) {
		return []ast.Expr{e}
	}
	var parts []ast.Expr
	switch v := e.(type) {
	case *ast.UnaryExpr:
		parts = []ast.Expr{v.X}
	case *ast.BinaryExpr:
		if v.Op != token.SHL && v.Op != token.SHR { // another number of bits may not fit
			parts = []ast.Expr{v.X, v.Y}
		}
	case *ast.CallExpr:
		if makerName.MatchString(calledName(v)) {
			parts = v.Args
		}
	case *ast.CompositeLit:
		parts = members(v)
	}
	var found []ast.Expr
	for _, part := range parts {
		found = append(found, g.literals(part)...)
	}
	return found
}

// members returns the values in a composite literal: of the fields named like expected values, if there are
// any, or else all.
func members(c *ast.CompositeLit) []ast.Expr {
	var all, expected []ast.Expr
	for _, element := range c.Elts {
		pair, keyed := element.(*ast.KeyValueExpr)
		if !keyed {
			all = append(all, element)
			continue
		}
		all = append(all, pair.Value)
		if key, ok := pair.Key.(*ast.Ident); ok && expectedName.MatchString(key.Name) {
			expected = append(expected, pair.Value)
		}
	}
	if len(expected) > 0 {
		return expected
	}
	return all
}

// values follows a name to the expressions assigned to it, and a field to its values in the rows of a table.
// It does not follow names that are also used elsewhere: those may be the test's input.
func (g *goTest) values(e ast.Expr) []ast.Expr {
	switch v := e.(type) {
	case *ast.Ident:
		return g.namedValues(v)
	case *ast.SelectorExpr:
		return g.fieldValues(v)
	case *ast.IndexExpr:
		if g.uses(g.text(v.X)) == 1 {
			rows, _ := g.rows(v.X)
			return rows
		}
	case *ast.CallExpr:
		if makerName.MatchString(calledName(v)) && len(v.Args) == 1 {
			return g.values(v.Args[0]) // string(want)
		}
	}
	return []ast.Expr{e}
}

// constants are predeclared names that are values themselves.
var constants = []string{"nil", "true", "false"}

func (g *goTest) namedValues(name *ast.Ident) []ast.Expr {
	switch {
	case slices.Contains(constants, name.Name):
		return []ast.Expr{name}
	case g.uses(name.Name) > 1:
		return nil
	}
	return g.boundValues(name.Name)
}

func (g *goTest) fieldValues(field *ast.SelectorExpr) []ast.Expr {
	if row, ok := field.X.(*ast.Ident); ok && !g.isInput(field) {
		return g.fields(row.Name, field.Sel.Name)
	}
	return []ast.Expr{field}
}

// binding is an assignment of a value, or of its elements, to a name; a nil value is unknown.
type binding struct {
	name, value ast.Expr
	isElement   bool
}

func bindings(node ast.Node) (all []binding) {
	switch n := node.(type) {
	case *ast.AssignStmt:
		return bindAll(n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		return bindAll(n.Names, n.Values)
	case *ast.RangeStmt:
		if n.Key != nil {
			all = append(all, binding{name: n.Key})
		}
		if n.Value != nil {
			all = append(all, binding{n.Value, n.X, true})
		}
	}
	return all
}

// bindAll returns the bindings of names to values, of which there can be one call or none.
func bindAll[Name ast.Expr](names []Name, values []ast.Expr) []binding {
	all := make([]binding, len(names))
	for i, name := range names {
		all[i].name = name
		if len(values) > 0 {
			all[i].value = values[min(i, len(values)-1)]
		}
	}
	return all
}

// isReport reports whether a call logs or fails a test.
func (g *goTest) isReport(call *ast.CallExpr) bool {
	name := calledName(call)
	return (slices.Contains(failureMethods, name) || strings.HasPrefix(name, "Log")) && g.isOfTester(call)
}

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
	scope, _ := inspector.New([]*ast.File{g.file}).Root().FindNode(g.scope.Body)
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
	scope, isTest := inspector.New([]*ast.File{g.file}).Root().FindNode(g.scope.Body)
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
		body, _ := inspector.New([]*ast.File{g.file}).Root().FindNode(f)
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

// rows returns the elements of a ranged-over expression, and the names of their fields.
func (g *goTest) rows(e ast.Expr) (rows []ast.Expr, fields []string) {
	switch v := e.(type) {
	case *ast.Ident:
		for _, source := range g.boundValues(v.Name) {
			if table, ok := source.(*ast.CompositeLit); ok {
				more, names := g.tableRows(table)
				rows, fields = append(rows, more...), names
			}
		}
	case *ast.CompositeLit:
		return g.tableRows(v)
	}
	return rows, fields
}

func (g *goTest) tableRows(table *ast.CompositeLit) (rows []ast.Expr, fields []string) {
	for _, element := range table.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			element = pair.Value
		}
		rows = append(rows, element)
	}
	var row ast.Expr
	switch t := table.Type.(type) {
	case *ast.ArrayType:
		row = t.Elt
	case *ast.MapType:
		row = t.Value
	}
	return rows, g.fieldNames(row)
}

func (g *goTest) fieldNames(row ast.Expr) (names []string) {
	if pointer, ok := row.(*ast.StarExpr); ok {
		row = pointer.X
	}
	if name, ok := row.(*ast.Ident); ok {
		for node := range ast.Preorder(g.file) {
			if t, ok := node.(*ast.TypeSpec); ok && t.Name.Name == name.Name {
				row = t.Type
			}
		}
	}
	if table, ok := row.(*ast.StructType); ok {
		for _, field := range table.Fields.List {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// fields returns the values of a field in the rows that a name stands for.
func (g *goTest) fields(row, field string) []ast.Expr {
	if found, isGiven := g.arguments(row, func(e ast.Expr) []ast.Expr {
		if name, ok := e.(*ast.Ident); ok {
			return g.fields(name.Name, field)
		}
		return nil
	}); isGiven {
		return found
	}
	var found []ast.Expr
	for node := range ast.Preorder(g.scope.Body) {
		loop, ok := node.(*ast.RangeStmt)
		if !ok || !g.isRow(row, loop) {
			continue
		}
		rows, names := g.rows(loop.X)
		at := slices.Index(names, field)
		for _, one := range rows {
			found = append(found, g.fieldOf(one, field, at)...)
		}
	}
	return found
}

// fieldOf returns the value of a field in a row, by its name or its index at.
func (g *goTest) fieldOf(row ast.Expr, field string, at int) (found []ast.Expr) {
	if pointer, ok := row.(*ast.UnaryExpr); ok {
		row = pointer.X
	}
	values, ok := row.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for i, element := range values.Elts {
		if pair, keyed := element.(*ast.KeyValueExpr); keyed && g.text(pair.Key) == field {
			found = append(found, pair.Value)
		} else if !keyed && i == at {
			found = append(found, element)
		}
	}
	return found
}

// isRow reports whether a name is the element of a loop, directly or as row := &table[i].
func (g *goTest) isRow(name string, loop *ast.RangeStmt) bool {
	if loop.Value != nil {
		return g.text(loop.Value) == name
	}
	if loop.Key == nil {
		return false
	}
	element := g.text(loop.X) + "[" + g.text(loop.Key) + "]"
	for node := range ast.Preorder(loop.Body) {
		given, ok := node.(*ast.AssignStmt)
		if ok && len(given.Lhs) == 1 && len(given.Rhs) == 1 && g.text(given.Lhs[0]) == name && strings.TrimPrefix(g.text(given.Rhs[0]), "&") == element {
			return true
		}
	}
	return false
}

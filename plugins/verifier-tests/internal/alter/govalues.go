package alter

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
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

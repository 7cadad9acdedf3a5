package alter

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// goValue is what is known of an expression: the literal that it is, or the type of which it is
// the zero value, or the row of a table.
type goValue struct {
	expr, kind ast.Expr
	row        *goRow
}

// goRow is a row of a table, under the name by which a program has it. The row of a table that is
// walked by an index goes by both: cases[i].
type goRow struct {
	name, text string
	at         int
	key, value ast.Expr
	fields     []string
	types      map[string]ast.Expr
	needs      map[string]bool // of the table's type
}

func (r *goRow) as(name string) *goRow {
	other := *r
	other.name = name
	return &other
}

// literal is the composite literal that an expression is, or is the address of.
func literal(e ast.Expr) (*ast.CompositeLit, bool) {
	e = ast.Unparen(e)
	if pointer, ok := e.(*ast.UnaryExpr); ok && pointer.Op == token.AND {
		e = ast.Unparen(pointer.X)
	}
	composite, ok := e.(*ast.CompositeLit)
	return composite, ok
}

// isTable reports whether an expression is a literal of a slice, an array or a map.
func isTable(e ast.Expr) bool {
	composite, ok := e.(*ast.CompositeLit)
	if !ok {
		return false
	}
	_, isList := composite.Type.(*ast.ArrayType)
	_, isMap := composite.Type.(*ast.MapType)
	return isList || isMap
}

// rowsOf are the rows of the table that a loop walks through, none where it is not known.
func (a *goAsker) rowsOf(s *ast.RangeStmt) []goRow {
	v, ok := a.value(s.X)
	if !ok || v.expr == nil || !isTable(v.expr) {
		return nil
	}
	return a.rows(v.expr.(*ast.CompositeLit)) //nolint:forcetypeassert // a table is one
}

func (a *goAsker) rows(table *ast.CompositeLit) (rows []goRow) {
	element := tableElement(table)
	fields, types := a.fieldsOf(element)
	for i, e := range table.Elts {
		row := goRow{text: a.text(table.Type), at: i, value: e, fields: fields, types: types, needs: goNames(table.Type, a.text)}
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			row.key, row.value = pair.Key, pair.Value
			if _, isMap := table.Type.(*ast.MapType); !isMap {
				return nil
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func tableElement(table *ast.CompositeLit) ast.Expr {
	switch t := table.Type.(type) {
	case *ast.ArrayType:
		return t.Elt
	case *ast.MapType:
		return t.Value
	}
	return nil
}

// fieldsOf are the fields of a struct of the tests, in their order, and their types.
func (p *goPackage) fieldsOf(kind ast.Expr) (names []string, types map[string]ast.Expr) {
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if name, ok := kind.(*ast.Ident); ok && p.types[name.Name] != nil {
		kind = p.types[name.Name]
	}
	table, ok := kind.(*ast.StructType)
	if !ok {
		return nil, nil
	}
	types = map[string]ast.Expr{}
	for _, field := range table.Fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
			types[name.Name] = field.Type
		}
	}
	return names, types
}

// field is what a row has in a field.
func (r *goRow) field(name string) (goValue, bool) {
	composite, ok := literal(r.value)
	if !ok {
		return goValue{}, false
	}
	for i, e := range composite.Elts {
		if pair, isPair := e.(*ast.KeyValueExpr); isPair {
			if key, isName := pair.Key.(*ast.Ident); isName && key.Name == name {
				return goValue{expr: pair.Value}, true
			}
		} else if i < len(r.fields) && r.fields[i] == name {
			return goValue{expr: e}, true
		}
	}
	return goValue{kind: r.types[name]}, r.types[name] != nil
}

// bindRow gives the names of a loop what they are in a row.
func (a *goAsker) bindRow(s *ast.RangeStmt, row goRow) {
	key, isNamed := s.Key.(*ast.Ident)
	if isNamed && key.Name != "_" {
		item := goItem{text: key.Name + " := " + strconv.Itoa(row.at), gives: []string{key.Name}, isKnown: true}
		a.known[key.Name] = goValue{expr: &ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(row.at)}}
		if row.key != nil {
			kind := a.mapKey(s.X)
			item.text, item.needs = "var "+key.Name+" "+kind+" = "+a.text(row.key), goNames(row.key, a.text)
			maps.Copy(item.needs, row.needs)
			a.known[key.Name] = goValue{expr: row.key}
		}
		item.text += unused(item.gives)
		a.items = append(a.items, item)
	}
	if isNamed && row.key == nil {
		a.bindRowAs(a.text(s.X)+"["+key.Name+"]", row)
	}
	if value, ok := s.Value.(*ast.Ident); ok && value.Name != "_" {
		a.bindRowAs(value.Name, row)
	}
}

func (a *goAsker) mapKey(table ast.Expr) string {
	v, _ := a.value(table)
	if composite, ok := v.expr.(*ast.CompositeLit); ok {
		if kind, ok := composite.Type.(*ast.MapType); ok {
			return a.text(kind.Key)
		}
	}
	return ""
}

func (a *goAsker) bindRowAs(name string, row goRow) {
	v := goValue{row: row.as(name)}
	if _, isStruct := literal(row.value); !isStruct || row.fields == nil && !isKeyed(row.value) {
		v.expr = row.value
	}
	a.known[name] = v
	a.items = append(a.items, goItem{gives: []string{name}, row: v.row})
}

func isKeyed(e ast.Expr) bool {
	composite, ok := literal(e)
	if !ok || len(composite.Elts) == 0 {
		return false
	}
	_, isPair := composite.Elts[0].(*ast.KeyValueExpr)
	return isPair
}

// rowText is the statement that gives a row, as far as it is needed.
func (a *goAsker) rowText(r *goRow, needs map[string]bool) (text string, more map[string]bool, ok bool) {
	value, more := a.text(r.value), goNames(r.value, a.text)
	maps.Copy(more, r.needs)
	if composite, isComposite := literal(r.value); isComposite && (r.fields != nil || isKeyed(r.value)) {
		if needs[r.name] {
			return "", nil, false
		}
		more = maps.Clone(r.needs)
		var parts []string
		for _, need := range slices.Sorted(maps.Keys(needs)) {
			field, isField := strings.CutPrefix(need, r.name+".")
			if !isField {
				continue
			}
			v, isKnown := r.field(field)
			if !isKnown {
				return "", nil, false
			}
			if v.expr != nil {
				parts = append(parts, field+": "+a.text(v.expr))
				maps.Copy(more, goNames(v.expr, a.text))
			}
		}
		kind := ""
		if composite.Type != nil {
			kind = a.text(composite.Type)
			maps.Copy(more, goNames(composite.Type, a.text))
			if pointer, isPointer := r.value.(*ast.UnaryExpr); isPointer {
				kind = pointer.Op.String() + kind
			}
		}
		value = kind + "{" + strings.Join(parts, ", ") + "}"
	}
	if table, _, isIndexed := strings.Cut(r.name, "["); isIndexed {
		return table + " := " + r.text + "{" + strconv.Itoa(r.at) + ": " + value + "}; _ = " + table, more, true
	}
	at := "0"
	if r.key != nil {
		at = a.text(r.key)
		value = at + ": " + value
		maps.Copy(more, goNames(r.key, a.text))
	}
	return r.name + " := (" + r.text + "{" + value + "})[" + at + "]; _ = " + r.name, more, true
}

// value is what is known of an expression from the source.
func (a *goAsker) value(e ast.Expr) (goValue, bool) {
	switch v := e.(type) {
	case *ast.ParenExpr:
		return a.value(v.X)
	case *ast.BasicLit, *ast.CompositeLit, *ast.FuncLit:
		return goValue{expr: e}, true
	case *ast.UnaryExpr:
		if found, ok := a.value(v.X); v.Op == token.AND && ok && found.row != nil {
			return found, true
		}
		_, ok := plainGo(v)
		return goValue{expr: e}, ok
	case *ast.Ident:
		return a.named(v.Name)
	case *ast.SelectorExpr:
		if found, ok := a.value(v.X); ok && found.row != nil {
			return found.row.field(v.Sel.Name)
		}
	case *ast.IndexExpr:
		if found, ok := a.known[a.text(e)]; ok {
			return found, true
		}
		return a.indexed(v)
	}
	return goValue{}, false
}

func (a *goAsker) named(name string) (goValue, bool) {
	if found, ok := a.known[name]; ok {
		return found, true
	}
	if a.locals[name] {
		return goValue{}, false
	}
	switch name {
	case "true", "false", "nil":
		return goValue{expr: ast.NewIdent(name)}, true
	}
	found, ok := a.values[name]
	return goValue{expr: found}, ok
}

// indexed is the element of a table at a known index.
func (a *goAsker) indexed(e *ast.IndexExpr) (goValue, bool) {
	table, ok := a.value(e.X)
	index, isKnown := a.value(e.Index)
	if !ok || !isKnown || table.expr == nil || !isTable(table.expr) {
		return goValue{}, false
	}
	at, isPlain := plainGo(index.expr)
	rows := a.rows(table.expr.(*ast.CompositeLit)) //nolint:forcetypeassert // a table is one
	i, err := strconv.Atoi(at)
	if !isPlain || err != nil || i < 0 || i >= len(rows) || rows[i].key != nil {
		return goValue{}, false
	}
	if _, isStruct := literal(rows[i].value); isStruct {
		return goValue{row: &rows[i]}, true
	}
	return a.value(rows[i].value)
}

// zeroOf is the note of the zero value of a type, "" where it is nil or not known.
func zeroOf(kind ast.Expr) string {
	switch k := kind.(type) {
	case *ast.ArrayType:
		if k.Len == nil {
			return "=[]"
		}
	case *ast.MapType:
		return "=[]"
	case *ast.Ident:
		switch {
		case k.Name == "string":
			return `=""`
		case k.Name == "bool":
			return "=false"
		case makerName.MatchString(k.Name), k.Name == "uintptr":
			return "=0"
		}
	}
	return ""
}

// note is that of an expression whose value the source says, or "".
func (a *goAsker) note(e ast.Expr) string {
	v, ok := a.value(e)
	switch {
	case !ok:
		return ""
	case v.kind != nil:
		return zeroOf(v.kind)
	case v.expr == nil:
		return ""
	}
	if name, isName := v.expr.(*ast.Ident); isName && a.values[name.Name] != nil && !a.locals[name.Name] {
		v.expr = a.values[name.Name]
	}
	text, ok := plainGo(v.expr)
	if _, isComposite := v.expr.(*ast.CompositeLit); !ok || isComposite && v.expr != e && a.isHandedOver(a.text(e)) {
		return ""
	}
	return "=" + text
}

// isHandedOver reports whether something is given to a function that may change it.
func (a *goAsker) isHandedOver(name string) bool {
	return holds(a.scope, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || slices.Contains(failing, calledName(call)) || a.looks(call) || calledName(call) == "len" {
			return false
		}
		return slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return !a.isTester(e) && goNames(e, a.text)[name] })
	})
}

// truth is whether a condition holds, where the source says it.
func (a *goAsker) truth(e ast.Expr) (holds, isKnown bool) {
	switch v := e.(type) {
	case *ast.ParenExpr:
		return a.truth(v.X)
	case *ast.UnaryExpr:
		holds, isKnown = a.truth(v.X)
		return !holds, isKnown && v.Op == token.NOT
	case *ast.CallExpr:
		return false, a.text(v.Fun) == "testing.Short"
	case *ast.BinaryExpr:
		return a.truthOfBoth(v)
	}
	note := a.note(e)
	return note == "=true", note == "=true" || note == "=false"
}

func (a *goAsker) truthOfBoth(v *ast.BinaryExpr) (holds, isKnown bool) {
	switch v.Op {
	case token.LAND, token.LOR:
		x, isKnownX := a.truth(v.X)
		if isKnownX && x == (v.Op == token.LOR) {
			return x, true
		}
		y, isKnownY := a.truth(v.Y)
		return y, isKnownX && isKnownY
	case token.EQL, token.NEQ:
		x, y := a.note(v.X), a.note(v.Y)
		if found, ok := a.value(v.X); ok && a.isNil(v.Y) && (a.isNil(v.X) || found.expr != nil && !isNameOf(found.expr)) {
			return a.isNil(v.X) == (v.Op == token.EQL), true
		}
		return (x == y) == (v.Op == token.EQL), x != "" && y != ""
	}
	return false, false
}

func isNameOf(e ast.Expr) bool {
	_, ok := e.(*ast.Ident)
	return ok
}

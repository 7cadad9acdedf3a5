package alter

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// edit puts text in the place of source[from:to].
type edit struct {
	from, to int
	text     string
}

// apply makes the edits that lie within no other.
func apply(source string, edits []edit) string {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.from < at {
			continue
		}
		b.WriteString(source[at:e.from] + e.text)
		at = e.to
	}
	return b.String() + source[at:]
}

// kind is a kind of alteration, the best first. A test is altered by one kind only: one
// that fails by a worse kind would hide that it does not fail by a better one.
type kind int

const (
	byLiteral kind = iota // a literal of the expected value
	byData                // nothing here: the expected value is read from a file
	byValue               // the expected value as a whole
	byTruth               // what must be true
	kinds
)

// goTest alters the tests of one file.
type goTest struct {
	request *Request
	source  string
	tokens  *token.FileSet
	random  *rand.Rand
	file    *ast.File
	// function is the test at hand, edits are those of it by their kind.
	function *ast.FuncDecl
	edits    [kinds][]edit
}

func goSource(file Source, request *Request, random *rand.Rand) Source {
	g := &goTest{request: request, source: file.Text, tokens: token.NewFileSet(), random: random}
	altered := Source{Path: file.Path}
	var err error
	if g.file, err = parser.ParseFile(g.tokens, file.Path, file.Text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return altered
	}
	var edits []edit
	for _, declaration := range g.file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Body == nil {
			continue
		}
		g.function, g.edits = function, [kinds][]edit{}
		switch {
		case isTest(function):
			g.test()
		case strings.HasPrefix(function.Name.Name, "Example") && request.Way == Expectation:
			g.example()
		}
		best := slices.IndexFunc(g.edits[:], func(e []edit) bool { return len(e) > 0 })
		if request.Truths && kind(best) != byTruth {
			continue
		}
		altered.note(function.Name.Name, kind(best))
		if best >= 0 && kind(best) != byData {
			edits = append(edits, g.edits[best]...)
		}
	}
	altered.Count, altered.Text = len(edits), apply(g.source, edits)
	return altered
}

// note adds a test to those that are altered by the kind.
func (s *Source) note(test string, k kind) {
	switch {
	case k < 0:
	case k == byData:
		s.Data = append(s.Data, test)
	default:
		s.Tests = append(s.Tests, test)
		if k == byTruth {
			s.Truths = append(s.Truths, test)
		}
	}
}

// isTest reports whether a function is a test of package testing.
func isTest(f *ast.FuncDecl) bool {
	return strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && f.Type.Params.NumFields() == 1 && len(f.Type.Params.List[0].Names) == 1
}

func (g *goTest) offset(at token.Pos) int { return g.tokens.Position(at).Offset }

func (g *goTest) text(node ast.Node) string {
	return g.source[g.offset(node.Pos()):g.offset(node.End())]
}

func (g *goTest) put(k kind, node ast.Node, text string) {
	g.edits[k] = append(g.edits[k], edit{g.offset(node.Pos()), g.offset(node.End()), text})
}

func (g *goTest) insert(k kind, at token.Pos, text string) {
	g.edits[k] = append(g.edits[k], edit{g.offset(at), g.offset(at), text})
}

func (g *goTest) test() {
	f := g.function
	name := f.Type.Params.List[0].Names[0].Name
	if g.request.Way == End {
		if name != "_" {
			g.insert(byLiteral, f.Body.Lbrace+1, "defer "+name+".Fail();")
		}
		return
	}
	ast.Inspect(f.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.IfStmt:
			if reportsFailure(n.Body) {
				g.condition(n.Cond, name)
			}
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok {
				g.assertion(call, name)
			}
		}
		return true
	})
	if slices.ContainsFunc(g.edits[:], func(e []edit) bool { return len(e) > 0 }) || g.request.Way == Reach {
		return
	}
	// The assertions lie elsewhere.
	ast.Inspect(f.Body, func(node ast.Node) bool {
		if n, ok := node.(*ast.KeyValueExpr); ok {
			if key, ok := n.Key.(*ast.Ident); ok && expectedName.MatchString(key.Name) {
				g.leaves(byLiteral, g.literals(n.Value))
			}
		}
		return true
	})
}

var (
	// expectedName is what variables and fields of expected values are called.
	expectedName = regexp.MustCompile(`(?i)^(want|exp|expect|expected|wanted|should)(\w*)$`)
	helperName   = regexp.MustCompile(`(?i)^(assert|check|expect|verify|require|same|equal|eq$|deepequal|exactly|error(contains|is)?$|contains$|len$|jsoneq|indelta)\w*$`)
	comparerName = regexp.MustCompile(`(?i)(equal|^eq|same|match|contains|hasprefix|hassuffix|diff|compare|^cmp)`)
	makerName    = regexp.MustCompile(`^(New\w*|Must\w*|append|string|byte|rune|u?int\d*|float\d*|Duration|Date)$`)
	readerName   = regexp.MustCompile(`(?i)^(read|load|open|golden)`)
	failing      = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}
	inverse      = map[string]string{"True": "False", "False": "True", "Nil": "NotNil", "NotNil": "Nil", "NoError": "Error", "Error": "NoError"}
)

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

// condition alters the condition under which a test fails: what is compared with, or else
// its truth.
func (g *goTest) condition(condition ast.Expr, test string) {
	switch c := condition.(type) {
	case *ast.ParenExpr:
		g.condition(c.X, test)
		return
	case *ast.BinaryExpr:
		if c.Op == token.LOR {
			g.condition(c.X, test)
			g.condition(c.Y, test)
			return
		}
		if c.Op == token.NEQ && g.isComparison(condition, c.Y, c.X) {
			return
		}
	case *ast.UnaryExpr:
		call, ok := c.X.(*ast.CallExpr)
		switch {
		case !ok || c.Op != token.NOT:
		case calledName(call) == "Is" && len(call.Args) == 2 && strings.HasPrefix(g.text(call.Fun), "errors."):
			g.addAlteration(byValue, condition, func() { g.put(byValue, call.Args[1], "errors.New("+strconv.Quote(word(g.random))+")") })
			return
		case comparerName.MatchString(calledName(call)) && g.isComparison(condition, sides(call)...):
			return
		}
	}
	g.addAlteration(byTruth, condition, func() { g.put(byTruth, condition, "!("+g.text(condition)+")") })
}

// addAlteration makes an alteration, or in its place lets the condition hold.
func (g *goTest) addAlteration(k kind, condition ast.Expr, alter func()) {
	if g.request.Way == Reach {
		g.put(k, condition, "("+g.text(condition)+") || true")
		return
	}
	alter()
}

// sides are what a call compares, the likelier to be the expected value first.
func sides(call *ast.CallExpr) []ast.Expr {
	all := slices.Clone(call.Args)
	slices.Reverse(all)
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 1 {
		all = append(all, method.X)
	}
	return all
}

// isComparison alters the expected one of the operands of a condition, and reports whether
// it is known: one that is compared by a call, made of literals, or read from a file.
func (g *goTest) isComparison(condition ast.Expr, operands ...ast.Expr) bool {
	reads := false
	for _, operand := range operands {
		if g.text(operand) == "nil" {
			return false
		}
		for _, source := range g.values(operand) {
			if call, ok := source.(*ast.CallExpr); ok && comparerName.MatchString(calledName(call)) && g.isComparison(condition, sides(call)...) {
				return true // got.Cmp(want) != 0, diff != ""
			}
			reads = reads || holdsCall(source, readerName.MatchString)
		}
	}
	for _, operand := range operands {
		var found []ast.Expr
		for _, source := range g.values(operand) {
			found = append(found, g.literals(source)...)
		}
		if len(found) > 0 {
			g.addAlteration(byLiteral, condition, func() { g.leaves(byLiteral, found) })
			return true
		}
	}
	if reads && g.request.Data {
		g.put(byData, condition, "")
		return true
	}
	return false
}

// assertion alters what a call of an assertion expects.
func (g *goTest) assertion(c *ast.CallExpr, test string) {
	name := calledName(c)
	selected, isMethod := c.Fun.(*ast.SelectorExpr)
	if len(c.Args) < 2 || isMethod && g.text(selected.X) == test {
		return
	}
	k, alter := kinds, func() {}
	var found []ast.Expr
	if helperName.MatchString(name) {
		for _, argument := range c.Args {
			for _, source := range g.values(argument) {
				found = append(found, g.literals(source)...)
			}
		}
	}
	if len(found) > 0 {
		k, alter = byLiteral, func() { g.leaves(byLiteral, found) }
	} else if inverse[name] != "" && isMethod {
		k, alter = byTruth, func() { g.put(byTruth, selected.Sel, inverse[name]) }
	}
	switch {
	case k == kinds:
	case g.request.Way == Reach:
		g.insert(k, c.Pos(), test+".Fail();")
	default:
		alter()
	}
}

// literals are those that an expression is made of.
func (g *goTest) literals(e ast.Expr) []ast.Expr {
	var parts []ast.Expr
	switch v := e.(type) {
	case *ast.BasicLit:
		return []ast.Expr{v}
	case *ast.Ident:
		if v.Name == "true" || v.Name == "false" {
			return []ast.Expr{v}
		}
	case *ast.UnaryExpr:
		parts = []ast.Expr{v.X}
	case *ast.ParenExpr:
		parts = []ast.Expr{v.X}
	case *ast.BinaryExpr:
		parts = []ast.Expr{v.X, v.Y}
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

// members are the values of a composite literal; those alone that are called expected
// values, where there are.
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

// values are the expressions behind one: those that its name is given, or its field in
// the rows of a table. What is used elsewhere, too, may be the test's input.
func (g *goTest) values(e ast.Expr) []ast.Expr {
	switch v := e.(type) {
	case *ast.Ident:
		if v.Name == "nil" || v.Name == "true" || v.Name == "false" {
			return []ast.Expr{v}
		}
		if g.uses(v.Name) > 1 {
			return nil
		}
		return g.bound(v.Name)
	case *ast.SelectorExpr:
		if row, ok := v.X.(*ast.Ident); ok {
			return g.fields(row.Name, v.Sel.Name)
		}
	case *ast.CallExpr:
		if makerName.MatchString(calledName(v)) && len(v.Args) == 1 {
			return g.values(v.Args[0]) // string(want)
		}
	}
	return []ast.Expr{e}
}

// uses counts where the test uses a name but in what it reports and in where the name is
// given its value.
func (g *goTest) uses(name string) int {
	count := 0
	ast.Inspect(g.function.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			return !slices.Contains(failing, calledName(n)) && calledName(n) != "Logf"
		case *ast.AssignStmt:
			count -= len(slices.DeleteFunc(slices.Clone(n.Lhs), func(e ast.Expr) bool { return g.text(e) != name }))
		case *ast.ValueSpec:
			count -= len(slices.DeleteFunc(slices.Clone(n.Names), func(i *ast.Ident) bool { return i.Name != name }))
		case *ast.RangeStmt:
			for _, target := range []ast.Expr{n.Key, n.Value} {
				if target != nil && g.text(target) == name {
					count--
				}
			}
		case *ast.Ident:
			if n.Name == name {
				count++
			}
		}
		return true
	})
	return count
}

// bound are the expressions that give a name its value, in the test or else in its file.
func (g *goTest) bound(name string) []ast.Expr {
	for _, scope := range []ast.Node{g.function.Body, g.file} {
		var found []ast.Expr
		isGiven := false
		ast.Inspect(scope, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				return false // another's names
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if g.text(left) == name {
						found = append(found, n.Rhs[min(i, len(n.Rhs)-1)])
					}
				}
			case *ast.ValueSpec:
				for i, left := range n.Names {
					if left.Name == name && len(n.Values) > 0 {
						found = append(found, n.Values[min(i, len(n.Values)-1)])
					}
				}
			case *ast.RangeStmt:
				if n.Value != nil && g.text(n.Value) == name {
					rows, _ := g.rows(n.X)
					found, isGiven = append(found, rows...), true
				}
			}
			return true
		})
		if len(found) > 0 || isGiven {
			return found
		}
	}
	return nil
}

// rows are the elements of what is ranged over, and the names of their fields.
func (g *goTest) rows(e ast.Expr) (rows []ast.Expr, fields []string) {
	if name, ok := e.(*ast.Ident); ok {
		for _, source := range g.bound(name.Name) {
			if _, isTable := source.(*ast.CompositeLit); isTable {
				return g.rows(source)
			}
		}
	}
	table, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil, nil
	}
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
		ast.Inspect(g.file, func(node ast.Node) bool {
			if t, ok := node.(*ast.TypeSpec); ok && t.Name.Name == name.Name {
				row = t.Type
			}
			return true
		})
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

// fields are the values that a field has in the rows that a name is given.
func (g *goTest) fields(row, field string) []ast.Expr {
	var found []ast.Expr
	ast.Inspect(g.function.Body, func(node ast.Node) bool {
		loop, ok := node.(*ast.RangeStmt)
		if !ok || loop.Value == nil || g.text(loop.Value) != row {
			return true
		}
		rows, names := g.rows(loop.X)
		at := slices.Index(names, field)
		for _, one := range rows {
			if pointer, ok := one.(*ast.UnaryExpr); ok {
				one = pointer.X
			}
			values, ok := one.(*ast.CompositeLit)
			if !ok {
				continue
			}
			for i, element := range values.Elts {
				if pair, keyed := element.(*ast.KeyValueExpr); keyed && g.text(pair.Key) == field {
					found = append(found, pair.Value)
				} else if !keyed && i == at {
					found = append(found, element)
				}
			}
		}
		return true
	})
	return found
}

// leaves alters literals.
func (g *goTest) leaves(k kind, literals []ast.Expr) {
	for _, leaf := range literals {
		switch v := leaf.(type) {
		case *ast.Ident:
			g.put(k, v, map[string]string{"true": "false", "false": "true"}[v.Name])
		case *ast.BasicLit:
			if text := otherLiteral(v, g.random); text != "" {
				g.put(k, v, text)
			}
		}
	}
}

// otherLiteral returns another literal of the same kind, which fits the same types.
func otherLiteral(v *ast.BasicLit, random *rand.Rand) string {
	switch v.Kind {
	case token.INT:
		n, err := strconv.ParseInt(v.Value, 0, 64)
		if err != nil {
			return ""
		}
		const small = 50 // what a byte has room for
		if n > small {
			return strconv.FormatInt(n-1-random.Int64N(small), 10)
		}
		return strconv.FormatInt(n+1+random.Int64N(small), 10)
	case token.FLOAT:
		n, err := strconv.ParseFloat(v.Value, 64)
		if err != nil {
			return ""
		}
		return strconv.FormatFloat(2*n+1.5+random.Float64(), 'g', -1, 64)
	case token.STRING:
		last := len(v.Value) - 1
		return v.Value[:1] + otherText(v.Value[1:last], random) + v.Value[last:]
	case token.CHAR:
		if r, _, _, err := strconv.UnquoteChar(strings.Trim(v.Value, "'"), '\''); err == nil && r < 'z' {
			return strconv.QuoteRune(r + 1)
		}
	}
	return ""
}

var outputLine = regexp.MustCompile(`(?i)^//\s*(unordered )?output:`)

// example alters the output that an example expects.
func (g *goTest) example() {
	for _, group := range g.file.Comments {
		if group.Pos() > g.function.Body.Lbrace && group.End() < g.function.Body.Rbrace && outputLine.MatchString(group.List[0].Text) {
			at := g.offset(group.Pos()) + len(outputLine.FindString(g.text(group)))
			text := g.source[at:g.offset(group.End())]
			g.edits[byLiteral] = append(g.edits[byLiteral], edit{at, at + len(text), otherText(text, g.random)})
		}
	}
}

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

// goTest alters the tests of one file.
type goTest struct {
	source string
	files  *token.FileSet
	way    Way
	random *rand.Rand
	edits  []edit
}

func goSource(file Source, way Way, random *rand.Rand) Source {
	g := &goTest{source: file.Text, files: token.NewFileSet(), way: way, random: random}
	tree, err := parser.ParseFile(g.files, file.Path, file.Text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return Source{Path: file.Path}
	}
	altered := Source{Path: file.Path}
	for _, declaration := range tree.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Body == nil {
			continue
		}
		before := len(g.edits)
		switch {
		case isTest(function):
			g.test(function)
		case strings.HasPrefix(function.Name.Name, "Example") && way == Expectation:
			g.example(function, tree.Comments)
		}
		if n := len(g.edits) - before; n > 0 {
			altered.Tests = append(altered.Tests, function.Name.Name)
			altered.Count += n
		}
	}
	altered.Text = apply(g.source, g.edits)
	return altered
}

// isTest reports whether a function is a test of package testing.
func isTest(f *ast.FuncDecl) bool {
	return strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && f.Type.Params.NumFields() == 1 && len(f.Type.Params.List[0].Names) == 1
}

func (g *goTest) offset(at token.Pos) int { return g.files.Position(at).Offset }

func (g *goTest) replace(node ast.Node, text string) {
	g.edits = append(g.edits, edit{g.offset(node.Pos()), g.offset(node.End()), text})
}

func (g *goTest) text(node ast.Node) string {
	return g.source[g.offset(node.Pos()):g.offset(node.End())]
}

func (g *goTest) test(f *ast.FuncDecl) {
	if name := f.Type.Params.List[0].Names[0].Name; g.way == End {
		if at := g.offset(f.Body.Lbrace) + 1; name != "_" {
			g.edits = append(g.edits, edit{at, at, "defer " + name + ".Fail();"})
		}
		return
	}
	// An expectation that is altered twice may come out as it was: where there are
	// conditions, they alone are.
	before := len(g.edits)
	ast.Inspect(f.Body, func(node ast.Node) bool {
		if n, ok := node.(*ast.IfStmt); ok && reportsFailure(n.Body) {
			g.condition(n.Cond)
		}
		return true
	})
	if len(g.edits) > before {
		return
	}
	ast.Inspect(f.Body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && expectedName.MatchString(key.Name) {
				g.literal(n.Value)
			}
		case *ast.AssignStmt:
			g.assignment(n)
		case *ast.CallExpr:
			g.call(n)
		case *ast.ExprStmt:
			if c, ok := n.X.(*ast.CallExpr); ok && g.way == Reach && g.isAssertion(c) {
				at := g.offset(n.Pos())
				g.edits = append(g.edits, edit{at, at, f.Type.Params.List[0].Names[0].Name + ".Fail();"})
			}
		}
		return true
	})
}

var (
	// expectedName is what variables and fields of expected values are called.
	expectedName = regexp.MustCompile(`(?i)^(want|exp|expect|expected|wanted|should)(\w*)$`)
	equalName    = regexp.MustCompile(`^(Equal|EqualValues|Exactly|Eq|DeepEqual|EqualError|ErrorContains|Contains|Len|JSONEq|InDelta|AssertEqual|CheckEqual)f?$`)
	failing      = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}
)

// reportsFailure reports whether a block calls a method with which tests fail.
func reportsFailure(block *ast.BlockStmt) bool {
	found := false
	ast.Inspect(block, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			selected, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && slices.Contains(failing, selected.Sel.Name)
		}
		return !found
	})
	return found
}

// condition alters the condition under which a test fails: a literal that is compared
// with, or else its truth.
func (g *goTest) condition(condition ast.Expr) {
	if g.way == Reach {
		g.replace(condition, "("+g.text(condition)+") || true")
		return
	}
	if comparison, ok := condition.(*ast.BinaryExpr); ok && comparison.Op == token.NEQ {
		if g.literal(comparison.Y) || g.literal(comparison.X) {
			return
		}
	}
	g.replace(condition, "!("+g.text(condition)+")")
}

func (g *goTest) assignment(a *ast.AssignStmt) {
	for i, left := range a.Lhs {
		if name, ok := left.(*ast.Ident); ok && expectedName.MatchString(name.Name) && len(a.Rhs) == len(a.Lhs) {
			g.literal(a.Rhs[i])
		}
	}
}

// isAssertion reports whether a call is one of a library's assertions, by its name, that
// has a literal.
func (g *goTest) isAssertion(c *ast.CallExpr) bool {
	return equalName.MatchString(calledName(c)) && slices.ContainsFunc(c.Args, func(e ast.Expr) bool {
		_, literal := e.(*ast.BasicLit)
		return literal
	})
}

// calledName returns the name of the function or method that is called.
func calledName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// call alters the expected value of an assertion of a library.
func (g *goTest) call(c *ast.CallExpr) {
	if equalName.MatchString(calledName(c)) {
		_ = slices.ContainsFunc(c.Args, g.literal) // alters the first literal
	}
}

// literal alters a literal, and reports whether the expression is one.
func (g *goTest) literal(e ast.Expr) bool {
	if g.way == Reach {
		return false
	}
	switch v := e.(type) {
	case *ast.UnaryExpr:
		return v.Op == token.SUB && g.literal(v.X)
	case *ast.ParenExpr:
		return g.literal(v.X)
	case *ast.Ident:
		if v.Name == "true" || v.Name == "false" {
			g.replace(v, map[string]string{"true": "false", "false": "true"}[v.Name])
			return true
		}
	case *ast.BasicLit:
		if text := otherLiteral(v, g.random); text != "" {
			g.replace(v, text)
			return true
		}
	}
	return false
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
		text, err := strconv.Unquote(v.Value)
		if err != nil {
			return ""
		}
		return strconv.Quote(text + word(random))
	case token.CHAR:
		if r, _, _, err := strconv.UnquoteChar(strings.Trim(v.Value, "'"), '\''); err == nil && r < 'z' {
			return strconv.QuoteRune(r + 1)
		}
	}
	return ""
}

// word returns some letters.
func word(random *rand.Rand) string {
	letters := make([]byte, 3+random.IntN(3))
	for i := range letters {
		letters[i] = byte('a' + random.IntN(26))
	}
	return string(letters)
}

var outputLine = regexp.MustCompile(`(?i)^//\s*(unordered )?output:`)

// example alters the output that an example expects.
func (g *goTest) example(f *ast.FuncDecl, comments []*ast.CommentGroup) {
	for _, group := range comments {
		if group.Pos() > f.Body.Lbrace && group.End() < f.Body.Rbrace && outputLine.MatchString(group.List[0].Text) {
			at := g.offset(group.End())
			g.edits = append(g.edits, edit{at, at, " " + word(g.random)})
		}
	}
}

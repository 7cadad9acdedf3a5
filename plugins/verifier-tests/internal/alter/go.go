package alter

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// edit replaces source[from:to] with text.
type edit struct {
	from, to int
	text     string
}

// apply applies the edits, except those within another.
func apply(source string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
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

// kind is a kind of alteration, the best first. A test is altered by one kind only: failing by a worse kind
// would hide that it does not fail by a better one.
type kind int

const (
	byLiteral kind = iota // a literal of the expected value
	byData                // the expected value is read from a file, which is altered instead
	byValue               // the expected value as a whole
	byTruth               // a condition that must hold
	kinds
)

// goTest alters the tests of one file.
type goTest struct {
	request *Request
	source  string
	tokens  *token.FileSet
	random  *rand.Rand
	file    *ast.File
	root    inspector.Cursor
	// function is the current test, scope the test itself or a helper that it calls. tester is the name of the
	// testing.T in scope. edits are those of the test by kind. helped are the helpers to which the test hands what it
	// expects.
	function, scope *ast.FuncDecl
	tester          string
	helped          map[string]bool
	// suites are the tests that run a suite, by its type; asserters are the names of what asserts by methods; see
	// findAsserters.
	suites    map[string][]string
	asserters map[string]bool
	// seen are the calls to which the test hands its testing.T, and of which more is known than that they pass.
	seen map[*ast.CallExpr]bool
	// isShared means that other functions call the helper in scope, too, isHanded that it compares with literals which
	// are not its own.
	isShared, isHanded bool
	// reads are the functions that compare with names of the file, each followed by such a name.
	reads map[string]bool
	// testers are the names of the testing.T parameters of functions in the file.
	testers map[string]bool
	edits   [kinds][]edit
	// isCovered means that a comparison was left unchanged because a run without [Request.Rest] records it.
	isCovered bool
	// watches are edits that record comparisons by < and >, and failures.
	watches []edit
	watched []Comparison
	// isLenient means that the current condition can hold in a test that passes.
	isLenient bool
	// comparer is the name of the function that compares, "" for an operator. compared are the comparisons
	// that record values, with a function whose name begins with prefix.
	comparer, path, prefix string
	compared               []Comparison
}

func goSource(file Source, request *Request, random *rand.Rand) Source {
	g := &goTest{request: request, source: file.Text, tokens: token.NewFileSet(), random: random, path: file.Path, prefix: randomWord(random) + "_", testers: map[string]bool{}, reads: map[string]bool{}}
	altered := Source{Path: file.Path}
	var err error
	if g.file, err = parser.ParseFile(g.tokens, file.Path, file.Text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return altered
	}
	g.root = inspector.New([]*ast.File{g.file}).Root()
	for node := range ast.Preorder(g.file) {
		if field, ok := node.(*ast.Field); ok && isTesterParameter(field) {
			g.testers[field.Names[0].Name] = true
		}
	}
	if slices.ContainsFunc(g.definitions(), isSuiteTest) {
		g.suites = request.suitesIn(path.Dir(file.Path))
	}
	g.findAsserters()
	functions := g.functions()
	var edits []edit
	seen := map[edit]bool{} // tests that share a helper have the same ones in it
	add := func(more []edit) {
		for _, e := range more {
			if !seen[e] {
				edits, seen[e] = append(edits, e), true
			}
		}
	}
	for _, function := range functions {
		best := g.alter(function)
		for _, name := range g.testNames(function) {
			altered.addTest(name, best)
			if g.isHiding(function) {
				altered.Hidden = append(altered.Hidden, name)
			}
		}
		if best >= 0 && best != byData {
			add(g.edits[best])
		}
		if best == byLiteral {
			add(g.watches)
		}
	}
	edits = append(edits, g.originals(edits)...)
	altered.Count, altered.Compared, altered.Watched = len(edits), g.compared, g.watched
	altered.Text = g.withRecords(apply(g.source, edits))
	return altered
}

// functions returns the tests and examples of the file.
func (g *goTest) functions() []*ast.FuncDecl {
	return slices.DeleteFunc(g.definitions(), func(f *ast.FuncDecl) bool {
		if f.Recv != nil {
			return !isSuiteTest(f) || len(g.testNames(f)) == 0
		}
		return !isTest(f) && !strings.HasPrefix(f.Name.Name, "Example")
	})
}

// definitions returns the functions and methods of the file that have a body.
func (g *goTest) definitions() (all []*ast.FuncDecl) {
	for _, declaration := range g.file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			all = append(all, function)
		}
	}
	return all
}

// alter adds the edits of a test and returns their best kind, or -1.
func (g *goTest) alter(function *ast.FuncDecl) kind {
	g.function, g.scope, g.edits, g.watches, g.isCovered, g.helped = function, function, [kinds][]edit{}, nil, false, map[string]bool{}
	g.seen = map[*ast.CallExpr]bool{}
	if isTest(function) || function.Recv != nil {
		for _, helper := range g.helpers(function) {
			g.help(helper)
		}
		g.scope, g.tester = function, testerName(function)
		g.test()
	} else if g.request.Way == Expectation {
		g.example()
	}
	isSome := func(e []edit) bool { return len(e) > 0 }
	first := slices.IndexFunc(g.edits[:], isSome)
	if g.request.Rest && !g.isCovered && g.request.Way != End && first >= 0 {
		g.edits[first] = nil // altered by the run without Rest
		first = slices.IndexFunc(g.edits[:], isSome)
	}
	return kind(first)
}

// addTest adds a test to the lists for the kind by which it is altered.
func (s *Source) addTest(test string, k kind) {
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

func isTest(f *ast.FuncDecl) bool {
	return strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && f.Type.Params.NumFields() == 1 && isTesterParameter(f.Type.Params.List[0])
}

func (g *goTest) offset(at token.Pos) int { return g.tokens.Position(at).Offset }

func (g *goTest) text(node ast.Node) string {
	return g.source[g.offset(node.Pos()):g.offset(node.End())]
}

func (g *goTest) replace(k kind, node ast.Node, text string) {
	g.edits[k] = append(g.edits[k], edit{g.offset(node.Pos()), g.offset(node.End()), text})
}

func (g *goTest) insert(k kind, at token.Pos, text string) {
	g.edits[k] = append(g.edits[k], edit{g.offset(at), g.offset(at), text})
}

func (g *goTest) test() {
	body := g.scope.Body
	if g.request.Way == End {
		if g.tester != "_" && g.scope == g.function {
			g.insert(byLiteral, body.Lbrace+1, "defer "+g.tester+".Fail();")
		}
		return
	}
	g.watchFailure(body.Lbrace+1, "defer func() { if r := recover(); r != nil { %s; panic(r) } }();")
	ast.Inspect(body, g.statement)
}

// statement alters a statement of the current test that can make it fail.
func (g *goTest) statement(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.IfStmt:
		if slices.ContainsFunc(slices.Collect(ast.Preorder(n.Body)), g.isFailure) {
			g.isLenient = !slices.ContainsFunc(n.Body.List, func(s ast.Stmt) bool { return g.isFailure(s) })
			g.condition(n.Cond)
			g.isLenient = false
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			g.assertion(call)
		}
		if g.isFailure(n) {
			g.watchFailure(n.Pos(), "%s;")
		}
	}
	return true
}

var (
	// expectedName matches names of variables and fields with expected values.
	expectedName   = regexp.MustCompile(`(?i)^(want|exp|expect|expected|wanted|should)(\w*)$`)
	helperName     = regexp.MustCompile(`(?i)^(assert|check|expect|verify|require|same|equal|eq$|deepequal|exactly|error(contains|is)?$|contains$|len$|jsoneq|indelta)\w*$`)
	comparerName   = regexp.MustCompile(`(?i)(equal|^eq|same|match|contains|hasprefix|hassuffix|diff|compare|cmp|_eq!?$)`)
	makerName      = regexp.MustCompile(`^(New\w*|Must\w*|append|string|byte|rune|u?int\d*|float\d*|Duration|Date)$`)
	readerName     = regexp.MustCompile(`(?i)^(read|load|open|golden)`)
	failureMethods = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}
	inverse        = map[string]string{"True": "False", "False": "True", "Nil": "NotNil", "NotNil": "Nil", "NoError": "Error", "Error": "NoError"}
)

// isFailure reports whether a statement calls a method such as Fatal. Error(t, err) is an assertion.
func (g *goTest) isFailure(node ast.Node) bool {
	statement, ok := node.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := statement.X.(*ast.CallExpr)
	return ok && slices.Contains(failureMethods, calledName(call)) && !g.isErrorAssertion(call)
}

// isErrorAssertion reports whether a call of a method Error asserts that there is an error.
func (g *goTest) isErrorAssertion(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && strings.HasPrefix(method.Sel.Name, "Error") && !g.isTester(method.X) && (g.isAsserter(method.X) || slices.ContainsFunc(call.Args, g.isTester))
}

// assertion alters what an assertion expects, or else inverts it.
func (g *goTest) assertion(c *ast.CallExpr) {
	name := calledName(c)
	selected, isMethod := c.Fun.(*ast.SelectorExpr)
	isOwn := isMethod && g.isAsserter(selected.X) && len(c.Args) > 0
	if !isOwn && (len(c.Args) < 2 || isMethod && g.text(selected.X) == g.tester || !g.isOfTester(c) && slices.Contains(failureMethods, name)) {
		return
	}
	if inverse[name] == "" {
		g.equalAssertion(c)
	} else if isMethod {
		g.seen[c] = name != "True" && name != "False"
		g.alterCall(byTruth, c, func() { g.replace(byTruth, selected.Sel, inverse[name]) })
	}
}

// equalAssertion alters the literals in what an assertion expects.
func (g *goTest) equalAssertion(c *ast.CallExpr) {
	var found []ast.Expr
	for _, argument := range c.Args {
		found = append(found, g.madeOfLiterals(argument)...)
	}
	if name := calledName(c); len(found) == 0 || g.helped[name] || !helperName.MatchString(name) {
		return
	}
	saw, isCovered := g.recordUncovered(func() string { return g.recordSides(c) })
	if g.seen[c] = saw != ""; isCovered {
		return
	}
	alter := func() { g.alterLiterals(found...) }
	g.alterCall(byLiteral, c, alter)
	if saw != "" && g.request.Way == Hold {
		alter()
		g.insert(byLiteral, c.Pos(), saw+"; if false {")
		g.insert(byLiteral, c.End(), "}")
	}
}

// alterCall alters an assertion or, for Reach, fails before it.
func (g *goTest) alterCall(k kind, c *ast.CallExpr, alter func()) {
	switch g.request.Way {
	case Reach:
		g.insert(k, c.Pos(), g.tester+".Fail();")
	case Expectation:
		alter()
	}
}

// recordSides is record for the arguments of a helper, as in assert.Equal(t, want, got).
func (g *goTest) recordSides(c *ast.CallExpr) (saw string) {
	sides := g.assertionSides(c)
	if len(sides) < 2 {
		return ""
	}
	sides = sides[:2]
	at := slices.IndexFunc(sides, func(e ast.Expr) bool { return len(g.madeOfLiterals(e)) > 0 })
	if at < 0 || len(g.madeOfLiterals(sides[1-at])) > 0 {
		return ""
	}
	g.comparer = calledName(c)
	defer func() { g.comparer = "" }()
	return g.record(sides[at], sides[1-at])
}

var outputLine = regexp.MustCompile(`(?i)^//\s*(unordered )?output:`)

func (g *goTest) example() {
	for _, group := range g.file.Comments {
		if group.Pos() > g.function.Body.Lbrace && group.End() < g.function.Body.Rbrace && outputLine.MatchString(group.List[0].Text) {
			at := g.offset(group.Pos()) + len(outputLine.FindString(g.text(group)))
			text := g.source[at:g.offset(group.End())]
			g.edits[byLiteral] = append(g.edits[byLiteral], edit{at, at + len(text), otherText(text, g.random)})
		}
	}
}

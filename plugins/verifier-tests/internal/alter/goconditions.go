package alter

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// condition alters the condition under which a test fails: the expected value, or else the condition itself.
func (g *goTest) condition(condition ast.Expr) {
	switch c := condition.(type) {
	case *ast.ParenExpr:
		g.condition(c.X)
		return
	case *ast.BinaryExpr:
		g.binaryCondition(c)
		return
	case *ast.UnaryExpr:
		if call, ok := c.X.(*ast.CallExpr); ok && c.Op == token.NOT && g.negatedCall(c, call) {
			return
		}
	}
	g.addAlteration(byTruth, condition, func() { g.replace(byTruth, condition, "!("+g.text(condition)+")") })
}

func (g *goTest) binaryCondition(c *ast.BinaryExpr) {
	if c.Op == token.LOR {
		g.condition(c.X)
		g.condition(c.Y)
		return
	}
	if c.Op == token.NEQ && g.alterComparison(c, c.Y, c.X) {
		return
	}
	watched := g.watchNumbers(c)
	if g.request.Way == Record {
		g.replace(byTruth, c, watched)
	}
	g.addAlteration(byTruth, c, func() { g.replace(byTruth, c, "!("+watched+")") })
}

// negatedCall alters the expected value in a call that must return true, and reports whether it did.
func (g *goTest) negatedCall(condition ast.Expr, call *ast.CallExpr) bool {
	name := calledName(call)
	if name == "Is" && len(call.Args) == 2 && strings.HasPrefix(g.text(call.Fun), "errors.") {
		g.addAlteration(byValue, condition, func() { g.replace(byValue, call.Args[1], "errors.New("+strconv.Quote(randomWord(g.random))+")") })
		return true
	}
	return comparerName.MatchString(name) && g.alterCompared(condition, call)
}

// addAlteration alters a condition according to [Request.Way]: Reach makes it true, Hold alters a literal and
// makes it false, Expectation alters it.
func (g *goTest) addAlteration(k kind, condition ast.Expr, alter func()) {
	switch g.request.Way {
	case Reach:
		g.replace(k, condition, "("+g.text(condition)+") || true")
	case Hold:
		if k == byLiteral {
			alter()
			g.insert(k, condition.End(), " && false")
		}
	case Expectation:
		alter()
		// The test fails at its end, and continues as if the condition did not hold.
		if k == byLiteral && g.canGoOn() {
			g.insert(k, condition.End(), " && func() bool { "+g.tester+".Fail(); return false }()")
		}
	}
}

func (g *goTest) canGoOn() bool { return g.request.Record != "" && !g.isLenient && g.tester != "_" }

// sides returns what a call compares, the likelier expected value first.
func sides(call *ast.CallExpr) []ast.Expr {
	all := slices.Clone(call.Args)
	slices.Reverse(all)
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 1 {
		all = append(all, method.X)
	}
	return all
}

// alterComparison alters the operand of a condition that is the expected value, and reports whether there is
// one: an operand compared by a call, made of literals, or read from a file.
func (g *goTest) alterComparison(condition ast.Expr, operands ...ast.Expr) bool {
	if slices.ContainsFunc(operands, func(operand ast.Expr) bool { return g.text(operand) == "nil" }) {
		return false
	}
	if g.alterResult(condition, operands) || g.alterExpected(condition, operands) {
		return true
	}
	reads := func(source ast.Expr) bool { return holdsCall(source, readerName.MatchString) }
	if g.request.Data && slices.ContainsFunc(operands, func(operand ast.Expr) bool { return slices.ContainsFunc(g.values(operand), reads) }) {
		g.replace(byData, condition, "")
		return true
	}
	return false
}

// sameResults are the literals by which comparing calls report that their operands are the same.
var sameResults = []string{"true", "0", `""`}

// alterResult is alterComparison for the result of a comparing call: got.Cmp(want) != 0, diff != "".
func (g *goTest) alterResult(condition ast.Expr, operands []ast.Expr) bool {
	if len(operands) != 2 {
		return false
	}
	for i, operand := range operands {
		for _, source := range g.values(operand) {
			call, ok := source.(*ast.CallExpr)
			if ok && slices.Contains(sameResults, g.text(operands[1-i])) && comparerName.MatchString(calledName(call)) && g.alterCompared(condition, call) {
				return true
			}
		}
	}
	return false
}

// alterExpected alters the first operand that is made of literals.
func (g *goTest) alterExpected(condition ast.Expr, operands []ast.Expr) bool {
	at := slices.IndexFunc(operands, func(operand ast.Expr) bool { return len(g.madeOfLiterals(operand)) > 0 })
	if at < 0 {
		return false
	}
	isOwn := func(value ast.Expr) bool { return g.scope.Pos() <= value.Pos() && value.End() <= g.scope.End() }
	g.isHanded = g.isHanded || slices.ContainsFunc(g.madeOfLiterals(operands[at]), func(v ast.Expr) bool { return !isOwn(v) })
	saw, isCovered := g.recordUncovered(func() string {
		if len(operands) != 2 {
			return ""
		}
		return g.record(operands[at], operands[1-at])
	})
	if !isCovered && (saw != "" || g.request.Way != Hold) {
		g.addAlteration(byLiteral, condition, func() { g.alterLiterals(g.madeOfLiterals(operands[at])...) })
	}
	return true
}

// recordUncovered records a comparison, unless a run without [Request.Rest] already does.
func (g *goTest) recordUncovered(record func() string) (saw string, isCovered bool) {
	edits, compared := g.edits[byLiteral], g.compared
	saw = record()
	if saw != "" && g.request.Rest {
		g.edits[byLiteral], g.compared, g.isCovered = edits, compared, true
		return saw, true
	}
	return saw, false
}

// isLiteral reports whether an expression is a single literal.
func isLiteral(e ast.Expr) bool {
	name, isName := e.(*ast.Ident)
	_, isBasic := e.(*ast.BasicLit)
	return isBasic || isName && (name.Name == "true" || name.Name == "false")
}

// alterCompared is alterComparison for the operands of a call that compares. A call that is given nothing but literals
// is itself under test.
func (g *goTest) alterCompared(condition ast.Expr, call *ast.CallExpr) bool {
	if !slices.ContainsFunc(call.Args, func(argument ast.Expr) bool { return len(g.madeOfLiterals(argument)) == 0 }) && len(call.Args) > 1 {
		return false
	}
	g.comparer = calledName(call)
	if method, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 1 {
		g.comparer = g.text(method) // its type decides what is equal
	}
	defer func() { g.comparer = "" }()
	return g.alterComparison(condition, sides(call)...)
}

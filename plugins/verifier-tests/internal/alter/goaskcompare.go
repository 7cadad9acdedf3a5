package alter

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// hold asks about a condition that must be so, or must not.
func (a *goAsker) hold(e ast.Expr, want bool) {
	switch v := e.(type) {
	case *ast.ParenExpr:
		a.hold(v.X, want)
	case *ast.UnaryExpr:
		if v.Op == token.NOT {
			a.hold(v.X, !want)
			return
		}
		a.doubt(e)
	case *ast.BinaryExpr:
		a.holdBinary(v, want)
	case *ast.CallExpr:
		a.holdCall(v, want)
	case *ast.Ident:
		made, isCall := a.made[v.Name].(*ast.CallExpr)
		if isCall && a.looks(made) {
			a.holdCall(made, want)
			return
		}
		a.compare(e, e, plainBool(want), false)
	default:
		a.compare(e, e, plainBool(want), false)
	}
}

func plainBool(b bool) string {
	if b {
		return "=true"
	}
	return "=false"
}

// inverses are what holds where an operator does not; of what is no number neither does.
var inverses = map[token.Token]token.Token{token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR}

func (a *goAsker) holdBinary(v *ast.BinaryExpr, want bool) {
	switch {
	case v.Op == token.LOR && !want, v.Op == token.LAND && want:
		a.hold(v.X, want)
		a.hold(v.Y, want)
	case v.Op == token.LOR || v.Op == token.LAND:
		first, isKnown := a.truth(v.X)
		if isKnown && first == (v.Op == token.LAND) {
			a.hold(v.Y, want)
		} else if !isKnown {
			a.doubt(v)
		}
	case (v.Op == token.EQL) == want && (v.Op == token.EQL || v.Op == token.NEQ):
		a.equal(v.X, v.Y, "")
	case v.Op == token.EQL, v.Op == token.NEQ:
		a.ask(a.text(v), v, plainBool(want), nil, false)
	case inverses[v.Op] != 0:
		text := a.text(v)
		if !want && strings.Contains(a.sources[a.fileOf(v)], "NaN") {
			text = "!(" + text + ")"
		} else if !want {
			text = a.text(v.X) + " " + inverses[v.Op].String() + " " + a.text(v.Y)
		}
		a.ask(text, v, "=true", nil, false)
	default:
		a.doubt(v)
	}
}

// looks reports whether a call compares, so that what it is given says what is expected.
func (a *goAsker) looks(c *ast.CallExpr) bool {
	selected, isMethod := c.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return comparerName.MatchString(calledName(c)) && len(c.Args) > 1
	}
	name, isName := selected.X.(*ast.Ident)
	isOfPackage := isName && a.imports[name.Name] != "" && !a.locals[name.Name]
	return isOfPackage && !a.isCode(name.Name) && len(c.Args) > 1 || !isOfPackage && strictName.MatchString(selected.Sel.Name) && len(c.Args) == 1
}

func (a *goAsker) holdCall(c *ast.CallExpr, want bool) {
	selected, isMethod := c.Fun.(*ast.SelectorExpr)
	switch {
	case !a.looks(c):
		a.compare(c, c, plainBool(want), false)
	case want && strictName.MatchString(calledName(c)) && len(c.Args) == 2:
		a.equal(c.Args[0], c.Args[1], calledName(c))
	case want && isMethod && len(c.Args) == 1:
		a.equal(selected.X, c.Args[0], selected.Sel.Name+" of its own")
	default:
		a.doubt(c)
	}
}

// assertion asks about what a function with the name compares.
func (a *goAsker) assertion(name string, args []ast.Expr) {
	name = strings.TrimSuffix(name, "f")
	switch {
	case len(args) > 0 && (name == "NoError" || name == "Nil"):
		a.ask("("+a.text(args[0])+") == nil", args[0], "=true", nil, false)
	case len(args) > 0 && (name == "Error" || name == "NotNil"):
		a.ask("("+a.text(args[0])+") != nil", args[0], "=true", nil, false)
	case len(args) > 0 && (name == "True" || name == "False"):
		a.hold(args[0], name == "True")
	case len(args) > 1 && strictName.MatchString(name):
		a.equal(args[0], args[1], name)
	case len(args) > 1 && name == "Len":
		a.ask("len("+a.text(args[0])+")", args[0], a.note(args[1]), args[1], false)
	case len(args) > 1 && name == "EqualError":
		a.ask(a.text(args[0])+".Error()", args[0], a.note(args[1]), args[1], false)
	default:
		a.doubt(args...)
	}
}

// doubt makes the calls of the code in what is compared in a way that says what is expected.
func (a *goAsker) doubt(all ...ast.Expr) {
	a.isOpen = a.isOpen || a.isAsked()
	for _, e := range all {
		ast.Inspect(e, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || a.looks(call) || !a.isOfCode(call.Fun) && !a.callsLocal(&ast.CallExpr{Fun: call.Fun}) {
				return true
			}
			a.add(goItem{text: "_ = " + a.text(call), isKept: true}, call)
			return false
		})
	}
}

// isNil reports whether an expression is known to be nil.
func (a *goAsker) isNil(e ast.Expr) bool {
	v, ok := a.value(e)
	name, isName := v.expr.(*ast.Ident)
	return ok && (isName && name.Name == "nil" || v.expr == nil && v.row == nil && v.kind != nil && zeroOf(v.kind) == "")
}

// equal asks about what must be equal, by a function of the name or an operator.
func (a *goAsker) equal(x, y ast.Expr, by string) {
	isOwn := strings.HasSuffix(by, "own")
	for _, sides := range [][2]ast.Expr{{x, y}, {y, x}} {
		if made, ok := a.madeBy(sides[0]); ok && a.looks(made) && strings.HasSuffix(calledName(made), "Diff") && len(made.Args) > 1 {
			a.equal(made.Args[0], made.Args[1], calledName(made))
			return
		}
		if a.isNil(sides[1]) {
			a.ask("("+a.text(sides[0])+") == nil", sides[0], "=true", nil, false)
			return
		}
	}
	noteX, noteY := a.note(x), a.note(y)
	switch {
	case noteX != "" && noteY != "":
	case noteY != "":
		a.compare(x, y, noteY, isOwn)
	case noteX != "":
		a.compare(y, x, noteX, isOwn)
	case a.isExpected(y, x):
		a.compare(x, y, "", isOwn)
	case a.isExpected(x, y):
		a.compare(y, x, "", isOwn)
	default:
		a.doubt(x, y)
	}
}

// madeBy is the call by which a name was given its value, or the call itself.
func (a *goAsker) madeBy(e ast.Expr) (*ast.CallExpr, bool) {
	if name, ok := e.(*ast.Ident); ok {
		e = a.made[name.Name]
	}
	call, ok := e.(*ast.CallExpr)
	return call, ok
}

// isExpected reports whether the test computes an expression without the code, unlike another.
func (a *goAsker) isExpected(e, other ast.Expr) bool {
	_, isComputed := a.program("", e, true)
	_, isOther := a.program("", other, true)
	name, isName := e.(*ast.Ident)
	return isComputed && (!isOther || isName && expectedName.MatchString(name.Name))
}

// compare asks what an expression is; where no note is given, what is expected is to be computed.
func (a *goAsker) compare(actual, expected ast.Expr, note string, isOwn bool) {
	a.ask(a.text(actual), actual, note, expected, isOwn)
}

// ask adds a question of what a text is, that is made of the node, and goes on with that made.
func (a *goAsker) ask(text string, node ast.Expr, note string, expected ast.Expr, isOwn bool) {
	if a.isAsked() {
		a.addQuestion(text, node, note, expected, isOwn)
	}
	if a.isOfCode(node) || a.callsLocal(node) {
		a.add(goItem{text: "_ = " + text, isKept: true}, node)
	}
}

func (a *goAsker) addQuestion(text string, node ast.Expr, note string, expected ast.Expr, isOwn bool) {
	answer := "_answer"
	if isOwn {
		answer = "_answerOwn"
	}
	program, ok := a.program(answer+"("+text+")", node, false)
	q := Question{File: a.fileOf(a.test), Test: a.test.Name.Name, Program: program, Value: note, Alone: a.calls < 2}
	if ok && note == "" && expected != nil {
		q.Expected, ok = a.program("_answer("+a.text(expected)+")", expected, true)
	}
	if !ok {
		a.isOpen = true
		return
	}
	if !slices.Contains(a.questions, q) {
		a.questions = append(a.questions, q)
	}
}

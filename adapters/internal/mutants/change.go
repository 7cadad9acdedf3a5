package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
)

// mutant is one change.
type mutant struct {
	id       int // from 1
	position token.Position
	from, to string
	end      end
	tried    bool
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s for %s", filepath.Base(m.position.Filename), m.position.Line, m.position.Column, m.to, m.from)
}

// instead names what stands for an operator: the function of the support code, and the
// operators that its mutants have, in the order of their numbers.
var instead = map[token.Token]struct {
	function string
	mutants  []token.Token
}{
	token.LSS: {"mutantLess", []token.Token{token.LEQ, token.GEQ}},
	token.LEQ: {"mutantLessEqual", []token.Token{token.LSS, token.GTR}},
	token.GTR: {"mutantGreater", []token.Token{token.GEQ, token.LEQ}},
	token.GEQ: {"mutantGreaterEqual", []token.Token{token.GTR, token.LSS}},
	token.ADD: {"mutantAdd", []token.Token{token.SUB}},
	token.SUB: {"mutantSub", []token.Token{token.ADD}},
	token.MUL: {"mutantMul", []token.Token{token.QUO}},
	token.QUO: {"mutantQuo", []token.Token{token.MUL}},
	token.REM: {"mutantRem", []token.Token{token.MUL}},
	token.EQL: {"", []token.Token{token.NEQ}},
	token.NEQ: {"", []token.Token{token.EQL}},
}

// edit replaces the bytes of a file from one offset to another. None of them changes on
// which line anything is.
type edit struct {
	from, to int
	text     string
}

// changer makes the mutants of one file.
type changer struct {
	fset    *token.FileSet
	info    *types.Info
	source  []byte
	skip    map[int]bool // lines without mutants
	next    func() int   // the next number
	mutants []*mutant

	edits  []edit // in the order of their nodes, outer before inner
	closes []edit // those that close what others open, in the same order
}

// file returns the source with all of its mutants in it.
func (c *changer) file(f *ast.File) []byte {
	ast.Inspect(f, c.node)
	// What closes an inner expression stands before what closes an outer one, and both
	// before what follows.
	slices.Reverse(c.closes)
	edits := slices.Concat(c.closes, c.edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b bytes.Buffer
	at := 0
	for _, e := range edits {
		b.Write(c.source[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.Write(c.source[at:])
	return b.Bytes()
}

// node makes the mutants of a node, and reports whether to go on below it.
func (c *changer) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.CONST
	case *ast.ArrayType: // its length is a constant
		ast.Inspect(n.Elt, c.node)
		return false
	case *ast.BinaryExpr:
		c.binary(n)
	case *ast.UnaryExpr:
		c.negation(n)
	case *ast.IncDecStmt:
		c.step(n)
		return false
	}
	return true
}

func (c *changer) binary(n *ast.BinaryExpr) {
	by, ok := instead[n.Op]
	if !ok || c.skips(n.OpPos) {
		return
	}
	value := c.info.Types[n]
	if by.function == "" {
		if value.Value != nil {
			return
		}
		id := c.add(n.OpPos, n.Op, by.mutants)
		c.wrap(n, "((", fmt.Sprintf(") != mutantOn(%d))", id))
		return
	}
	operand := c.info.Types[n.X].Type
	if c.info.Types[n.X].Value != nil {
		operand = c.info.Types[n.Y].Type
	}
	arithmetic := len(by.mutants) == 1
	if arithmetic && !numeric(operand) {
		return
	}
	typed, ok := instance(value)
	if !ok || value.Value != nil && !arithmetic {
		return
	}
	id := c.add(n.OpPos, n.Op, by.mutants)
	c.wrap(n, fmt.Sprintf("%s%s(%d, ", by.function, typed, id), ")")
	at := c.offset(n.OpPos)
	c.edits = append(c.edits, edit{at, at + len(n.Op.String()), ","})
}

func (c *changer) negation(n *ast.UnaryExpr) {
	value := c.info.Types[n]
	typed, ok := instance(value)
	if n.Op != token.SUB || c.skips(n.OpPos) || !ok || !numeric(value.Type) {
		return
	}
	id := c.add(n.OpPos, n.Op, []token.Token{token.ADD})
	c.wrap(n, fmt.Sprintf("mutantNegate%s(%d, ", typed, id), ")")
	at := c.offset(n.OpPos)
	c.edits = append(c.edits, edit{at, at + 1, ""})
}

func (c *changer) step(n *ast.IncDecStmt) {
	if c.skips(n.TokPos) {
		return
	}
	other := token.INC
	if n.Tok == token.INC {
		other = token.DEC
	}
	id := c.add(n.TokPos, n.Tok, []token.Token{other})
	x := c.source[c.offset(n.X.Pos()):c.offset(n.X.End())]
	c.edits = append(c.edits, edit{c.offset(n.Pos()), c.offset(n.End()),
		fmt.Sprintf("func() { if mutantOn(%d) { %s%s } else { %s%s } }()", id, x, other, x, n.Tok)})
}

// add notes the mutants of an operator and returns the number of the first.
func (c *changer) add(at token.Pos, op token.Token, to []token.Token) int {
	first := 0
	for _, t := range to {
		id := c.next()
		if first == 0 {
			first = id
		}
		c.mutants = append(c.mutants, &mutant{id: id, position: c.fset.Position(at), from: op.String(), to: t.String()})
	}
	return first
}

func (c *changer) wrap(n ast.Node, before, after string) {
	from, to := c.offset(n.Pos()), c.offset(n.End())
	c.edits = append(c.edits, edit{from, from, before})
	c.closes = append(c.closes, edit{to, to, after})
}

func (c *changer) offset(p token.Pos) int { return c.fset.Position(p).Offset }

func (c *changer) skips(p token.Pos) bool { return c.skip[c.fset.Position(p).Line] }

// numeric reports whether a value of t can be added to and subtracted from.
func numeric(t types.Type) bool {
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0 && basic.Info()&types.IsComplex == 0
}

// instance returns how the type of a constant is written after the name of a function,
// "" for what is no constant, and whether it can be.
func instance(v types.TypeAndValue) (string, bool) {
	if v.Value == nil {
		return "", true
	}
	basic, ok := v.Type.(*types.Basic)
	if !ok || basic.Info()&types.IsUntyped != 0 {
		return "", false
	}
	return "[" + basic.Name() + "]", true
}

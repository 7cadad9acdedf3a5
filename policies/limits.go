package policies

import (
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Limits of a policy, far above what people write. They protect the process from policies that are made to
// exhaust it. The parser is recursive, so nesting is checked before parsing.
const (
	// maxSource is the maximum size of one file, maxSources that of all files of a policy together.
	maxSource  = 1 << 20
	maxSources = 4 << 20
	// maxFiles is the maximum number of files of a policy.
	maxFiles = 256
	// maxNesting is how deeply brackets, templates and operators can be nested.
	maxNesting = 128
	// maxParts is the maximum number of lines and interpolations in one string: the parser's work is quadratic in it.
	maxParts = 2000
	// maxName is the maximum length of a name or label in bytes, maxNumber that of a number.
	maxName   = 256
	maxNumber = 400
	// maxDiagnostics is the maximum number of diagnostics of each severity.
	maxDiagnostics = 100
	// maxArguments is the maximum number of arguments in all files and overrides.
	maxArguments = 10_000
	// maxWork is the number of values that the expressions of a policy can produce, including intermediate ones.
	// A string counts as one value per textUnit bytes.
	maxWork  = 50_000
	textUnit = 256
	// maxTime limits the evaluation time, in case maxWork does not.
	maxTime = 20 * time.Second
	// maxExponent limits numbers, in powers of two, to about the range of a float64: larger ones would fill the
	// memory when printed.
	maxExponent = 1100
)

// findExcess returns a diagnostic for the first token of src that exceeds a limit of the parser, or nil.
func findExcess(src []byte, name string, start hcl.Pos) *hcl.Diagnostic {
	if len(src) > maxSource {
		return limitDiagnostic(hcl.Range{Filename: name}, fmt.Sprintf("%s is larger than %s", name, Bytes(maxSource)), "")
	}
	tokens, _ := hclsyntax.LexConfig(src, name, start) // errors are reported by the parser
	n := nesting{frames: []frame{{}}}
	for _, t := range tokens {
		switch {
		case t.Type == hclsyntax.TokenIdent && len(t.Bytes) > maxName:
			return limitDiagnostic(t.Range, fmt.Sprintf("a name of %d bytes", len(t.Bytes)), "")
		case t.Type == hclsyntax.TokenNumberLit && len(t.Bytes) > maxNumber:
			return limitDiagnostic(t.Range, fmt.Sprintf("a number of %d digits", len(t.Bytes)), "")
		}
		n.add(t)
		if n.depth > maxNesting {
			return limitDiagnostic(t.Range, "nested too deeply", fmt.Sprintf("Brackets, templates and operators may be nested %d deep.", maxNesting))
		}
		if n.frames[len(n.frames)-1].parts > maxParts {
			return limitDiagnostic(t.Range, "a text of too many parts", fmt.Sprintf("A text may have %d lines and interpolations. file() reads longer ones.", maxParts))
		}
	}
	return nil
}

func limitDiagnostic(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

// nesting tracks tokens to bound the depth of the parser's stack and of the syntax tree: open brackets and
// templates, and operators, which nest to the left or right.
type nesting struct {
	frames []frame
	depth  int
}

// frame is an open bracket, quote or template. chain counts the operators since its last separator, parts the
// lines and interpolations of a string.
type frame struct {
	closes hclsyntax.TokenType
	lines  bool // the end of a line is a separator
	chain  int
	parts  int
}

var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOParen: hclsyntax.TokenCParen, hclsyntax.TokenOBrack: hclsyntax.TokenCBrack, hclsyntax.TokenOBrace: hclsyntax.TokenCBrace,
	hclsyntax.TokenOQuote: hclsyntax.TokenCQuote, hclsyntax.TokenOHeredoc: hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp: hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

func (n *nesting) add(t hclsyntax.Token) {
	top := &n.frames[len(n.frames)-1]
	switch t.Type {
	case hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		top.parts++
	default:
	}
	if t.Type == hclsyntax.TokenTemplateControl { // the rest of the template can be nested in it
		top.chain++
		n.depth++
	}
	if end, ok := closers[t.Type]; ok {
		n.frames = append(n.frames, frame{closes: end, lines: t.Type == hclsyntax.TokenOBrace})
		n.depth++
		return
	}
	switch t.Type {
	case top.closes:
		n.depth -= 1 + top.chain
		n.frames = n.frames[:len(n.frames)-1]
		if t.Type == hclsyntax.TokenCBrack { // an index expression contains the expression that it indexes
			n.frames[len(n.frames)-1].chain++
			n.depth++
		}
	case hclsyntax.TokenComma:
		n.restart(top)
	case hclsyntax.TokenNewline:
		if top.lines || len(n.frames) == 1 {
			n.restart(top)
		}
	case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent, hclsyntax.TokenBang,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
		top.chain++
		n.depth++
	default:
	}
}

func (n *nesting) restart(f *frame) {
	n.depth -= f.chain
	f.chain = 0
}

type meter struct {
	left  int
	until time.Time
	// over is the limit that was exceeded, or nil. Nothing is evaluated after that.
	over     *hcl.Diagnostic
	reported bool
}

func newMeter() *meter { return &meter{left: maxWork, until: time.Now().Add(maxTime)} }

// value evaluates an expression within the limits.
func (m *meter) value(expr hcl.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if !m.spend(expr, 1) {
		return cty.DynamicVal, hcl.Diagnostics{m.over}
	}
	v, diags := expr.Value(ctx)
	n, beyond := weigh(v, m.left)
	if beyond && m.over == nil {
		m.over = limitDiagnostic(expr.Range(), "a number out of range", "No number of a policy is as large as 1e308, or as near to 0.")
	}
	if !m.spend(expr, n) {
		return cty.DynamicVal, hcl.Diagnostics{m.over}
	}
	return v, diags
}

// spend subtracts n from the remaining work and reports whether the limits still hold.
func (m *meter) spend(expr hcl.Expression, n int) bool {
	m.left -= n
	switch {
	case m.over != nil:
	case m.left < 0:
		m.over = limitDiagnostic(expr.Range(), "the expressions are too complex", fmt.Sprintf("Results and intermediate values may total %d, where a text counts as one for each %d bytes.", maxWork, textUnit))
	case time.Now().After(m.until):
		m.over = limitDiagnostic(expr.Range(), "the expressions take too long", fmt.Sprintf("The limit is %s.", maxTime))
	}
	return m.over == nil
}

// weigh returns the number of values in v, or a number above most if there are more than that, and
// whether a number in it is out of bounds.
func weigh(v cty.Value, most int) (n int, faulty bool) {
	v, _ = v.Unmark()
	n = 1
	if v.IsNull() || !v.IsKnown() {
		return n, false
	}
	switch t := v.Type(); {
	case t == cty.String:
		n += len(v.AsString()) / textUnit
	case t == cty.Number:
		return n, isOutOfBounds(v.AsBigFloat())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && n <= most; {
			key, element := it.Element()
			if key.Type() == cty.String && !key.IsMarked() {
				n += len(key.AsString()) / textUnit
			}
			inner, bad := weigh(element, most-n)
			n, faulty = n+inner, faulty || bad
		}
	}
	return n, faulty
}

func isOutOfBounds(n *big.Float) bool {
	return n.IsInf() || n.Sign() != 0 && (n.MantExp(nil) > maxExponent || n.MantExp(nil) < -maxExponent)
}

// countedExpression is a subexpression whose evaluation is counted by a meter.
type countedExpression struct {
	hclsyntax.Expression
	m *meter
}

func (e countedExpression) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	return e.m.value(e.Expression, ctx)
}

// countParts replaces the subexpressions in the fields of expr by countedExpressions. expr keeps its type and
// is itself evaluated by [meter.value].
func (m *meter) countParts(expr hclsyntax.Expression) {
	if key, ok := expr.(*hclsyntax.ObjectConsKeyExpr); ok && !key.ForceNonLiteral {
		m.countParts(key.Wrapped) // it can be a name, as the type says
		return
	}
	if _, isCounted := expr.(countedExpression); isCounted {
		return
	}
	fields := reflect.ValueOf(expr).Elem()
	for i := range fields.NumField() {
		if !fields.Type().Field(i).IsExported() {
			continue
		}
		switch part := fields.Field(i).Addr().Interface().(type) {
		case *hclsyntax.Expression:
			m.wrap(part)
		case *[]hclsyntax.Expression:
			for k := range *part {
				m.wrap(&(*part)[k])
			}
		case *[]hclsyntax.ObjectConsItem:
			for k := range *part {
				m.countParts((*part)[k].KeyExpr)
				m.wrap(&(*part)[k].ValueExpr)
			}
		}
	}
}

func (m *meter) wrap(at *hclsyntax.Expression) {
	switch e := (*at).(type) {
	case nil:
	case *hclsyntax.LiteralValueExpr:
		if e.Val.Type() == cty.Number && !e.Val.IsNull() && isOutOfBounds(e.Val.AsBigFloat()) {
			*at = countedExpression{Expression: e, m: m}
		}
	default:
		m.countParts(e)
		// HCL finds names by walking from their parents, so the parents must remain.
		*at = countedExpression{Expression: &hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, m: m}
	}
}

func (l *loader) reportLimit(where string) {
	if !l.work.reported {
		l.work.reported = true
		l.complain(origin{rng: *l.work.over.Subject, where: where}, l.work.over.Summary, l.work.over.Detail, "Write their results instead.")
	}
}

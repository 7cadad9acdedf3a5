package policies

import (
	"fmt"
	"math/big"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const (
	// maxWork is how many values the expressions of a policy may make, what is made on
	// the way counted each time, and a text of textUnit bytes as one.
	maxWork  = 50_000
	textUnit = 256
	// maxTime is how long they may take: work is bounded before; this is for what
	// nobody thought of.
	maxTime = 20 * time.Second
	// maxExponent bounds numbers, in powers of two: beyond what a float64 holds there is
	// nothing to configure, and written out such a number fills the memory.
	maxExponent = 1100
)

// meter counts the work of the expressions of one policy and ends it.
type meter struct {
	left  int
	until time.Time
	// over is what was too much; nil as long as nothing was. What is evaluated
	// afterwards is not looked at any more.
	over *hcl.Diagnostic
	// told says that it was reported.
	told bool
}

func newMeter() *meter { return &meter{left: maxWork, until: time.Now().Add(maxTime)} }

// value evaluates an expression on account.
func (m *meter) value(expr hcl.Expression, ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if !m.spend(expr, 1) {
		return cty.DynamicVal, hcl.Diagnostics{m.over}
	}
	v, diags := expr.Value(ctx)
	n, beyond := weigh(v, m.left)
	if beyond && m.over == nil {
		m.over = excess(expr.Range(), "a number beyond all bounds")
		m.over.Detail = "No number of a policy is as large as 1e308, or as near to 0."
	}
	if !m.spend(expr, n) {
		return cty.DynamicVal, hcl.Diagnostics{m.over}
	}
	return v, diags
}

// spend takes n off what is left and reports whether that was enough.
func (m *meter) spend(expr hcl.Expression, n int) bool {
	m.left -= n
	switch {
	case m.over != nil:
	case m.left < 0:
		m.over = excess(expr.Range(), "the expressions take too much work")
		m.over.Detail = fmt.Sprintf("All that they make, on the way too, may be %d values, of which a text is one for each %d bytes.", maxWork, textUnit)
	case time.Now().After(m.until):
		m.over = excess(expr.Range(), "the expressions take too long")
		m.over.Detail = fmt.Sprintf("They are given %s.", maxTime)
	}
	return m.over == nil
}

// weigh returns how many values v is made of, or something above most when they are
// more than that, and whether a number in it is out of all bounds.
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
		return n, outOfBounds(v.AsBigFloat())
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

func outOfBounds(n *big.Float) bool {
	return n.IsInf() || n.Sign() != 0 && (n.MantExp(nil) > maxExponent || n.MantExp(nil) < -maxExponent)
}

// metered is an expression within another that is evaluated on account.
type metered struct {
	hclsyntax.Expression
	m *meter
}

// Value implements hcl.Expression.
func (e metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	return e.m.value(e.Expression, ctx)
}

// inside puts all that expr is made of on account. Expr itself stays what it is, for
// those who look at its type, and is evaluated by [meter.value].
func (m *meter) inside(expr hclsyntax.Expression) {
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		m.wrap(&e.Expression)
	case *hclsyntax.RelativeTraversalExpr:
		m.wrap(&e.Source)
	case *hclsyntax.FunctionCallExpr:
		m.wrapAll(e.Args)
	case *hclsyntax.ConditionalExpr:
		m.wrap(&e.Condition, &e.TrueResult, &e.FalseResult)
	case *hclsyntax.IndexExpr:
		m.wrap(&e.Collection, &e.Key)
	case *hclsyntax.TupleConsExpr:
		m.wrapAll(e.Exprs)
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			m.inside(e.Items[i].KeyExpr)
			m.wrap(&e.Items[i].ValueExpr)
		}
	case *hclsyntax.ObjectConsKeyExpr:
		if e.ForceNonLiteral { // else it may be a name, as its type says
			m.wrap(&e.Wrapped)
		} else {
			m.inside(e.Wrapped)
		}
	case *hclsyntax.ForExpr:
		m.wrap(&e.CollExpr, &e.KeyExpr, &e.ValExpr, &e.CondExpr)
	case *hclsyntax.SplatExpr:
		m.wrap(&e.Source, &e.Each)
	case *hclsyntax.BinaryOpExpr:
		m.wrap(&e.LHS, &e.RHS)
	case *hclsyntax.UnaryOpExpr:
		m.wrap(&e.Val)
	case *hclsyntax.TemplateExpr:
		m.wrapAll(e.Parts)
	case *hclsyntax.TemplateJoinExpr:
		m.wrap(&e.Tuple)
	case *hclsyntax.TemplateWrapExpr:
		m.wrap(&e.Wrapped)
	default: // literals and names have nothing in them
	}
}

func (m *meter) wrapAll(list []hclsyntax.Expression) {
	for i := range list {
		m.wrap(&list[i])
	}
}

func (m *meter) wrap(places ...*hclsyntax.Expression) {
	for _, at := range places {
		switch e := (*at).(type) {
		case nil:
		case *hclsyntax.LiteralValueExpr:
			if e.Val.Type() == cty.Number && !e.Val.IsNull() && outOfBounds(e.Val.AsBigFloat()) {
				*at = metered{Expression: e, m: m}
			}
		default:
			m.inside(e)
			// HCL finds names by walking from what holds them, so that they stay one level below.
			*at = metered{Expression: &hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}, m: m}
		}
	}
}

// tooMuch reports, once, what ended the evaluation.
func (l *loader) tooMuch(where string) {
	if !l.work.told {
		l.work.told = true
		l.complain(origin{rng: *l.work.over.Subject, where: where}, l.work.over.Summary, l.work.over.Detail, "Write down what they come to.")
	}
}

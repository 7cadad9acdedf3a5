package policies

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What a policy may hold. Nobody who writes a policy comes near; who sends one to
// bring down the process that reads it does. The parser recurses, so that nesting
// is looked at before it begins.
const (
	// maxSource is the size of one file, maxSources of all of a policy.
	maxSource  = 1 << 20
	maxSources = 4 << 20
	// maxFiles is the number of files that a policy is made of.
	maxFiles = 256
	// maxNesting is how deep brackets, templates and operators lie in one another.
	maxNesting = 128
	// maxParts is how many lines and insertions one text has: what the parser does with
	// them grows with their square.
	maxParts = 2000
	// maxName is the length of a name or a label in bytes, maxNumber that of a number.
	maxName   = 256
	maxNumber = 400
	// maxDiagnostics is how many things are complained about.
	maxDiagnostics = 100
	// maxArguments is the number of arguments in all files and overrides.
	maxArguments = 10_000
)

// bounded reports what in src is too large to be parsed: the diagnostic is that of
// the first such thing, and nil when there is none.
func bounded(src []byte, name string, start hcl.Pos) *hcl.Diagnostic {
	if len(src) > maxSource {
		return excess(hcl.Range{Filename: name}, tooLarge(name))
	}
	tokens, _ := hclsyntax.LexConfig(src, name, start) // the parser says what is wrong with them
	n := nesting{frames: []frame{{}}}
	for _, t := range tokens {
		switch {
		case t.Type == hclsyntax.TokenIdent && len(t.Bytes) > maxName:
			return excess(t.Range, fmt.Sprintf("a name of %d bytes", len(t.Bytes)))
		case t.Type == hclsyntax.TokenNumberLit && len(t.Bytes) > maxNumber:
			return excess(t.Range, fmt.Sprintf("a number of %d digits", len(t.Bytes)))
		}
		n.take(t)
		if n.depth > maxNesting {
			d := excess(t.Range, "nested too deep")
			d.Detail = fmt.Sprintf("Brackets, templates and operators may lie %d deep in one another.", maxNesting)
			return d
		}
		if n.frames[len(n.frames)-1].parts > maxParts {
			d := excess(t.Range, "a text of too many parts")
			d.Detail = fmt.Sprintf("A text may have %d lines and insertions. file() reads longer ones.", maxParts)
			return d
		}
	}
	return nil
}

// tooLarge says of a file that it is.
func tooLarge(name string) string {
	return fmt.Sprintf("%s is larger than %s", name, Bytes(maxSource))
}

func excess(at hcl.Range, summary string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Subject: &at}
}

// nesting follows tokens and knows an upper bound of how deep the parser's stack and
// the syntax tree are: brackets and templates that are open, and operators that wait
// for what is on their right or hold what is on their left.
type nesting struct {
	frames []frame
	depth  int
}

// frame is an open bracket, quote or template; chain counts the operators since the
// last separator in it, parts the lines and insertions of a text.
type frame struct {
	closes hclsyntax.TokenType
	lines  bool // a line's end is a separator
	chain  int
	parts  int
}

// closing has the end of what opens.
var closing = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOParen: hclsyntax.TokenCParen, hclsyntax.TokenOBrack: hclsyntax.TokenCBrack, hclsyntax.TokenOBrace: hclsyntax.TokenCBrace,
	hclsyntax.TokenOQuote: hclsyntax.TokenCQuote, hclsyntax.TokenOHeredoc: hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp: hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

func (n *nesting) take(t hclsyntax.Token) {
	top := &n.frames[len(n.frames)-1]
	switch t.Type {
	case hclsyntax.TokenStringLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
		top.parts++
	default:
	}
	if t.Type == hclsyntax.TokenTemplateControl { // what follows may lie in it
		top.chain++
		n.depth++
	}
	if end, ok := closing[t.Type]; ok {
		n.frames = append(n.frames, frame{closes: end, lines: t.Type == hclsyntax.TokenOBrace})
		n.depth++
		return
	}
	switch t.Type {
	case top.closes:
		n.depth -= 1 + top.chain
		n.frames = n.frames[:len(n.frames)-1]
		if t.Type == hclsyntax.TokenCBrack { // an index holds what it is an index of
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

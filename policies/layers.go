package policies

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// delim separates the levels of koanf's paths. Unlike ".", "/" and ":", which are common in model names, it
// cannot occur in a label.
const delim = "\x1f"

// leaf is the value type that koanf merges: an index into loader.values, which holds the unevaluated expression
// and its position.
type leaf int

// value is an argument as set by one layer.
type value struct {
	expr hcl.Expression
	at   origin
	// dir is the base of relative paths in the expression; layer is the layer's name.
	dir   string
	layer string
}

// element returns the position of an element of a literal list, or else of the whole value.
func (v value) element(i int) origin {
	at := v.at
	if list, ok := v.expr.(*hclsyntax.TupleConsExpr); ok && i < len(list.Exprs) {
		at.rng = list.Exprs[i].Range()
	}
	return at
}

// header is the opening line of a block. Koanf's maps lose the order of blocks and the positions of empty
// ones, so headers keep both.
type header struct {
	at    origin
	first int // ordinal of the first definition, which determines the order of blocks
	last  int // ordinal of the last definition, which takes precedence among exclusive blocks
}

var errReported = errors.New("reported as diagnostics")

type fileParser struct {
	l     *loader
	name  string
	dir   string
	layer string
}

// Marshal always fails: policies are never written from koanf's maps.
func (fileParser) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.New("policies are not written from merged layers")
}

// Unmarshal returns the file as nested maps of leaves.
func (p fileParser) Unmarshal(src []byte) (map[string]any, error) {
	f, diags := parsedCatalog()
	if p.name != catalogFile {
		f, diags = parse(src, p.name)
	}
	if diags.HasErrors() {
		p.l.reportSyntax(diags, "")
		return nil, errReported
	}
	out := map[string]any{}
	body, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return out, nil
	}
	p.loadIncludes(body)
	p.walk(body, language(), out, nil, "")
	return out, nil
}

func parse(src []byte, name string) (*hcl.File, hcl.Diagnostics) {
	if d := findExcess(src, name, hcl.InitialPos); d != nil {
		return nil, hcl.Diagnostics{d}
	}
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

// parsedCatalog returns the catalogue's syntax tree. It must not be modified, because all loads share it.
var parsedCatalog = sync.OnceValues(func() (*hcl.File, hcl.Diagnostics) {
	return hclsyntax.ParseConfig(catalogSource(), catalogFile, hcl.InitialPos)
})

func (p fileParser) add(expr hclsyntax.Expression, at origin) leaf {
	if p.name != catalogFile { // the catalogue is trusted, and shared by all loads
		p.l.work.countParts(expr)
	}
	p.l.values = append(p.l.values, value{expr: expr, at: at, dir: p.dir, layer: p.layer})
	return leaf(len(p.l.values) - 1)
}

// walk adds a body to out. It reports unknown keys, once for each layer that has them.
func (p fileParser) walk(body *hclsyntax.Body, b *block, out map[string]any, path []string, where string) {
	for _, a := range attributes(body) {
		at := origin{rng: a.NameRange, where: where}
		if !b.free {
			arg := b.arg(a.Name)
			if arg == nil {
				p.l.unknownArgument(at, a.Name, b)
				p.l.faulty[strings.Join(path, delim)] = true
				continue
			}
			if arg.kind == kindSecret {
				p.l.hideLiterals(a.Expr)
			}
		}
		out[a.Name] = p.add(a.Expr, origin{rng: a.Expr.Range(), where: where})
	}
	for _, blk := range body.Blocks {
		p.walkBlock(blk, b, out, path, where)
	}
}

func (p fileParser) walkBlock(blk *hclsyntax.Block, b *block, out map[string]any, path []string, where string) {
	at := origin{rng: blk.DefRange(), where: where}
	if len(path) == 0 && blk.Type == "locals" {
		p.walkLocals(blk, out)
		return
	}
	sub := b.block(blk.Type)
	if sub == nil {
		p.l.unknownBlock(at, blk.Type, b)
		return
	}
	if !p.checkLabels(blk, sub, at) {
		p.l.faulty[sub.name] = true
		return
	}
	here := blockTitle(blk.Type, blk.Labels)
	if where != "" {
		here = where + ", " + here
	}
	keys := append([]string{blk.Type}, blk.Labels...)
	full := append(slices.Clone(path), keys...)
	inner := makePath(out, keys)
	at.where = ""
	if prev, dup := p.l.recordBlock(full, at, p.name); dup {
		p.l.complain(at, "duplicate block "+here, fmt.Sprintf("The first one is at %s:%d.", prev.Filename, prev.Start.Line),
			"Put the arguments of both into one block.")
	}
	if prev := p.excludedBy(sub, full); prev != nil {
		p.l.complain(at, fmt.Sprintf("two %s blocks", blk.Type), fmt.Sprintf("The other one is at %s:%d.", prev.Filename, prev.Start.Line),
			"Only one is allowed; match blocks give some queries a strategy of their own.")
	}
	p.walk(blk.Body, sub, inner, full, here)
}

// excludedBy returns the position of another block of the same file that excludes this one, or nil.
func (p fileParser) excludedBy(sub *block, full []string) *hcl.Range {
	if sub.many || sub.label < 0 {
		return nil
	}
	for _, label := range sub.labels {
		other := append(slices.Clone(full[:len(full)-1]), label)
		if label == full[len(full)-1] {
			continue
		}
		if h := p.l.headers[strings.Join(other, delim)]; h != nil && h.at.rng.Filename == p.name {
			return &h.at.rng
		}
	}
	return nil
}

func (p fileParser) walkLocals(blk *hclsyntax.Block, out map[string]any) {
	m := makePath(out, []string{"locals"})
	for _, a := range attributes(blk.Body) {
		if prev, dup := m[a.Name].(leaf); dup {
			p.l.complain(origin{rng: a.NameRange, where: "locals"}, fmt.Sprintf("local %s is set twice", a.Name),
				fmt.Sprintf("The other one is at %s:%d.", p.name, p.l.values[prev].at.rng.Start.Line), "")
		}
		m[a.Name] = p.add(a.Expr, origin{rng: a.Expr.Range(), where: "locals"})
	}
	for _, inner := range blk.Body.Blocks {
		p.l.complain(origin{rng: inner.DefRange(), where: "locals"}, "a block within locals", "", fmt.Sprintf("Locals are arguments: write %s = { ... }.", inner.Type))
	}
}

var labelPattern = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N} ._/:@+-]*$`)

func (p fileParser) checkLabels(blk *hclsyntax.Block, sub *block, at origin) bool {
	if sub.label < 0 {
		if len(blk.Labels) > 0 {
			at.rng = blk.LabelRanges[0]
			p.l.complain(at, blk.Type+" takes no label", "", fmt.Sprintf("Write %s { ... }.", blk.Type))
			return false
		}
		return true
	}
	if len(blk.Labels) != 1 {
		example := `"name"`
		if len(sub.labels) > 0 {
			example = `"` + sub.labels[len(sub.labels)-2] + `"`
		}
		p.l.complain(at, fmt.Sprintf("%s takes one label, and has %d", blk.Type, len(blk.Labels)), "", fmt.Sprintf("Write %s %s { ... }.", blk.Type, example))
		return false
	}
	label := blk.Labels[0]
	at.rng = blk.LabelRanges[0]
	if len(sub.labels) > 0 && !slices.Contains(sub.labels, label) {
		p.l.complain(at, fmt.Sprintf("unknown %s %q", blk.Type, label), "", suggest(label, sub.labels))
		return false
	}
	if len(label) > maxName {
		p.l.complain(at, fmt.Sprintf("a name of %d bytes", len(label)), fmt.Sprintf("Names may have up to %d.", maxName), "")
		return false
	}
	if !labelPattern.MatchString(label) {
		p.l.complain(at, fmt.Sprintf("invalid name %q", label), "Names begin with a letter or digit, followed by letters, digits, spaces and . _ / : @ + -", "")
		return false
	}
	return true
}

// recordBlock records the opening line of a block. If the same file already defines the block, it returns the
// position of that definition and true.
func (l *loader) recordBlock(path []string, at origin, file string) (hcl.Range, bool) {
	l.ordinal++
	key := strings.Join(path, delim)
	h := l.headers[key]
	if h == nil {
		l.headers[key] = &header{at: at, first: l.ordinal, last: l.ordinal}
		return hcl.Range{}, false
	}
	prev := h.at.rng
	h.last = l.ordinal
	h.at = at
	return prev, prev.Filename == file
}

func (l *loader) unknownArgument(at origin, name string, b *block) {
	if sub := b.block(name); sub != nil {
		label := ""
		if sub.label >= 0 {
			label = ` "name"`
		}
		l.complain(at, name+" is a block, not an argument", "", fmt.Sprintf("Write %s%s { ... } without an equals sign.", name, label))
		return
	}
	hint := cmp.Or(didYouMean(name, b.argNames()), didYouMean(name, b.blockNames()), topLevelHint(name, b))
	if hint == "" && len(b.args) > 0 {
		hint = "Arguments here: " + strings.Join(b.argNames(), ", ") + "."
	}
	l.complain(at, fmt.Sprintf("unknown argument %q", name), "", hint)
}

// topLevelHint returns a hint if a name in the block b belongs to the top level, or else "".
func topLevelHint(name string, b *block) string {
	top := language()
	if b == top || top.block(name) == nil && top.arg(name) == nil && name != "locals" {
		return ""
	}
	return fmt.Sprintf("It belongs to the top level of the file, outside of %s.", b.name)
}

func (l *loader) unknownBlock(at origin, name string, b *block) {
	if arg := b.arg(name); arg != nil {
		l.complain(at, name+" is an argument, not a block", "", fmt.Sprintf("Write %s = ...: it takes %s.", name, l.expects(arg)))
		return
	}
	names := b.blockNames()
	if b == language() {
		names = append(names, "locals")
	}
	hint := didYouMean(name, names)
	for _, n := range names {
		if hint == fmt.Sprintf("Did you mean %q?", n) {
			l.faulty[n] = true
		}
	}
	hint = cmp.Or(hint, topLevelHint(name, b))
	if hint == "" && len(names) > 0 {
		hint = "Blocks here: " + strings.Join(names, ", ") + "."
	}
	l.complain(at, fmt.Sprintf("unknown block %q", name), "", hint)
}

// hideLiterals adds the literals in a secret argument to the secrets, so that no diagnostic shows them.
// Arguments of functions are names, not secrets, and are left out.
func (l *loader) hideLiterals(expr hclsyntax.Expression) {
	v := &literals{l: l}
	_ = hclsyntax.Walk(expr, v)
}

type literals struct {
	l     *loader
	calls int
}

func (w *literals) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.FunctionCallExpr:
		w.calls++
	case *hclsyntax.LiteralValueExpr:
		if w.calls == 0 && n.Val.Type() == cty.String && !n.Val.IsNull() {
			w.l.secrets = append(w.l.secrets, n.Val.AsString())
		}
	}
	return nil
}

func (w *literals) Exit(n hclsyntax.Node) hcl.Diagnostics {
	if _, ok := n.(*hclsyntax.FunctionCallExpr); ok {
		w.calls--
	}
	return nil
}

func attributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte })
}

// makePath returns the map at the end of a path, creating missing maps.
func makePath(tree map[string]any, keys []string) map[string]any {
	for _, k := range keys {
		if _, ok := tree[k].(map[string]any); !ok {
			tree[k] = map[string]any{}
		}
		tree = child(tree, k)
	}
	return tree
}

// blockTitle returns a block's type and labels as written in a policy: model "small".
func blockTitle(typ string, labels []string) string {
	for _, label := range labels {
		typ += fmt.Sprintf(" %q", label)
	}
	return typ
}

// maxCompared is the largest number of names that are compared for a suggestion.
const maxCompared = 1000

// didYouMean returns a question with the most similar of the names, or "". Long names, and very many names, are
// not compared: each comparison costs the product of the two lengths.
func didYouMean(given string, names []string) string {
	const longest = 64
	if len(given) > longest || len(names) > maxCompared {
		return ""
	}
	best, distance := "", max(2, len(given)/3)+1
	for _, n := range names {
		if n == given || len(n)-len(given) >= distance {
			continue
		}
		if d := levenshtein.Distance(strings.ToLower(given), strings.ToLower(n), nil); d < distance {
			best, distance = n, d
		}
	}
	if best == "" && len(given) >= 3 {
		if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, given+"_") }); i >= 0 {
			best = names[i]
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("Did you mean %q?", best)
}

func suggest(given string, names []string) string {
	if len(names) == 0 {
		return "None is defined."
	}
	hint, near := "Choose among "+strings.Join(namesOf(names, strconv.Quote), ", ")+".", didYouMean(given, names)
	if near != "" && len(names) == 1 {
		return near
	}
	return strings.TrimSpace(near + " " + hint)
}

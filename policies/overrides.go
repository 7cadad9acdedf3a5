package policies

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

const envPrefix = "STEPFALL__"

// parseEnv is env/v2's TransformFunc: STEPFALL__MODEL__SMALL__BASE_URL becomes the path of base_url in
// model "small". Names are compared in upper case, with "_" in place of anything but letters and digits.
func (l *loader) parseEnv(name, text string) (string, any) {
	at := l.addOverlay("env "+name, name, text)
	tokens := strings.Split(strings.TrimPrefix(name, envPrefix), "__")
	complain := l.complain
	if l.isValue {
		complain = func(origin, string, string, string) { l.ignored = append(l.ignored, name) }
	}
	path, arg, ok := l.find(tokens, at, complain, func(given, key string) bool { return given == normalize(key) })
	if !ok {
		return "", nil
	}
	return strings.Join(path, delim), l.overlayValue(arg, at, text)
}

func normalize(key string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, key)
}

func (l *loader) parseSet(text string) map[string]any {
	left, right, ok := strings.Cut(text, "=")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	at := l.addOverlay("--set", left, right)
	if !ok {
		l.complain(at, fmt.Sprintf("--set %s has no value", left), "", "Write --set budget.step_usd=0.05.")
		return nil
	}
	if d := findExcess([]byte(left), "--set", hcl.InitialPos); d != nil {
		l.complain(at, d.Summary, d.Detail, "")
		return nil
	}
	traversal, diags := hclsyntax.ParseTraversalAbs([]byte(left), "--set", hcl.InitialPos)
	if diags.HasErrors() {
		l.complain(at, fmt.Sprintf("--set %s is not the path of an argument", left), "",
			`Write names with dots, and labels in brackets when they hold more than letters, digits, - and _: model["gpt-4.1"].base_url.`)
		return nil
	}
	tokens, ok := tokensOf(traversal)
	if !ok {
		l.complain(at, fmt.Sprintf("--set %s: labels are strings", left), "", `Write model["gpt-4.1"].base_url.`)
		return nil
	}
	path, arg, ok := l.find(tokens, at, l.complain, func(given, key string) bool { return given == key })
	if !ok {
		return nil
	}
	var out any = l.overlayValue(arg, at, right)
	for _, key := range slices.Backward(path) {
		out = map[string]any{key: out}
	}
	return out.(map[string]any)
}

// addOverlay adds a one-line source for an override, so that diagnostics can show it.
func (l *loader) addOverlay(layer, name, text string) origin {
	file := layer
	for i := 2; l.sources[file] != nil; i++ {
		file = fmt.Sprintf("%s (%d)", layer, i)
	}
	l.sources[file] = []byte(name + "=" + text)
	from := len(name) + 1
	return origin{rng: hcl.Range{
		Filename: file,
		Start:    hcl.Pos{Line: 1, Byte: from},
		End:      hcl.Pos{Line: 1, Byte: from + len(text)},
	}}
}

// tokensOf returns the names and labels of a path, and false if a label is not a string.
func tokensOf(path hcl.Traversal) (tokens []string, ok bool) {
	for _, step := range path {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			tokens = append(tokens, step.Name)
		case hcl.TraverseAttr:
			tokens = append(tokens, step.Name)
		case hcl.TraverseIndex:
			if step.Key.Type() != cty.String {
				return nil, false
			}
			tokens = append(tokens, step.Key.AsString())
		}
	}
	return tokens, true
}

// overlayValue turns the text of an override into a value: literally for string arguments, unless the text is
// quoted, and otherwise as an expression.
func (l *loader) overlayValue(arg *argument, at origin, text string) leaf {
	var expr hclsyntax.Expression = &hclsyntax.LiteralValueExpr{Val: cty.StringVal(text), SrcRange: at.rng} // used if the text is not an expression
	takesText := arg != nil && (arg.kind == kindText || arg.kind == kindDuration || arg.kind == kindSize)
	if !takesText || strings.HasPrefix(text, `"`) {
		if d := findExcess([]byte(text), at.rng.Filename, at.rng.Start); d != nil {
			l.complain(at, d.Summary, d.Detail, "")
			expr = &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: at.rng}
		} else if own, diags := hclsyntax.ParseExpression([]byte(text), at.rng.Filename, at.rng.Start); !diags.HasErrors() &&
			!slices.ContainsFunc(own.Variables(), func(t hcl.Traversal) bool { return t.RootName() != "local" }) {
			expr = own
		}
	}
	if arg != nil && arg.kind == kindSecret {
		l.hideLiterals(expr)
	}
	l.work.countParts(expr)
	l.values = append(l.values, value{expr: expr, at: at, dir: l.dir, layer: at.rng.Filename})
	return leaf(len(l.values) - 1)
}

// find resolves the tokens of an override along the language and the labels in the files, and calls complain
// once if that fails. The argument is nil within a plugin's config.
func (l *loader) find(tokens []string, at origin, complain func(at origin, summary, detail, hint string), same func(given, key string) bool) ([]string, *argument, bool) {
	b, tree := language(), l.tree
	var path []string
	label := ""
	for i := 0; i < len(tokens); i++ {
		token, last := tokens[i], i == len(tokens)-1
		if b.free {
			key := strings.ToLower(token)
			if match := matchingKeys(slices.Collect(maps.Keys(tree)), token, same); len(match) == 1 {
				key = match[0]
			}
			path = append(path, key)
			if last {
				return path, nil, true
			}
			tree = child(tree, key)
			continue
		}
		if match := matchingKeys(b.argNames(), token, same); last && len(match) == 1 {
			return append(path, match[0]), b.arg(match[0]), true
		}
		match := matchingKeys(b.blockNames(), token, same)
		if len(match) == 0 {
			names := append(b.argNamesOf(label), b.blockNames()...)
			complain(at, fmt.Sprintf("%s has no %q", blockPath(path), token), "", cmp.Or(didYouMean(token, names), "Names here: "+strings.Join(names, ", ")+"."))
			return nil, nil, false
		}
		b, label = b.block(match[0]), ""
		path, tree = append(path, match[0]), child(tree, match[0])
		if b.label < 0 {
			continue
		}
		if i++; i == len(tokens) {
			break
		}
		labels := slices.Sorted(maps.Keys(tree))
		match = matchingKeys(labels, tokens[i], same)
		switch len(match) {
		case 0:
			detail, hint := "An override changes what the files have; it adds nothing.", suggest(tokens[i], labels)
			if b.name == "strategy" && len(labels) == 1 {
				detail += fmt.Sprintf(" The strategy of %s is %s, which has %s.", cmp.Or(strings.Join(path[:len(path)-1], " "), "the policy"), labels[0], strings.Join(b.argNamesOf(labels[0]), ", "))
				hint = fmt.Sprintf("Name one of these in %s, or change the strategy in the file.", labels[0])
			}
			complain(at, fmt.Sprintf("no %s is called %q", b.name, tokens[i]), detail, hint)
			return nil, nil, false
		case 1:
			label = match[0]
			path, tree = append(path, label), child(tree, label)
		default:
			complain(at, fmt.Sprintf("%q could be %s %q or %q", tokens[i], b.name, match[0], match[1]), "",
				"Use --set, where names are written as they are.")
			return nil, nil, false
		}
	}
	complain(at, blockPath(path)+" is a block", "", "Name one of its arguments: "+strings.Join(b.argNamesOf(label), ", ")+".")
	return nil, nil, false
}

func blockPath(path []string) string {
	if len(path) == 0 {
		return "a policy"
	}
	return strings.Join(path, " ")
}

func matchingKeys(keys []string, given string, same func(given, key string) bool) []string {
	var found []string
	for _, k := range keys {
		if same(given, k) {
			found = append(found, k)
		}
	}
	return found
}

func child(tree map[string]any, key string) map[string]any {
	m, _ := tree[key].(map[string]any)
	return m
}

package policies

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// secretMark marks values that env has read. HCL never prints a marked value, and marks whatever is computed from it.
type secretMark struct {
	name string
	set  bool
}

func secretOf(marks cty.ValueMarks) *secretMark {
	for m := range marks {
		if m, ok := m.(secretMark); ok {
			return &m
		}
	}
	return nil
}

// secondsMark marks numbers that are seconds, as returned by the function duration.
type secondsMark struct{}

func functionNames() []string { return []string{"env", "file", "duration", "min", "max"} }

// maxFile limits what the function file reads, in bytes.
const maxFile = 1 << 20

func (l *loader) functions(dir string) map[string]function.Function {
	return map[string]function.Function{
		"env": textFunction("name", cty.String, "the name of a variable cannot be a secret itself", l.env),
		"file": textFunction("path", cty.String, "the name of a file cannot be a secret", func(path string) (cty.Value, error) {
			path = resolve(dir, path)
			content, err := l.read(path, maxFile, false)
			if err == nil && !utf8.Valid(content) {
				err = fmt.Errorf("%s is not UTF-8 text", path)
			}
			return cty.StringVal(string(content)), err
		}),
		"duration": textFunction("text", cty.Number, "a duration cannot be a secret", func(text string) (cty.Value, error) {
			d, err := time.ParseDuration(text)
			if err != nil {
				return cty.NilVal, fmt.Errorf("invalid duration %q: write \"1.5s\", \"2m\" or \"1h30m\"", text)
			}
			return cty.NumberFloatVal(d.Seconds()).Mark(secondsMark{}), nil
		}),
		"min": stdlib.MinFunc,
		"max": stdlib.MaxFunc,
	}
}

func (l *loader) env(name string) (cty.Value, error) {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsControl(r) }) {
		return cty.NilVal, fmt.Errorf("%.40q is not a variable name", name)
	}
	v := l.environ[name]
	if l.o.WithoutSecrets {
		v = ""
	}
	if v != "" {
		l.secrets = append(l.secrets, v)
	}
	return cty.StringVal(v).Mark(secretMark{name: name, set: v != ""}), nil
}

// textFunction returns a function of one string, which fails with the message ifSecret if it is a secret.
func textFunction(parameter string, result cty.Type, ifSecret string, f func(text string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(result),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if args[0].IsMarked() {
				return cty.NilVal, function.NewArgErrorf(0, "%s", ifSecret)
			}
			v, err := f(args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return v, nil
		},
	})
}

func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}

func (l *loader) scope(dir string) *hcl.EvalContext {
	if s, ok := l.scopes[dir]; ok {
		return s
	}
	s := &hcl.EvalContext{Functions: l.functions(dir), Variables: map[string]cty.Value{}}
	l.scopes[dir] = s
	return s
}

// evalLocals evaluates the locals in the order of their dependencies.
func (l *loader) evalLocals(tree map[string]any) {
	l.locals = map[string]cty.Value{}
	var open []string // those being evaluated, outermost first
	var visit func(name string)
	visit = func(name string) {
		id, isLocal := tree[name].(leaf)
		_, isKnown := l.locals[name]
		switch at := slices.Index(open, name); {
		case at >= 0:
			l.complain(l.values[id].at, fmt.Sprintf("local %s refers to itself", name), strings.Join(append(open[at:], name), " -> "), "Give one of them a value of its own.")
			return
		case !isLocal || isKnown:
			return
		}
		open = append(open, name)
		l.locals[name] = cty.DynamicVal
		for _, used := range localsOf(l.values[id].expr) {
			visit(used)
		}
		open = open[:len(open)-1]
		if result, ok := l.eval(l.values[id], tree); ok {
			l.locals[name] = result
		}
	}
	for _, name := range sortedKeys(tree) {
		visit(name)
	}
	l.localTree = tree
}

func localsOf(expr hcl.Expression) []string {
	var names []string
	for _, t := range expr.Variables() {
		if t.RootName() == "local" && len(t) > 1 {
			if attr, ok := t[1].(hcl.TraverseAttr); ok {
				names = append(names, attr.Name)
			}
		}
	}
	return names
}

// localName returns the name of the local that an expression refers to. If it refers to none, it reports an error.
func (l *loader) localName(t hcl.Traversal, at origin) (string, bool) {
	if t.RootName() != "local" {
		text := t.RootName()
		if attr, ok := t[len(t)-1].(hcl.TraverseAttr); ok {
			text = attr.Name
		}
		l.complain(at, fmt.Sprintf("%s is not known here", t.RootName()), "Expressions can use local values and functions.",
			fmt.Sprintf("Names and strings are quoted: %q.", text))
		return "", false
	}
	if len(t) < 2 {
		l.complain(at, "which local?", "", "Write local.name.")
		return "", false
	}
	attr, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		l.complain(at, "locals are named with a dot", "", "Write local.name.")
	}
	return attr.Name, ok
}

// eval evaluates an expression, or reports why it has no value. An unknown value with ok means that the fault
// has been reported at its origin.
func (l *loader) eval(v value, locals map[string]any) (cty.Value, bool) {
	known, used := true, map[string]cty.Value{}
	for _, t := range v.expr.Variables() {
		at := origin{rng: t.SourceRange(), where: v.at.where}
		name, ok := l.localName(t, at)
		if !ok {
			known = false
			continue
		}
		l.usedLocals[name] = true
		used[name] = l.locals[name]
		if _, ok := locals[name]; !ok {
			hint := ""
			if len(locals) <= maxCompared { // otherwise not even sorted
				hint = didYouMean(name, sortedKeys(locals))
			}
			l.complain(at, fmt.Sprintf("there is no local %q", name), "", cmp.Or(hint, "Define it: locals { "+name+" = ... }."))
			known = false
		}
	}
	if !known {
		return cty.DynamicVal, false
	}
	scope := l.scope(v.dir)
	scope.Variables["local"] = cty.ObjectVal(used)
	result, diags := l.work.value(v.expr, scope)
	if l.work.over != nil {
		l.reportLimit(v.at.where)
		return cty.DynamicVal, false
	}
	if diags.HasErrors() {
		l.reportEvaluation(diags, v)
		return cty.DynamicVal, false
	}
	return result, true
}

// reportEvaluation reports why an expression has no value, rewording messages about HCL's internals.
func (l *loader) reportEvaluation(diags hcl.Diagnostics, v value) {
	for _, d := range diags {
		at := v.at
		if d.Subject != nil {
			at.rng = *d.Subject
		}
		switch d.Summary {
		case "Call to unknown function":
			hint := "The functions are " + strings.Join(functionNames(), ", ") + "."
			name := strings.TrimSuffix(string(at.rng.SliceBytes(l.sources[at.rng.Filename])), "(")
			if near := didYouMean(name, functionNames()); near != "" {
				hint = near + " " + hint
			}
			l.complain(at, fmt.Sprintf("there is no function %q", name), "", hint)
		case "Error in function call", "Invalid function argument":
			l.reportFailedCall(d, at)
		default:
			l.reportSyntax(hcl.Diagnostics{d}, v.at.where)
		}
	}
}

func (l *loader) reportFailedCall(d *hcl.Diagnostic, at origin) {
	why := d.Detail
	for _, lead := range []string{"parameter: ", "failed: "} {
		if _, rest, ok := strings.Cut(why, lead); ok {
			why = rest
		}
	}
	called, hint := "function", ""
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
		called = call.CalledFunctionName()
	}
	if called == "file" {
		hint = "Paths are relative to the file that names them."
		if strings.HasSuffix(why, outsideError("").Error()) {
			hint = hintOutside
		}
	}
	l.complain(at, called+": "+strings.TrimSuffix(why, "."), "", hint)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func namesOf[E any](list []E, name func(E) string) []string {
	names := make([]string, len(list))
	for i, element := range list {
		names[i] = name(element)
	}
	return names
}

package policies

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// New completes and checks a policy that a program has built, as Load does for files: a zero field
// counts as absent and gets its default or the catalogue's value. name is the policy's name in
// diagnostics, and relative paths are resolved in its folder. value is not modified.
func New(name string, value *Policy, o LoadOptions) (*Policy, error) {
	l := newLoader(o)
	l.isValue = true
	l.setFolder(filepath.Dir(name))
	l.loadCatalog()
	l.loaded, l.top = []string{name}, hcl.Range{Filename: name}
	tree := map[string]any{}
	language().visit(reflect.ValueOf(value).Elem(), nil, func(path []string, a *argument, v reflect.Value) {
		inner, at := tree, origin{rng: l.top, where: settingPath(path)}
		for _, key := range path[:len(path)-1] {
			next, ok := inner[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				inner[key] = next
			}
			inner = next
		}
		last := path[len(path)-1]
		config, isConfig := reflect.TypeAssert[Config](v)
		switch {
		case a != nil:
			inner[last] = l.literal(at, a.value(v))
		case isConfig:
			inner[last] = l.configTree(at, config.values)
		default:
			inner[last] = map[string]any{}
		}
		if a == nil {
			l.recordBlock(path, at, name)
		}
	})
	if err := l.k.Load(confmap.Provider(tree, ""), nil); err != nil {
		return nil, fmt.Errorf("reading the policy %s: %w", name, err)
	}
	return l.build(name)
}

// visit calls f for every block of v, with a nil argument, and for every argument that is not zero.
func (b *block) visit(v reflect.Value, path []string, f func(path []string, a *argument, v reflect.Value)) {
	for i := range b.args {
		if field := v.Field(b.args[i].field); !field.IsZero() {
			f(append(slices.Clone(path), b.args[i].name), &b.args[i], field)
		}
	}
	for _, sub := range b.blocks {
		list := []reflect.Value{v.Field(sub.field)}
		if sub.many {
			list = nil
			for i := range v.Field(sub.field).Len() {
				list = append(list, v.Field(sub.field).Index(i))
			}
		}
		for _, one := range list {
			if one.IsZero() {
				continue
			}
			at := append(slices.Clone(path), sub.name)
			if one = reflect.Indirect(one); sub.label >= 0 {
				at = append(at, one.Field(sub.label).String())
			}
			if f(at, nil, one); !sub.free {
				sub.visit(one, at, f)
			}
		}
	}
}

// literal stores a value as if it had been written in a file.
func (l *loader) literal(at origin, v cty.Value) leaf {
	l.values = append(l.values, value{expr: &hclsyntax.LiteralValueExpr{Val: v, SrcRange: at.rng}, at: at, dir: l.dir, layer: at.rng.Filename})
	return leaf(len(l.values) - 1)
}

// value returns the field of an argument in the form of an evaluated expression.
func (a *argument) value(v reflect.Value) cty.Value {
	switch v := v.Interface().(type) {
	case Secret:
		return v.cty()
	case fmt.Stringer: // durations and sizes
		return cty.StringVal(v.String())
	}
	types := map[kind]cty.Type{
		kindText: cty.String, kindBool: cty.Bool, kindWhole: cty.Number, kindNumber: cty.Number,
		kindTexts: cty.List(cty.String), kindNumbers: cty.List(cty.Number), kindMap: cty.Map(cty.String),
	}
	converted, err := gocty.ToCtyValue(v.Interface(), types[a.kind])
	if err != nil {
		panic("policies: " + a.goName + ": " + err.Error())
	}
	return converted
}

func (s Secret) cty() cty.Value {
	return cty.StringVal(s.Reveal()).Mark(secretMark{name: s.name, set: s.Set()})
}

func (l *loader) configTree(at origin, values map[string]any) map[string]any {
	tree := make(map[string]any, len(values))
	for key, v := range values {
		switch v := v.(type) {
		case map[string]any:
			tree[key] = l.configTree(at, v)
		case Secret:
			tree[key] = l.literal(at, v.cty())
		default:
			tree[key] = l.literal(at, l.jsonValue(at, key, v))
		}
	}
	return tree
}

func (l *loader) jsonValue(at origin, key string, v any) cty.Value {
	text, err := json.Marshal(v)
	if err == nil {
		var t cty.Type
		if t, err = ctyjson.ImpliedType(text); err == nil {
			var converted cty.Value
			if converted, err = ctyjson.Unmarshal(text, t); err == nil {
				return converted
			}
		}
	}
	l.complain(at, fmt.Sprintf("%s cannot be sent to a plugin", key), err.Error(), "")
	return cty.DynamicVal
}

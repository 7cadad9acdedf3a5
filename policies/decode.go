package policies

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Setting is one argument of the effective policy and the origin of its value.
type Setting struct {
	// Path names the argument: `model "small" price input_usd_per_million`.
	Path []string `json:"path"`
	// Value is the value as written in a policy; secrets are env("NAME").
	Value string `json:"value"`
	// Origin is the place that set it: "policy.hcl:12", "env STEPFALL__...", "--set", "catalogue" or
	// "default".
	Origin string `json:"origin"`
}

func (l *loader) decode(b *block, tree map[string]any, dst reflect.Value, path []string, label string) {
	if b.free {
		c := Config{values: map[string]any{}, places: map[string]origin{"": l.blockOrigin(path)}}
		l.decodeConfigInto(tree, path, c.values, c.places, "")
		dst.Set(reflect.ValueOf(c))
		return
	}
	for i := range b.args {
		a := &b.args[i]
		id, given := tree[a.name].(leaf)
		if given && !a.applies(label) {
			l.complain(l.values[id].at, fmt.Sprintf("%s is not supported by strategy %s", a.name, label), fmt.Sprintf("It has %s.", strings.Join(b.argNamesOf(label), ", ")),
				fmt.Sprintf("Remove it, or choose a strategy that has it: %s.", strings.Join(a.kinds, ", ")))
			continue
		}
		if !given {
			if a.required {
				l.complain(l.blockOrigin(path), fmt.Sprintf("%s is missing", a.name), "", fmt.Sprintf("Add %s = ...: it takes %s.", a.name, l.expects(a)))
			}
			switch {
			case a.fallback != "" && a.applies(label):
				l.setDefault(a, dst.Field(a.field), path)
			case len(path) > 0 && path[0] == "model":
				l.addSetting(path, a.name, "", "") // the catalogue may have it
			}
			continue
		}
		l.places[strings.Join(append(slices.Clone(path), a.name), delim)] = id
		if l.assign(a, l.values[id], dst.Field(a.field)) {
			l.addSetting(path, a.name, render(dst.Field(a.field)), l.originOf(l.values[id]))
		} else {
			l.faulty[strings.Join(path, delim)] = true
		}
	}
	for _, sub := range b.blocks {
		l.decodeBlock(sub, tree, dst.Field(sub.field), path)
	}
}

func (l *loader) decodeBlock(sub *block, tree map[string]any, dst reflect.Value, path []string) {
	inner, given := tree[sub.name].(map[string]any)
	path = append(slices.Clone(path), sub.name)
	if sub.label < 0 {
		if !given && (sub.pointer || sub.free) {
			return
		}
		l.decode(sub, inner, pointee(dst), path, "")
		return
	}
	labels := l.orderLabels(inner, path)
	if len(labels) == 0 {
		if sub.required && !l.faulty[sub.name] {
			l.complain(l.blockOrigin(path), sub.name+" is missing", "", `Add strategy "cascade_route" { worth_usd = 0.05 }, or another kind: `+strings.Join(sub.labels, ", ")+".")
		}
		return
	}
	if !sub.many {
		winner := slices.MaxFunc(labels, func(a, b string) int {
			return cmp.Compare(l.header(append(slices.Clone(path), a)).last, l.header(append(slices.Clone(path), b)).last)
		})
		l.decodeLabel(sub, inner, pointee(dst), path, winner)
		return
	}
	list := reflect.MakeSlice(reflect.SliceOf(sub.typ), len(labels), len(labels))
	for i, label := range labels {
		l.decodeLabel(sub, inner, list.Index(i), path, label)
	}
	dst.Set(list)
}

func (l *loader) decodeLabel(sub *block, tree map[string]any, dst reflect.Value, path []string, label string) {
	dst.Field(sub.label).SetString(label)
	l.decode(sub, child(tree, label), dst, append(slices.Clone(path), label), label)
}

// setDefault sets dst to the default, which is written as in a policy, without quotes.
func (l *loader) setDefault(a *argument, dst reflect.Value, path []string) {
	kinds := map[kind]cty.Type{kindBool: cty.Bool, kindWhole: cty.Number, kindNumber: cty.Number}
	v, err := convert.Convert(cty.StringVal(a.fallback), cmp.Or(kinds[a.kind], cty.String))
	if err != nil || !l.assignPlain(a, value{}, v, false, dst) {
		panic("policies: invalid default of " + a.name)
	}
	l.addSetting(path, a.name, render(dst), "default")
}

// addSetting adds a setting. Settings are added in the order of the language; one without an origin is dropped at the end.
func (l *loader) addSetting(path []string, argument, value, origin string) {
	l.settings = append(l.settings, Setting{Path: append(slices.Clone(path), argument), Value: value, Origin: origin})
}

// orderLabels returns the labels under path in the order of their first definitions.
func (l *loader) orderLabels(tree map[string]any, path []string) []string {
	prefix := append(slices.Clone(path), "")
	first := func(label string) int {
		prefix[len(prefix)-1] = label
		return l.header(prefix).first
	}
	labels := sortedKeys(tree)
	slices.SortStableFunc(labels, func(a, b string) int { return cmp.Compare(first(a), first(b)) })
	return labels
}

func (l *loader) header(path []string) header {
	if h := l.headers[strings.Join(path, delim)]; h != nil {
		return *h
	}
	return header{}
}

// blockOrigin returns the opening line of the block at path, or of the nearest enclosing block, or the policy
// itself.
func (l *loader) blockOrigin(path []string) origin {
	for n := len(path); n > 0; n-- {
		if h := l.headers[strings.Join(path[:n], delim)]; h != nil {
			return h.at
		}
	}
	return origin{rng: l.top}
}

// originAt returns the position of the argument at path, or else of its block.
func (l *loader) originAt(path ...string) origin {
	if id, ok := l.places[strings.Join(path, delim)]; ok {
		return l.values[id].at
	}
	return l.blockOrigin(path)
}

func (l *loader) originIn(path []string, argument string) origin {
	return l.originAt(append(slices.Clone(path), argument)...)
}

func (l *loader) isGiven(path []string, argument string) bool {
	_, ok := l.places[strings.Join(append(slices.Clone(path), argument), delim)]
	return ok
}

// elementOrigin returns the position of element i of the list at path, or else of the list.
func (l *loader) elementOrigin(i int, path ...string) origin {
	if id, ok := l.places[strings.Join(path, delim)]; ok {
		return l.values[id].element(i)
	}
	return l.blockOrigin(path)
}

func (l *loader) originOf(v value) string {
	if v.layer == catalogFile {
		return "catalogue"
	}
	if isOverlay(v.layer) {
		return v.layer
	}
	return fmt.Sprintf("%s:%d", v.at.rng.Filename, v.at.rng.Start.Line)
}

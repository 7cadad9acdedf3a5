package policies

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// Config is the config block of an estimator or verifier, interpreted by its plugin. Nested blocks are maps.
type Config struct {
	values map[string]any
	places map[string]origin
}

// NewConfig returns a config block with these values, for [New]. Values are those that JSON can represent,
// with maps as nested blocks, and [Secret] values.
func NewConfig(values map[string]any) Config { return Config{values: values} }

// Values returns a copy of the config in JSON's types: string, float64, bool, []any and map[string]any, and
// [Secret] where env() was used.
func (c Config) Values() map[string]any {
	return copyConfig(c.values, func(s Secret) any { return s })
}

// Reveal returns a copy of the config with secrets as strings. Pass it only to the plugin that it belongs to.
func (c Config) Reveal() map[string]any {
	return copyConfig(c.values, func(s Secret) any { return s.Reveal() })
}

// Empty reports whether the block has no values.
func (c Config) Empty() bool { return len(c.values) == 0 }

// has reports whether there is a value at path, or a value that is not a block on the way to it.
func (c Config) has(path []string) bool {
	m := c.values
	for _, key := range path {
		v, ok := m[key]
		if !ok {
			return false
		}
		inner, isMap := v.(map[string]any)
		if !isMap {
			return true
		}
		m = inner
	}
	return true
}

// contains reports whether v, of a config, is or contains the text.
func contains(v any, text string) bool {
	switch v := v.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return contains(element, text) })
	case map[string]any:
		for _, element := range v {
			if contains(element, text) {
				return true
			}
		}
	}
	return false
}

func copyConfig(m map[string]any, secret func(Secret) any) map[string]any {
	var one func(v any) any
	one = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			return copyConfig(v, secret)
		case []any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = one(v[i])
			}
			return list
		case Secret:
			return secret(v)
		}
		return v
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = one(v)
	}
	return out
}

func (l *loader) decodeConfigInto(tree map[string]any, path []string, out map[string]any, places map[string]origin, prefix string) {
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		at := append(slices.Clone(path), key)
		dotted := strings.TrimPrefix(prefix+"."+key, ".")
		if inner, ok := tree[key].(map[string]any); ok {
			m := map[string]any{}
			out[key] = m
			places[dotted] = l.blockOrigin(at)
			l.decodeConfigInto(inner, at, m, places, dotted)
			continue
		}
		id, ok := tree[key].(leaf)
		if !ok {
			continue
		}
		v := l.values[id]
		places[dotted] = v.at
		result, ok := l.eval(v, l.localTree)
		if !ok || !result.IsWhollyKnown() {
			continue
		}
		l.reportUnsetSecrets(result, v.at)
		out[key] = fromCty(result)
		l.addSetting(path, key, render(reflect.ValueOf(out[key])), l.originOf(v))
	}
}

// reportUnsetSecrets reports the variables that texts of a plugin's config name and that are not set, if nothing else
// takes their place.
func (l *loader) reportUnsetSecrets(v cty.Value, at origin) {
	var names []string
	_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) { // the callback never fails
		plain, marks := v.Unmark()
		for m := range marks {
			if m, ok := m.(secretMark); ok && !m.set && !plain.IsNull() && plain.Type() == cty.String && plain.AsString() == "" {
				names = append(names, m.name)
			}
		}
		return true, nil
	})
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		l.reportUnset(name, at, "The plugin would get an empty text. If it needs no secret, leave the line out.")
	}
}

// fromCty converts a cty value to JSON's types. Marked strings become secrets.
func fromCty(v cty.Value) any {
	v, marks := v.Unmark()
	secret := secretOf(marks)
	switch t := v.Type(); {
	case v.IsNull():
		return nil
	case secret != nil:
		if !secret.set || v.Type() != cty.String {
			return Secret{name: secret.name}
		}
		return NewSecret(secret.name, v.AsString())
	case t == cty.String:
		return v.AsString()
	case t == cty.Number:
		n, _ := v.AsBigFloat().Float64()
		return n
	case t == cty.Bool:
		return v.True()
	case isMap(t):
		m := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			key, _ = key.Unmark()
			m[key.AsString()] = fromCty(element)
		}
		return m
	case isList(t):
		list := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			list = append(list, fromCty(element))
		}
		return list
	}
	return nil
}

package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"
)

// Normalize returns config in JSON's types: a []string becomes []any, an int a float64, a
// [time.Duration] a string such as "1m30s".
func Normalize(config map[string]any) (map[string]any, error) {
	data, err := json.Marshal(withDurations(config))
	if err != nil {
		return nil, fmt.Errorf("config is not JSON: %w", err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	if out == nil {
		out = map[string]any{}
	}
	return out, nil
}

func withDurations(v any) any {
	switch v := v.(type) {
	case time.Duration:
		return v.String()
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = withDurations(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withDurations(e)
		}
		return out
	}
	return v
}

// Check returns config with defaults filled in, and everything that is wrong with it. config has
// JSON's types (see [Normalize]) and is not modified.
func (s *Schema) Check(config map[string]any) (map[string]any, Diagnostics) {
	return checkObject(s.Fields, config, nil)
}

func checkObject(fields []Field, config map[string]any, path []string) (map[string]any, Diagnostics) {
	out := make(map[string]any, len(fields))
	var ds Diagnostics
	for i := range fields {
		f := &fields[i]
		at := append(slices.Clip(path), f.Name)
		v := config[f.Name]
		if v == nil {
			if f.Required {
				ds = append(ds, Diagnostic{Path: at, Summary: "required argument is missing", Detail: "add " + f.hint()})
			} else if f.Default != nil {
				out[f.Name] = f.Default
			}
			continue
		}
		if f.Deprecated != "" {
			ds = append(ds, Diagnostic{Severity: Warning, Path: at, Summary: "argument is deprecated", Detail: f.Deprecated})
		}
		checked, more := f.check(v, at)
		out[f.Name], ds = checked, append(ds, more...)
	}
	names := fieldNames(fields)
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(names, name) {
			ds = append(ds, Diagnostic{Path: append(slices.Clip(path), name), Summary: "unknown argument", Detail: suggestName(name, names)})
		}
	}
	return out, ds
}

func fieldNames(fields []Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// suggestName returns a hint: the known name that name is probably a misspelling of, or all known names.
func suggestName(name string, names []string) string {
	best, hint := 3, "known are: "+strings.Join(names, ", ")
	for _, near := range names {
		if d := levenshtein.Distance(name, near, nil); d < best && d < len(near) {
			best, hint = d, fmt.Sprintf("did you mean %q?", near)
		}
	}
	return hint
}

// hint describes the values that the field accepts.
func (f *Field) hint() string {
	text := example(f.Type)
	if f.Doc != "" {
		text += ": " + f.Doc
	}
	return text
}

func example(typ string) string {
	examples := map[string]string{
		"string": "a text in quotes", "bool": "true or false", "integer": "a whole number", "duration": `a duration such as "1.5s"`,
		"list(string)": `a list such as ["a", "b"]`, "map(string)": `a map such as { name = "a" }`,
	}
	return cmp.Or(examples[typ], article(typ)+" "+typ)
}

func article(typ string) string {
	if strings.ContainsAny(typ[:min(1, len(typ))], "aio") {
		return "an"
	}
	return "a"
}

func (f *Field) check(v any, path []string) (any, Diagnostics) {
	checked, ds := f.checkType(f.Type, v, path)
	if ds.HasErrors() {
		return checked, ds
	}
	ds = append(ds, f.checkEnum(v, path)...)
	return checked, append(ds, f.checkBounds(checked, path)...)
}

func (f *Field) checkEnum(v any, path []string) Diagnostics {
	if len(f.Enum) == 0 {
		return nil
	}
	if list, ok := v.([]any); ok {
		var ds Diagnostics
		for i, e := range list {
			ds = append(ds, f.checkEnum(e, append(slices.Clip(path), strconv.Itoa(i)))...)
		}
		return ds
	}
	if slices.ContainsFunc(f.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
		return nil
	}
	allowed := make([]string, len(f.Enum))
	for i, e := range f.Enum {
		allowed[i] = fmt.Sprintf("%v", e)
	}
	return Diagnostics{{Path: path, Summary: f.show(v) + " is not one of the allowed values", Detail: "allowed are: " + strings.Join(allowed, ", ")}}
}

// show formats v for a diagnostic, without the value of a sensitive field.
func (f *Field) show(v any) string {
	if f.Sensitive {
		return "the value"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	const enough = 60
	if len(data) > enough {
		return string(data[:enough]) + "..."
	}
	return string(data)
}

func (f *Field) checkBounds(v any, path []string) Diagnostics {
	x, unit := 0.0, ""
	switch v := v.(type) {
	case float64:
		x = v
	case string:
		if f.Type == "duration" {
			d, _ := time.ParseDuration(v)
			x, unit = d.Seconds(), " s"
		} else {
			x, unit = float64(len(v)), " bytes"
		}
	case []any:
		x, unit = float64(len(v)), " elements"
	case map[string]any:
		x, unit = float64(len(v)), " entries"
	default:
		return nil
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) + unit }
	if f.Min != nil && x < *f.Min {
		return Diagnostics{{Path: path, Summary: f.show(v) + " is too small", Detail: "the minimum is " + number(*f.Min)}}
	}
	if f.Max != nil && x > *f.Max {
		return Diagnostics{{Path: path, Summary: f.show(v) + " is too large", Detail: "the maximum is " + number(*f.Max)}}
	}
	return nil
}

func (f *Field) checkType(typ string, v any, path []string) (any, Diagnostics) {
	switch given := v.(type) {
	case []any:
		if elem, ok := elementType(typ, "list("); ok {
			var ds, more Diagnostics
			out := make([]any, len(given))
			for i, e := range given {
				out[i], more = f.checkType(elem, e, append(slices.Clip(path), strconv.Itoa(i)))
				ds = append(ds, more...)
			}
			return out, ds
		}
	case map[string]any:
		if typ == "object" {
			return checkObject(f.Fields, given, path)
		}
		if elem, ok := elementType(typ, "map("); ok {
			var ds, more Diagnostics
			out := make(map[string]any, len(given))
			for k, e := range given {
				out[k], more = f.checkType(elem, e, append(slices.Clip(path), k))
				ds = append(ds, more...)
			}
			return out, ds
		}
	case float64:
		if typ == "duration" {
			return strconv.FormatFloat(given, 'f', -1, 64) + "s", nil
		}
	}
	if !isKnownType(typ) {
		return v, Diagnostics{{Path: path, Summary: "the schema has the unknown type " + strconv.Quote(typ)}}
	}
	if typ != "any" && !isScalar(typ, v) {
		return v, Diagnostics{{Path: path, Summary: fmt.Sprintf("%s is not %s %s", f.show(v), article(typ), typ), Detail: "it takes " + f.hint()}}
	}
	return v, nil
}

func isKnownType(typ string) bool {
	_, isList := elementType(typ, "list(")
	_, isMap := elementType(typ, "map(")
	return isList || isMap || slices.Contains([]string{"string", "number", "integer", "bool", "duration", "object", "any"}, typ)
}

// isScalar reports whether v is a value of the scalar type typ.
func isScalar(typ string, v any) bool {
	switch given := v.(type) {
	case string:
		_, err := time.ParseDuration(given)
		return typ == "string" || typ == "duration" && err == nil
	case bool:
		return typ == "bool"
	case float64:
		return typ == "number" || typ == "integer" && given == math.Trunc(given) && math.Abs(given) <= 1<<53
	}
	return false
}

// elementType returns T for typ "list(T)" when open is "list(".
func elementType(typ, open string) (string, bool) {
	if rest, ok := strings.CutPrefix(typ, open); ok {
		return strings.CutSuffix(rest, ")")
	}
	return "", false
}

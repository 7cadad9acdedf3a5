package policies

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// assign evaluates v into dst. If the value is not valid, it reports that and returns false.
func (l *loader) assign(a *argument, v value, dst reflect.Value) bool {
	result, ok := l.eval(v, l.localTree)
	if !ok || !result.IsKnown() {
		return false
	}
	result, marks := result.UnmarkDeep()
	secret := secretOf(marks)
	_, seconds := marks[secondsMark{}]
	if a.kind == kindSecret {
		return l.assignSecret(a, v, result, secret, dst)
	}
	if secret != nil {
		l.complain(v.at, fmt.Sprintf("%s would expose a secret", a.name), "Values from env() are secrets, allowed only in api_key and a plugin's config.",
			fmt.Sprintf("For other values from the environment, set %s%s.", envPrefix, "... instead; docs/policies.md shows how the name is made"))
		return false
	}
	if result.IsNull() {
		l.complain(v.at, a.name+" is null", "", "Leave the line out for the default.")
		return false
	}
	if !result.IsWhollyKnown() {
		return false
	}
	return l.assignPlain(a, v, result, seconds, dst)
}

func (l *loader) assignSecret(a *argument, v value, result cty.Value, secret *secretMark, dst reflect.Value) bool {
	if secret == nil || result.Type() != cty.String {
		if !result.IsNull() && result.Type() == cty.String {
			l.secrets = append(l.secrets, result.AsString())
		}
		l.complain(v.at, fmt.Sprintf("%s cannot be in plain text", a.name), "Whoever reads the policy would have the key.",
			`Put it into an environment variable: `+a.name+` = env("NAME").`)
		return false
	}
	if !secret.set {
		l.reportUnset(secret.name, v.at, "The server will reject calls that need this key.")
		dst.Set(reflect.ValueOf(Secret{name: secret.name}))
		return true
	}
	l.secrets = append(l.secrets, result.AsString())
	dst.Set(reflect.ValueOf(NewSecret(secret.name, result.AsString())))
	return true
}

func (l *loader) reportUnset(name string, at origin, hint string) {
	s := schema.Warning
	if l.o.RequireSecrets {
		s = schema.Error
	}
	if !l.o.WithoutSecrets && !l.unset[name] {
		l.unset[name] = true
		l.report(s, at, fmt.Sprintf("environment variable %s is not set", name), "", hint)
	}
}

func (l *loader) assignNumber(a *argument, v value, result cty.Value, dst reflect.Value) bool {
	n, _ := result.AsBigFloat().Float64()
	if !l.checkRange(a, v, n) {
		return false
	}
	if a.kind == kindNumber {
		pointee(dst).SetFloat(n)
		return true
	}
	if n != math.Trunc(n) || math.Abs(n) > 1e15 {
		l.complain(v.at, a.name+" is not a whole number", "It takes "+a.kind.article()+a.limits()+".", "")
		return false
	}
	dst.SetInt(int64(n))
	return true
}

func (l *loader) assignMap(result cty.Value, dst reflect.Value, wrong func() bool) bool {
	if !isMap(result.Type()) {
		return wrong()
	}
	m := map[string]string{}
	for it := result.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if element.Type() != cty.String || element.IsNull() {
			return wrong()
		}
		m[key.AsString()] = element.AsString()
	}
	dst.Set(reflect.ValueOf(m))
	return true
}

func (l *loader) assignPlain(a *argument, v value, result cty.Value, seconds bool, dst reflect.Value) bool {
	wrong := func() bool {
		l.complain(v.at, fmt.Sprintf("%s takes %s", a.name, l.expects(a)), "This is "+typeName(result.Type())+".", a.hintQuotes(result))
		return false
	}
	switch t := result.Type(); a.kind {
	case kindText:
		if t != cty.String {
			return wrong()
		}
		text := result.AsString()
		if len(a.oneOf) > 0 && !slices.Contains(a.oneOf, text) {
			l.complain(v.at, fmt.Sprintf("%s cannot be %q", a.name, text), "", suggest(text, a.oneOf))
			return false
		}
		dst.SetString(text)
	case kindBool:
		if t != cty.Bool {
			return wrong()
		}
		pointee(dst).SetBool(result.True())
	case kindWhole, kindNumber:
		if t != cty.Number || seconds {
			return wrong()
		}
		return l.assignNumber(a, v, result, dst)
	case kindDuration:
		return l.assignDuration(a, v, result, seconds, dst)
	case kindSize:
		if t != cty.String {
			return wrong()
		}
		size, err := parseBytes(result.AsString())
		if err != nil {
			return wrong()
		}
		if !l.checkRange(a, v, float64(size)) {
			return false
		}
		dst.SetInt(int64(size))
	case kindTexts:
		return l.assignTexts(a, v, result, dst, wrong)
	case kindNumbers:
		return l.assignNumbers(a, v, result, dst, wrong)
	case kindMap:
		return l.assignMap(result, dst, wrong)
	default:
		return wrong()
	}
	return true
}

func (l *loader) assignDuration(a *argument, v value, result cty.Value, seconds bool, dst reflect.Value) bool {
	var d time.Duration
	switch t := result.Type(); {
	case t == cty.Number && seconds:
		n, _ := result.AsBigFloat().Float64()
		if math.Abs(n) > math.MaxInt64/2e9 {
			l.complain(v.at, a.name+" is too long", "The longest duration is 146 years.", "")
			return false
		}
		d = time.Duration(n * float64(time.Second))
	case t == cty.Number:
		n, _ := result.AsBigFloat().Float64()
		l.complain(v.at, fmt.Sprintf("%s has no unit", a.name), "", fmt.Sprintf(`Write "%vs" for seconds, "%vms" for milliseconds.`, n, n))
		return false
	case t == cty.String:
		var err error
		if d, err = time.ParseDuration(result.AsString()); err != nil {
			l.complain(v.at, fmt.Sprintf("invalid duration %q", result.AsString()), "", `Write a number with its unit: "500ms", "1.5s", "2m", "1h30m".`)
			return false
		}
	default:
		l.complain(v.at, fmt.Sprintf("%s takes %s", a.name, l.expects(a)), "This is "+typeName(t)+".", "")
		return false
	}
	if !l.checkRange(a, v, d.Seconds()) {
		return false
	}
	dst.SetInt(int64(d))
	return true
}

func (l *loader) assignTexts(a *argument, v value, result cty.Value, dst reflect.Value, wrong func() bool) bool {
	if !isList(result.Type()) {
		return wrong()
	}
	list := []string{}
	for it := result.ElementIterator(); it.Next(); {
		_, element := it.Element()
		if element.Type() != cty.String || element.IsNull() {
			return wrong()
		}
		text, at := element.AsString(), v.element(len(list))
		if len(a.oneOf) > 0 && !slices.Contains(a.oneOf, text) {
			l.complain(at, fmt.Sprintf("%s cannot hold %q", a.name, text), "", suggest(text, a.oneOf))
			return false
		}
		if slices.Contains(list, text) {
			l.complain(at, fmt.Sprintf("%s holds %q twice", a.name, text), "", "Remove one of the two.")
			return false
		}
		list = append(list, text)
	}
	dst.Set(reflect.ValueOf(list))
	return true
}

func (l *loader) assignNumbers(a *argument, v value, result cty.Value, dst reflect.Value, wrong func() bool) bool {
	var list []float64
	add := func(element cty.Value) bool {
		if element.Type() != cty.Number || element.IsNull() {
			return wrong()
		}
		n, _ := element.AsBigFloat().Float64()
		list = append(list, n)
		return l.checkRange(a, v, n)
	}
	if isList(result.Type()) {
		for it := result.ElementIterator(); it.Next(); {
			if _, element := it.Element(); !add(element) {
				return false
			}
		}
		if len(list) == 0 {
			l.complain(v.at, a.name+" is an empty list", "", "Leave the line out for the default, or write a number.")
			return false
		}
	} else if !add(result) {
		return false
	}
	dst.Set(reflect.ValueOf(list))
	return true
}

func (l *loader) checkRange(a *argument, v value, n float64) bool {
	if math.IsInf(n, 0) || a.min != nil && n < *a.min || a.above != nil && n <= *a.above || a.max != nil && n > *a.max {
		l.complain(v.at, fmt.Sprintf("%s is out of range", a.name), "It takes "+a.kind.article()+a.limits()+".", "")
		return false
	}
	return true
}

func typeName(t cty.Type) string {
	switch {
	case t == cty.String:
		return "a string"
	case t == cty.Number:
		return "a number"
	case t == cty.Bool:
		return "true or false"
	case isList(t):
		return "a list"
	case isMap(t):
		return "a map"
	}
	return "something else"
}

func isList(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }

func isMap(t cty.Type) bool { return t.IsObjectType() || t.IsMapType() }

// pointee returns the new value that it makes dst point to, or dst itself if it is not a pointer.
func pointee(dst reflect.Value) reflect.Value {
	if dst.Kind() != reflect.Pointer {
		return dst
	}
	dst.Set(reflect.New(dst.Type().Elem()))
	return dst.Elem()
}

func (l *loader) expects(a *argument) string {
	switch {
	case len(a.oneOf) > 0 && a.kind == kindText:
		return "one of " + strings.Join(namesOf(a.oneOf, strconv.Quote), ", ")
	case a.kind == kindDuration:
		return `a duration such as "1.5s" or "2m"`
	case a.kind == kindSize:
		return `a size such as "64MiB"`
	case a.kind == kindTexts:
		return `a list of strings such as ["a", "b"]`
	case a.kind == kindMap:
		return `a map of strings such as { team = "search" }`
	}
	return a.kind.article() + a.limits()
}

// hintQuotes returns a hint if a number or boolean is in quotes, or else "".
func (a *argument) hintQuotes(given cty.Value) string {
	if given.Type() != cty.String || given.IsNull() {
		return ""
	}
	text := given.AsString()
	fits := false
	switch a.kind {
	case kindWhole, kindNumber, kindNumbers:
		fits = numeric.MatchString(text)
	case kindBool:
		fits = text == "true" || text == "false"
	default:
	}
	if !fits {
		return ""
	}
	return fmt.Sprintf("Write it without quotes: %s = %s.", a.name, text)
}

// limits returns the range of a number: " of at least 0", " from 1 to 20", " above 0".
func (a *argument) limits() string {
	switch {
	case a.min != nil && a.max != nil:
		return fmt.Sprintf(" from %v to %v", *a.min, *a.max)
	case a.above != nil && a.max != nil:
		return fmt.Sprintf(" above %v and at most %v", *a.above, *a.max)
	case a.above != nil:
		return fmt.Sprintf(" above %v", *a.above)
	case a.min != nil:
		return fmt.Sprintf(" of at least %v", *a.min)
	}
	return ""
}

package policies

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/stepfall/stepfall/sdk/redact"
)

func render(v reflect.Value) string {
	if !v.IsValid() {
		return "null"
	}
	switch value := v.Interface().(type) {
	case Secret:
		return "env(" + quote(value.name) + ")"
	case time.Duration:
		return quote(shortDuration(value))
	case Bytes:
		return quote(value.String())
	}
	switch v.Kind() {
	case reflect.String:
		return quote(redact.Addresses(v.String()))
	case reflect.Float64:
		return number(v.Float())
	case reflect.Pointer, reflect.Interface:
		return render(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Float64 && v.Len() == 1 {
			return render(v.Index(0))
		}
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = render(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		parts := make([]string, 0, v.Len())
		keys := slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		for _, key := range keys {
			parts = append(parts, quote(key.String())+" = "+render(v.MapIndex(key)))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	default:
		return fmt.Sprint(v.Interface())
	}
}

// shortDuration returns "10m" where String returns "10m0s".
func shortDuration(d time.Duration) string {
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func quote(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("\"\\$%", r) }) {
		return `"` + text + `"` // the usual case, and much faster
	}
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

package policies

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// render returns a decoded value as it is written in a policy.
func (l *loader) render(a *argument, v reflect.Value) string {
	switch value := v.Interface().(type) {
	case Secret:
		return "env(" + quote(value.name) + ")"
	case time.Duration:
		return quote(shortDuration(value))
	case Bytes:
		return quote(value.String())
	case string:
		return quote(value)
	case []string:
		quoted := make([]string, len(value))
		for i, text := range value {
			quoted[i] = quote(text)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case []float64:
		texts := make([]string, len(value))
		for i, n := range value {
			texts[i] = number(n)
		}
		if len(texts) == 1 {
			return texts[0]
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case float64:
		return number(value)
	case map[string]string:
		pairs := make([]string, 0, len(value))
		for _, k := range sortedKeys(value) {
			pairs = append(pairs, quote(k)+" = "+quote(value[k]))
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	case *bool:
		return strconv.FormatBool(*value)
	default:
		return fmt.Sprint(value)
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

// quote returns text as an HCL string.
func quote(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("\"\\$%", r) }) {
		return `"` + text + `"` // nearly always, and far faster
	}
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

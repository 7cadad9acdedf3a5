package fit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Diff returns what differs between two profiles, one line for each field in the
// order of their paths: "strategy.gamma: 1 -> 0.4". Parameters of estimators, the
// curve and how far estimates were off are long lists of numbers and are summed up in a
// line each.
func Diff(from, to *Profile) ([]string, error) {
	a, err := flat(from)
	if err != nil {
		return nil, err
	}
	b, err := flat(to)
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for p := range a {
		paths[p] = true
	}
	for p := range b {
		paths[p] = true
	}
	var lines []string
	summed := map[string]int{}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		before, had := a[p]
		after, has := b[p]
		if before == after && had == has {
			continue
		}
		if head := summary(p); head != "" {
			summed[head]++
			continue
		}
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("%s: + %s", p, after))
		case !has:
			lines = append(lines, fmt.Sprintf("%s: - %s", p, before))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", p, before, after))
		}
	}
	for _, head := range slices.Sorted(maps.Keys(summed)) {
		lines = append(lines, fmt.Sprintf("%s: %d numbers differ", head, summed[head]))
	}
	return lines, nil
}

// summary returns the part of the profile whose differences are counted only.
func summary(path string) string {
	for _, head := range []string{"curve", "estimator.quality.params", "estimator.cost.params", "calibration.ante.bins", "calibration.post.bins", "usual"} {
		if path == head || strings.HasPrefix(path, head+".") || strings.HasPrefix(path, head+"[") {
			return head
		}
	}
	return ""
}

// flat returns the profile's fields by path.
func flat(p *Profile) (map[string]string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("comparing profiles: %w", err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("comparing profiles: %w", err)
	}
	out := map[string]string{}
	flatten("", v, out)
	return out, nil
}

func flatten(path string, v any, out map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			p := name
			if path != "" {
				p = path + "." + name
			}
			flatten(p, inner, out)
		}
	case []any:
		for i, inner := range v {
			p := fmt.Sprintf("%s[%d]", path, i)
			// Models are told apart by name, not by place.
			if m, ok := inner.(map[string]any); ok && path == "models" {
				if name, ok := m["name"].(string); ok {
					p = fmt.Sprintf("%s[%s]", path, name)
				}
			}
			flatten(p, inner, out)
		}
	case float64:
		out[path] = strconv.FormatFloat(v, 'g', 6, 64)
	case nil:
		out[path] = "null"
	default:
		out[path] = fmt.Sprint(v)
	}
}

package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// Errors that a SchemaSource's error wraps.
var (
	// ErrNoPlugin means that there is no such plugin.
	ErrNoPlugin = errors.New("no such plugin")
	// ErrOtherPlugin means that there is one with another checksum, or without the role.
	ErrOtherPlugin = errors.New("not the plugin that the policy describes")
)

// The roles in which a policy uses plugins, named as plugins name them.
const (
	roleEstimator     = "quality-estimator"
	roleCostEstimator = "cost-estimator"
	roleVerifier      = "verifier"
)

// SchemaSource returns the schema of a plugin's config block for a role: "verifier",
// "quality-estimator" or "cost-estimator". A nil schema without an error accepts anything. An error
// that wraps [ErrNoPlugin] or [ErrOtherPlugin] is an error of the policy; any other error becomes a warning that
// the block was not checked.
type SchemaSource func(p Plugin, role string) (*schema.Schema, error)

func (l *loader) checkConfig(s *schema.Schema, c Config, plugin string) {
	l.checkSecrets(s.Fields, c.values, c.places, nil, plugin)
	values, err := schema.Normalize(c.Reveal())
	if err != nil {
		l.complain(c.places[""], fmt.Sprintf("the config of plugin %q cannot be sent", plugin), err.Error(), "")
		return
	}
	_, found := s.Check(values)
	for _, d := range found {
		argument := strings.Join(d.Path, ".")
		if _, refused := c.places[argument]; d.Severity == schema.Error && (followsMisspelling(found, d) || refused && !c.has(d.Path)) {
			continue // the argument is given, and its fault has been reported
		}
		l.report(d.Severity, placeOf(c.places, d.Path), fmt.Sprintf("%s of plugin %q: %s", argument, plugin, d.Summary), "", sentence(d.Detail))
	}
}

// followsMisspelling reports whether d, a missing argument, is only the consequence of a misspelled one.
func followsMisspelling(found schema.Diagnostics, d schema.Diagnostic) bool {
	if len(d.Path) == 0 {
		return false
	}
	name := d.Path[len(d.Path)-1]
	return slices.ContainsFunc(found, func(other schema.Diagnostic) bool {
		return len(other.Path) == len(d.Path) && other.Path[len(other.Path)-1] != name && strings.Contains(other.Detail, fmt.Sprintf("%q", name))
	})
}

// placeOf returns the position of the value at a path, or of its nearest parent.
func placeOf(places map[string]origin, path []string) origin {
	for n := len(path); n > 0; n-- {
		if at, ok := places[strings.Join(path[:n], ".")]; ok {
			return at
		}
	}
	return places[""]
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.ContainsAny(text[len(text)-1:], ".?!") {
		text += "."
	}
	return text
}

// checkSecrets reports secrets that the plugin would show, and sensitive values that are literals.
func (l *loader) checkSecrets(fields []schema.Field, values map[string]any, places map[string]origin, path []string, plugin string) {
	for _, name := range sortedKeys(values) {
		at := append(slices.Clone(path), name)
		i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == name })
		sensitive := i >= 0 && fields[i].Sensitive
		switch v := values[name].(type) {
		case Secret:
			if !sensitive {
				l.complain(placeOf(places, at), fmt.Sprintf("%s would expose a secret", name), fmt.Sprintf("Plugin %q does not mark it as sensitive.", plugin), "")
			}
		case string:
			if sensitive {
				l.secrets = append(l.secrets, v)
				l.complain(placeOf(places, at), fmt.Sprintf("%s cannot be in plain text", name), "", `Put it into an environment variable: `+name+` = env("NAME").`)
			}
		case map[string]any:
			if i >= 0 {
				l.checkSecrets(fields[i].Fields, v, places, at, plugin)
			}
		}
	}
}

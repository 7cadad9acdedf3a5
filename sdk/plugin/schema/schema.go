package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Schema describes a config block or an object in it.
type Schema struct {
	Doc    string  `json:"doc,omitempty"`
	Fields []Field `json:"fields"`
}

// Field is one argument.
type Field struct {
	Name string `json:"name"`
	// Type is string, number, integer, bool, duration, object, any, list(T) or map(T).
	Type     string `json:"type"`
	Required bool   `json:"required,omitempty"`
	// Default, in its JSON form, is used when the argument is absent.
	Default any `json:"default,omitempty"`
	// Min and Max are inclusive bounds of numbers, durations in seconds, and the lengths of strings, lists
	// and maps.
	Min  *float64 `json:"min,omitempty"`
	Max  *float64 `json:"max,omitempty"`
	Enum []any    `json:"enum,omitempty"`
	// Sensitive values are never shown.
	Sensitive  bool   `json:"sensitive,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
	Doc        string `json:"doc,omitempty"`
	// Fields are the fields of the object, if Type is one or a list or map of them.
	Fields []Field `json:"fields,omitempty"`
}

// Sensitive returns the string values in config of the fields that are marked as sensitive, for
// redaction.
func (s *Schema) Sensitive(config map[string]any) []string {
	if s == nil {
		return nil
	}
	return sensitive(s.Fields, config, nil)
}

func sensitive(fields []Field, config map[string]any, out []string) []string {
	for _, f := range fields {
		for _, v := range flatten(config[f.Name], nil) {
			switch v := v.(type) {
			case string:
				if f.Sensitive {
					out = append(out, v)
				}
			case map[string]any:
				out = sensitive(f.Fields, v, out)
			}
		}
	}
	return out
}

func flatten(v any, out []any) []any {
	out = append(out, v)
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = flatten(e, out)
		}
	case map[string]any:
		for _, e := range v {
			out = flatten(e, out)
		}
	}
	return out
}

// Severity is the severity of a Diagnostic.
type Severity int

// The severities.
const (
	// Error means that the config cannot be used.
	Error Severity = iota
	// Warning means that the config can be used.
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText returns the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is a problem of a config and its location.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	// Path is the path of the value, outermost first: names, and indexes in decimal. Empty means the
	// config as a whole.
	Path    []string `json:"path,omitempty"`
	Summary string   `json:"summary"`
	// Detail is a hint for fixing it.
	Detail string `json:"detail,omitempty"`
}

// String returns the diagnostic in one line.
func (d Diagnostic) String() string {
	text := d.Summary
	if len(d.Path) > 0 {
		text = strings.Join(d.Path, ".") + ": " + text
	}
	if d.Detail != "" {
		text += " (" + d.Detail + ")"
	}
	return text
}

// Diagnostics is a list of diagnostics that is also an error, so that a plugin's constructor can
// return it.
type Diagnostics []Diagnostic

// Errorf returns Diagnostics with one error at path.
func Errorf(path []string, format string, args ...any) Diagnostics {
	return Diagnostics{{Path: path, Summary: fmt.Sprintf(format, args...)}}
}

// HasErrors reports whether the config cannot be used.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Error returns the diagnostics, one per line.
func (ds Diagnostics) Error() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

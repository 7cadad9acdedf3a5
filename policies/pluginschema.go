package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoPlugin is what a SchemaSource's error wraps when there is no such plugin.
var ErrNoPlugin = errors.New("no such plugin")

// SchemaSource finds the schema of a plugin's config block. A nil schema without
// an error means that anything goes. An error that wraps [ErrNoPlugin] stops the
// policy; any other is a warning that the block was not checked.
type SchemaSource interface {
	ConfigSchema(p Plugin) (*ConfigSchema, error)
}

// SchemaFunc is a function that is a SchemaSource.
type SchemaFunc func(p Plugin) (*ConfigSchema, error)

// ConfigSchema calls f.
func (f SchemaFunc) ConfigSchema(p Plugin) (*ConfigSchema, error) { return f(p) }

// ConfigSchema describes the config block of a plugin.
type ConfigSchema struct {
	Arguments []ConfigArgument `json:"arguments,omitempty"`
	// Blocks are nested blocks, by name; a block may be left out.
	Blocks map[string]*ConfigSchema `json:"blocks,omitempty"`
}

// ConfigArgument describes one argument of a plugin's config.
type ConfigArgument struct {
	Name string `json:"name"`
	// Type is an HCL type expression: string, number, bool, list(string),
	// list(number), map(string) or any. "" is any.
	Type     string `json:"type,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Sensitive arguments take env() and are never shown.
	Sensitive bool `json:"sensitive,omitempty"`
	// Deprecated is a warning for those who set it.
	Deprecated string `json:"deprecated,omitempty"`
	// Doc says what it is for.
	Doc string `json:"doc,omitempty"`
	// Min and Max bound a number; OneOf lists the texts that are allowed.
	Min   *float64 `json:"min,omitempty"`
	Max   *float64 `json:"max,omitempty"`
	OneOf []string `json:"one_of,omitempty"`
}

func (s *ConfigSchema) argument(name string) *ConfigArgument {
	for i := range s.Arguments {
		if s.Arguments[i].Name == name {
			return &s.Arguments[i]
		}
	}
	return nil
}

// checkConfig reports where a config block does not fit its plugin's schema.
func (l *loader) checkConfig(s *ConfigSchema, values map[string]any, places map[string]origin, prefix, plugin string) {
	at := func(name string) origin {
		if o, ok := places[strings.TrimPrefix(prefix+"."+name, ".")]; ok {
			return o
		}
		return places[prefix]
	}
	names := make([]string, 0, len(s.Arguments))
	for _, a := range s.Arguments {
		names = append(names, a.Name)
		v, given := values[a.Name]
		if !given {
			if _, refused := places[strings.TrimPrefix(prefix+"."+a.Name, ".")]; a.Required && !refused && !slices.ContainsFunc(sortedKeys(values), func(k string) bool { return s.argument(k) == nil && didYouMean(k, []string{a.Name}) != "" }) {
				hint := a.Doc
				if hint == "" {
					hint = "Its type is " + a.Type + "."
				}
				l.complain(places[prefix], fmt.Sprintf("plugin %q needs %s", plugin, a.Name), "", hint)
			}
			continue
		}
		l.checkConfigValue(a, v, at(a.Name), plugin)
	}
	names = append(names, sortedKeys(s.Blocks)...)
	for _, name := range sortedKeys(values) {
		inner, isBlock := s.Blocks[name]
		if m, ok := values[name].(map[string]any); ok && isBlock {
			l.checkConfig(inner, m, places, strings.TrimPrefix(prefix+"."+name, "."), plugin)
			continue
		}
		if !slices.Contains(names, name) {
			hint := didYouMean(name, names)
			if hint == "" {
				hint = "It knows " + strings.Join(names, ", ") + "."
			}
			l.complain(at(name), fmt.Sprintf("plugin %q knows no %q", plugin, name), "", hint)
		}
	}
}

func (l *loader) checkConfigValue(a ConfigArgument, v any, at origin, plugin string) {
	if a.Deprecated != "" {
		l.warn(at, fmt.Sprintf("%s of plugin %q is deprecated", a.Name, plugin), a.Deprecated, "")
	}
	if _, secret := v.(Secret); secret {
		if !a.Sensitive {
			l.complain(at, fmt.Sprintf("%s would show a secret", a.Name), fmt.Sprintf("Plugin %q does not keep it.", plugin), "")
		}
		return
	}
	if a.Sensitive {
		if text, ok := v.(string); ok {
			l.secrets = append(l.secrets, text)
		}
		l.complain(at, fmt.Sprintf("%s must not be written down", a.Name), "", `Put it into an environment variable: `+a.Name+` = env("NAME").`)
		return
	}
	if !fits(v, a.Type) {
		l.complain(at, fmt.Sprintf("%s of plugin %q takes %s", a.Name, plugin, a.Type), "", a.Doc)
		return
	}
	if n, ok := v.(float64); ok && (a.Min != nil && n < *a.Min || a.Max != nil && n > *a.Max) {
		l.complain(at, fmt.Sprintf("%s lies outside its range", a.Name), (&argument{min: a.Min, max: a.Max}).rangeText(), a.Doc)
	}
	if text, ok := v.(string); ok && len(a.OneOf) > 0 && !slices.Contains(a.OneOf, text) {
		l.complain(at, fmt.Sprintf("%s cannot be %q", a.Name, text), "", choose(text, a.OneOf))
	}
}

func (a *argument) rangeText() string { return "It takes a number" + a.limits() + "." }

// fits reports whether a value has a type.
func fits(v any, typ string) bool {
	switch typ {
	case "", "any":
		return true
	case "string":
		_, ok := v.(string)
		return ok
	case "number":
		_, ok := v.(float64)
		return ok
	case "bool":
		_, ok := v.(bool)
		return ok
	}
	outer, inner, ok := strings.Cut(strings.TrimSuffix(typ, ")"), "(")
	if !ok {
		return true // a type that this version does not know is left to the plugin
	}
	switch outer {
	case "list", "set":
		list, ok := v.([]any)
		return ok && !slices.ContainsFunc(list, func(e any) bool { return !fits(e, inner) })
	case "map":
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for _, e := range m {
			if !fits(e, inner) {
				return false
			}
		}
	}
	return true
}

// CacheSchemas returns a source that remembers in dir, a folder that it makes,
// what source says of each binary, by the binary's SHA-256. locate returns the
// file of a plugin; its error is passed on.
func CacheSchemas(dir string, locate func(p Plugin) (string, error), source SchemaSource) SchemaSource {
	return SchemaFunc(func(p Plugin) (*ConfigSchema, error) {
		binary, err := locate(p)
		if err != nil {
			return nil, err
		}
		sum, err := checksum(binary)
		if err != nil {
			return nil, fmt.Errorf("reading plugin %s: %w", p.Name, err)
		}
		file := filepath.Join(dir, sum+".json")
		var s *ConfigSchema
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &s) == nil {
			return s, nil
		}
		if s, err = source.ConfigSchema(p); err != nil {
			return nil, err
		}
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		return s, store(file, text)
	})
}

// store writes a file so that readers see all of it or none.
func store(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".schema-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

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

	"github.com/stepfall/stepfall/sdk/plugin/schema"
)

// ErrNoPlugin is what a SchemaSource's error wraps when there is no such plugin.
var ErrNoPlugin = errors.New("no such plugin")

// The roles in which a policy uses plugins.
const (
	RoleEstimator     = "estimator"
	RoleCostEstimator = "cost estimator"
	RoleVerifier      = "verifier"
)

// SchemaSource finds the schema of a plugin's config block in a role. A nil schema
// without an error means that anything goes. An error that wraps [ErrNoPlugin]
// stops the policy; any other is a warning that the block was not checked.
type SchemaSource interface {
	ConfigSchema(p Plugin, role string) (*schema.Schema, error)
}

// SchemaFunc is a function that is a SchemaSource.
type SchemaFunc func(p Plugin, role string) (*schema.Schema, error)

// ConfigSchema calls f.
func (f SchemaFunc) ConfigSchema(p Plugin, role string) (*schema.Schema, error) { return f(p, role) }

// checkConfig reports where a config block does not fit its plugin's schema.
func (l *loader) checkConfig(s *schema.Schema, c Config, plugin string) {
	l.secretsIn(s.Fields, c.values, c.places, nil, plugin)
	values, err := schema.Normalize(c.Reveal())
	if err != nil {
		l.complain(c.places[""], fmt.Sprintf("the config of plugin %q cannot be sent", plugin), err.Error(), "")
		return
	}
	_, found := s.Check(values)
	for _, d := range found {
		argument := strings.Join(d.Path, ".")
		if _, refused := c.places[argument]; d.Severity == schema.Error && (near(found, d) || refused && !c.has(d.Path)) {
			continue // it was given, and is complained about already
		}
		severity := Error
		if d.Severity == schema.Warning {
			severity = Warning
		}
		l.report(severity, placeOf(c.places, d.Path), fmt.Sprintf("%s of plugin %q: %s", argument, plugin, d.Summary), "", sentence(d.Detail))
	}
}

// near reports whether d, a missing argument, only follows from a misspelt one.
func near(found schema.Diagnostics, d schema.Diagnostic) bool {
	if len(d.Path) == 0 {
		return false
	}
	name := d.Path[len(d.Path)-1]
	return slices.ContainsFunc(found, func(other schema.Diagnostic) bool {
		return len(other.Path) == len(d.Path) && other.Path[len(other.Path)-1] != name && strings.Contains(other.Detail, fmt.Sprintf("%q", name))
	})
}

// placeOf returns where the value at a path, or what is nearest around it, is written.
func placeOf(places map[string]origin, path []string) origin {
	for n := len(path); n > 0; n-- {
		if at, ok := places[strings.Join(path[:n], ".")]; ok {
			return at
		}
	}
	return places[""]
}

// sentence returns text with a capital and a full stop.
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

// secretsIn reports secrets where they would show, and keys that are written down.
func (l *loader) secretsIn(fields []schema.Field, values map[string]any, places map[string]origin, path []string, plugin string) {
	for _, name := range sortedKeys(values) {
		at := append(slices.Clone(path), name)
		i := slices.IndexFunc(fields, func(f schema.Field) bool { return f.Name == name })
		sensitive := i >= 0 && fields[i].Sensitive
		switch v := values[name].(type) {
		case Secret:
			if !sensitive {
				l.complain(placeOf(places, at), fmt.Sprintf("%s would show a secret", name), fmt.Sprintf("Plugin %q does not say that it keeps it.", plugin), "")
			}
		case string:
			if sensitive {
				l.secrets = append(l.secrets, v)
				l.complain(placeOf(places, at), fmt.Sprintf("%s must not be written down", name), "", `Put it into an environment variable: `+name+` = env("NAME").`)
			}
		case map[string]any:
			if i >= 0 {
				l.secretsIn(fields[i].Fields, v, places, at, plugin)
			}
		}
	}
}

// CacheSchemas returns a source that remembers in dir, a folder that it makes,
// what source says of each binary, by the binary's SHA-256. locate returns the
// file of a plugin; its error is passed on.
func CacheSchemas(dir string, locate func(p Plugin) (string, error), source SchemaSource) SchemaSource {
	return SchemaFunc(func(p Plugin, role string) (*schema.Schema, error) {
		binary, err := locate(p)
		if err != nil {
			return nil, err
		}
		sum, err := checksum(binary)
		if err != nil {
			return nil, fmt.Errorf("reading plugin %s: %w", p.Name, err)
		}
		file := filepath.Join(dir, sum+"-"+role+".json")
		var s *schema.Schema
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &s) == nil {
			return s, nil
		}
		if s, err = source.ConfigSchema(p, role); err != nil {
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

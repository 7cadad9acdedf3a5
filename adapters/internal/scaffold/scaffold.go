package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed go python
var templates embed.FS

// Options configures a new project.
type Options struct {
	// Name is the name of the plugin, its program and its folder, such as "verifier-length".
	Name string
	// Lang is go or python.
	Lang string
	// Role is verifier or quality-estimator; if empty, the prefix of Name decides.
	Role string
	// Dir is the folder to create; empty means Name.
	Dir string
	// Python is the interpreter of a Python project; empty means the one in PATH.
	Python string
	// Source is a clone of stepfall that a Go project builds against; empty means the published module.
	Source string
}

// FindPython returns an interpreter with the modules that plugins need, for Options.Python; "" is the one in PATH. ok
// is false when there is none.
func FindPython() (python string, ok bool) {
	for path, option := range map[string]string{"python3": "", "/usr/bin/python3": "/usr/bin/python3"} {
		if exec.Command(path, "-c", "import grpc, google.protobuf, cryptography").Run() == nil && (!ok || option == "") {
			python, ok = option, true
		}
	}
	return python, ok
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

const module = "github.com/stepfall/stepfall"

// Write writes the project and returns the names of its files. It refuses an existing folder that is not empty.
func Write(o Options) ([]string, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	data := project{Name: o.Name, Module: module, Block: "estimator", Python: cmp.Or(o.Python, "/usr/bin/env python3"), Verifier: o.Role == "verifier"}
	if data.Verifier {
		data.Block = "verifier"
	}
	var written []string
	err := fs.WalkDir(templates, o.Lang, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, text, err := data.render(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if name = strings.TrimPrefix(name, o.Lang+"/"); name == "program" {
			name, mode = o.Name, 0o755
		}
		return write(o.Dir, name, text, mode, &written)
	})
	if err == nil && o.Lang == "go" {
		err = writeModule(o, &written)
	}
	return written, err
}

// complete sets defaults and validates the options.
func (o *Options) complete() error {
	if !validName.MatchString(o.Name) {
		return fmt.Errorf("%q is no name for a plugin: use small letters, digits and dashes, as in verifier-length", o.Name)
	}
	o.Dir = cmp.Or(o.Dir, o.Name)
	role := "verifier"
	if strings.HasPrefix(o.Name, "estimator-") {
		role = "quality-estimator"
	}
	if o.Role = cmp.Or(o.Role, role); !slices.Contains([]string{"verifier", "quality-estimator"}, o.Role) {
		return fmt.Errorf("there is no template for the role %q: it is verifier or quality-estimator", o.Role)
	}
	if !slices.Contains([]string{"go", "python"}, o.Lang) {
		return fmt.Errorf("there is no template for %q: it is go or python", o.Lang)
	}
	entries, err := os.ReadDir(o.Dir)
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", o.Dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// project is the data of the templates.
type project struct {
	Name, Module, Block, Python string
	Verifier                    bool
}

// render renders a template, or returns a file that is not a template unchanged.
func (p *project) render(path string) (name string, text []byte, err error) {
	if text, err = templates.ReadFile(path); err != nil {
		return "", nil, err
	}
	name, isTemplate := strings.CutSuffix(path, ".tmpl")
	if !isTemplate {
		return name, text, nil
	}
	t, err := template.New(path).Parse(string(text))
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return "", nil, err
	}
	if text = b.Bytes(); strings.HasSuffix(name, ".go") {
		text, err = format.Source(text)
	}
	return name, text, err
}

func write(dir, name string, text []byte, mode fs.FileMode, written *[]string) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		return err
	}
	*written = append(*written, path)
	return nil
}

// writeModule writes go.mod. With a clone it copies the clone's requirements and
// checksums, so that the project builds without a network.
func writeModule(o Options, written *[]string) error {
	if o.Source == "" {
		return write(o.Dir, "go.mod", fmt.Appendf(nil, "module example.com/%s\n\ngo 1.26.0\n", o.Name), 0o644, written)
	}
	source, err := filepath.Abs(o.Source)
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return fmt.Errorf("reading the clone of stepfall: %w", err)
	}
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return fmt.Errorf("reading the clone of stepfall: %w", err)
	}
	_, requirements, ok := strings.Cut(string(mod), "\n")
	if !ok || !strings.HasPrefix(string(mod), "module "+module) {
		return fmt.Errorf("%s is no clone of stepfall", source)
	}
	text := fmt.Sprintf("module example.com/%s\n%s\nrequire %s v0.0.0\n\nreplace %s => %s\n", o.Name, requirements, module, module, quoteModPath(source))
	if err := write(o.Dir, "go.mod", []byte(text), 0o644, written); err != nil {
		return err
	}
	return write(o.Dir, "go.sum", sum, 0o644, written)
}

func quoteModPath(path string) string {
	if strings.ContainsAny(path, " \t\"'`") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

// FindSource returns the clone of stepfall that contains a folder, or "".
func FindSource(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module "+module+"\n") {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

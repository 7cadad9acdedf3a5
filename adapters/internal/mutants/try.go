package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed support.go.txt
var support string

// end is what came of a mutant.
type end int

const (
	lives end = iota
	fails
	outOfTime
)

// pkg is a package as go list describes it, with its types.
type pkg struct {
	Dir, ImportPath, Name string
	GoFiles               []string

	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// load parses and checks a package; what it imports is read from go's cache.
func load(ctx context.Context, pattern string) (*pkg, error) {
	listed, err := command(ctx, "go", "list", "-json=Dir,ImportPath,Name,GoFiles", pattern)
	if err != nil {
		return nil, err
	}
	p := &pkg{fset: token.NewFileSet()}
	dec := json.NewDecoder(bytes.NewReader(listed))
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("listing %s: %w", pattern, err)
	}
	if dec.More() {
		return nil, fmt.Errorf("%s is more than one package", pattern)
	}
	exports := map[string]string{}
	listed, err = command(ctx, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", pattern)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(listed)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(p.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := conf.Check(p.ImportPath, p.fset, p.files, p.info); err != nil {
		return nil, fmt.Errorf("checking %s: %w", pattern, err)
	}
	return p, nil
}

// tests is the binary of a package's tests with all mutants in it.
type tests struct {
	pkg     *pkg
	mutants []*mutant
	tmp     string
	binary  string
	all     bool // also those that -short leaves out
	timeout time.Duration
}

// build compiles the tests. Lines on which a change does not compile are left as they
// are.
func build(ctx context.Context, p *pkg, tmp string) (*tests, error) {
	t := &tests{pkg: p, tmp: tmp, binary: filepath.Join(tmp, "tests")}
	skip := make([]map[int]bool, len(p.files))
	for i := range skip {
		skip[i] = map[int]bool{}
	}
	for {
		overlay, err := t.write(skip)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-gcflags=-e", "-overlay", overlay, "-o", t.binary, p.ImportPath)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return t, nil
		}
		more := false
		for _, at := range regexp.MustCompile(`([0-9]+)\.go:([0-9]+):`).FindAllSubmatch(out, -1) {
			file, _ := strconv.Atoi(string(at[1]))
			line, _ := strconv.Atoi(string(at[2]))
			if file < len(skip) && !skip[file][line] {
				skip[file][line] = true
				more = true
			}
		}
		if !more {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", p.ImportPath, err, out)
		}
	}
}

// write puts the changed files, and the code that they need, where the returned overlay
// tells go to look for them.
func (t *tests) write(skip []map[int]bool) (string, error) {
	t.mutants = nil
	number := 0
	replace := map[string]string{}
	put := func(instead, name string, content []byte) error {
		path := filepath.Join(t.tmp, name)
		replace[instead] = path
		return os.WriteFile(path, content, 0o600)
	}
	for i, f := range t.pkg.files {
		path := filepath.Join(t.pkg.Dir, t.pkg.GoFiles[i])
		source, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		c := changer{fset: t.pkg.fset, info: t.pkg.info, source: source, skip: skip[i], next: func() int { number++; return number }}
		changed := c.file(f)
		t.mutants = append(t.mutants, c.mutants...)
		if err := put(path, fmt.Sprintf("%d.go", i), changed); err != nil {
			return "", err
		}
	}
	name := filepath.Join(t.pkg.Dir, "mutants_support.go")
	if err := put(name, "support.go", []byte("package "+t.pkg.Name+"\n"+support)); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.tmp, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// baseline runs the tests without a mutant, which have to pass, and returns the mutants
// that they reach. It sets how long a mutant may take.
func (t *tests) baseline(ctx context.Context) (map[int]bool, error) {
	log := filepath.Join(t.tmp, "reached")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return nil, err
	}
	start := time.Now()
	if out, err := t.command(ctx, !t.all, "MUTANTS_REACHED="+log).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s fail without a mutant, so that nothing can be said of them: %w\n%s", t.pkg.ImportPath, err, out)
	}
	t.timeout = 10*time.Second + 5*time.Since(start)
	content, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	reached := map[int]bool{}
	for field := range strings.FieldsSeq(string(content)) {
		id, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		reached[id] = true
	}
	return reached, nil
}

// try runs the tests with each of the mutants. It returns those whose end is known, all of
// them unless it was interrupted.
func (t *tests) try(ctx context.Context, list []*mutant, workers int) (tried []*mutant) {
	each(ctx, list, workers, func(m *mutant) {
		m.end = t.end(ctx, m, true)
		if m.end == lives && t.all {
			m.end = t.end(ctx, m, false)
		}
		m.tried = ctx.Err() == nil
	})
	for _, m := range list {
		if m.tried {
			tried = append(tried, m)
		}
	}
	return tried
}

// end returns what comes of a mutant.
func (t *tests) end(ctx context.Context, m *mutant, short bool) end {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	err := t.command(limited, short, "MUTANT="+strconv.Itoa(m.id)).Run()
	switch {
	case limited.Err() != nil:
		return outOfTime
	case err != nil:
		return fails
	}
	return lives
}

// command is a run of the tests, as go test makes it. A mutant that fills the memory is
// stopped before the machine is out of it.
func (t *tests) command(ctx context.Context, short bool, env string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 8000000 2>/dev/null; exec "$@"`, "sh", t.binary, fmt.Sprintf("-test.short=%t", short), "-test.failfast", "-test.paniconexit0")
	cmd.Dir = t.pkg.Dir
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = time.Second
	return cmd
}

func command(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(append([]string{name}, args...), " "), err, exit.Stderr)
	}
	return out, err
}

package runner

import (
	"fmt"
	"go/build"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// canary is a test that is added to a package, to run as its last. Its subtests
// pass or are skipped by a pattern of this one run: a process that ends early and
// reports what it likes does not know it. The source is removed once it is
// compiled, before anything of the package runs (see hide).
type canary struct {
	// dir is the package's folder, pkg its import path, name that in its clause.
	dir, pkg, clause string
	// test is the name of the canary, file that of its source.
	test, file string
	// skips is the pattern.
	skips []bool
	// tests are the package's own, as its source has them.
	tests []string
}

// canaryBits is how many subtests a canary has.
const canaryBits = 12

func (c *canary) source() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport \"testing\"\n\nfunc %s(t *testing.T) {\n", c.clause, c.test)
	for i, skip := range c.skips {
		body := ""
		if skip {
			body = " t.SkipNow() "
		}
		fmt.Fprintf(&b, "\tt.Run(\"%d\", func(t *testing.T) {%s})\n", i, body)
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// hide is the program for go test -exec that removes the canary's source from the
// package's folder, in which it starts, and becomes the test binary.
func hide(file string) string {
	return `sh -c 'rm -f ` + file + `; exec "$0" "$@"'`
}

// canaries returns a canary for each folder that has tests. Their names sort after
// others, and the external test package, where there is one, runs after the
// internal one.
func canaries(tree *Tree, nonce string) []canary {
	modules := modules(tree)
	found := map[string]*canary{}
	var dirs []string
	for _, file := range tree.Files {
		if !strings.HasSuffix(file, "_test.go") || hidden(file) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(tree.Dir, filepath.FromSlash(file)))
		if err != nil {
			continue
		}
		clause := packageClause(filepath.Join(tree.Dir, filepath.FromSlash(path.Dir(file))), path.Base(file), data)
		if clause == "" {
			continue
		}
		dir := path.Dir(file)
		c, ok := found[dir]
		if !ok {
			c = &canary{dir: dir, pkg: importPath(modules, dir), test: "TestStepfall" + nonce, file: "zzzz_" + strings.ToLower(nonce) + "_test.go"}
			found[dir] = c
			dirs = append(dirs, dir)
		}
		if !strings.HasSuffix(c.clause, "_test") {
			c.clause = clause
		}
		for _, match := range testFunc.FindAllSubmatch(data, -1) {
			c.tests = append(c.tests, string(match[1]))
		}
	}
	all := make([]canary, len(dirs))
	for i, dir := range dirs {
		all[i] = *found[dir]
		for range canaryBits {
			all[i].skips = append(all[i].skips, rand.IntN(2) == 1)
		}
	}
	return all
}

// testFunc finds the tests in a source. Those that lie in a comment or a raw string
// at the beginning of a line are told apart by the untouched tree, where they do
// not run either.
var testFunc = regexp.MustCompile(`(?m)^func (Test(?:[^a-z\s(][\w]*)?)\(\w+ \*testing\.T\)`)

var moduleLine = regexp.MustCompile(`(?m)^module\s+"?([^\s"]+)"?`)

// modules returns the paths of the modules in the tree, by folder.
func modules(tree *Tree) map[string]string {
	found := map[string]string{}
	for _, file := range tree.Files {
		if path.Base(file) != "go.mod" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(tree.Dir, filepath.FromSlash(file)))
		if err != nil {
			continue
		}
		if match := moduleLine.FindSubmatch(data); match != nil {
			found[path.Dir(file)] = string(match[1])
		}
	}
	return found
}

// importPath is that of a folder: of its module and its place there.
func importPath(modules map[string]string, dir string) string {
	for above := dir; ; above = path.Dir(above) {
		if module, ok := modules[above]; ok {
			return path.Join(module, strings.TrimPrefix(strings.TrimPrefix(dir, above), "/"))
		}
		if above == "." {
			return dir
		}
	}
}

// hidden reports whether go leaves a file out of every package.
func hidden(file string) bool {
	return slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") || part == "testdata" || part == "vendor"
	})
}

var packageLine = regexp.MustCompile(`(?m)^\s*package\s+(\w+)`)

// packageClause returns the package's name, or "" when there is none, or when the
// file is not built here.
func packageClause(dir, name string, source []byte) string {
	if built, err := build.Default.MatchFile(dir, name); err != nil || !built {
		return ""
	}
	match := packageLine.FindSubmatch(source)
	if match == nil {
		return ""
	}
	return string(match[1])
}

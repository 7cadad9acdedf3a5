package runner

import (
	"fmt"
	"go/build"
	"maps"
	"math/rand/v2"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// canary is a test that is added to a package, to run as its last. Its subtests
// pass or are skipped by a pattern of this one run: a process that ends early and
// reports what it likes does not know it. Controls follow, tests run in the same
// process that must be seen to fail, under names of their own and of the package's
// tests: where failing is broken, or failures are rewritten, they pass. The source
// is removed once it is compiled, before anything of the package runs (see hide).
type canary struct {
	// dir is the package's folder, pkg its import path, name that in its clause.
	dir, pkg, clause string
	// test is the name of the canary, file that of its source.
	test, file string
	// skips is the pattern.
	skips []bool
	// tests are the package's own, as its source has them.
	tests []string
	// controls are the names of tests that must be seen to fail, or to pass.
	controls map[string]Status
}

// canaryBits is how many subtests a canary has.
const canaryBits = 12

// source is small to compile: every package's tests have one, in every run.
func (c *canary) source() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t\"testing\"\n%s)\n\nfunc %s(t *testing.T) {\n", c.clause, c.imports(), c.test)
	if len(c.controls) > 0 {
		fmt.Fprintf(&b, "\tif !whole%s() {\n\t\treturn\n\t}\n", c.test)
	}
	skips := 0
	for i, skip := range c.skips {
		if skip {
			skips |= 1 << i
		}
	}
	fmt.Fprintf(&b, "\tfor i := 0; i < %d; i++ {\n\t\tskip := 0x%x>>uint(i)&1 == 1\n", len(c.skips), skips)
	b.WriteString("\t\tt.Run(string(rune('a'+i)), func(t *testing.T) {\n\t\t\tif skip {\n\t\t\t\tt.SkipNow()\n\t\t\t}\n\t\t})\n\t}\n")
	if len(c.controls) > 0 {
		c.writeControls(&b)
	}
	b.WriteString("}\n")
	if len(c.controls) > 0 {
		for i, way := range ways() {
			fmt.Fprintf(&b, "\nfunc end%s%d(t *testing.T) { %s }\n", c.test, i, way)
		}
		b.WriteString(strings.ReplaceAll(whole, "@NAME@", c.test))
	}
	return []byte(b.String())
}

// subtest is the name of the canary's subtest with the number.
func (c *canary) subtest(i int) string { return c.test + "/" + string(rune('a'+i)) }

// ways are those to fail, and that to pass.
func ways() []string { return append(slices.Clone(waysToFail), "") }

// writeControls writes the call that runs them.
func (c *canary) writeControls(b *strings.Builder) {
	// What -run asks for has the canary's name at its end (see only); what -skip does, not.
	fmt.Fprintf(b, "\ttesting.RunTests(func(pattern, name string) (bool, error) {\n\t\tconst own = %q\n\t\treturn len(pattern) >= len(own) && pattern[len(pattern)-len(own):] == own, nil\n\t}, []testing.InternalTest{\n", "^"+c.test+"$")
	for i, name := range slices.Sorted(maps.Keys(c.controls)) {
		way := len(waysToFail)
		if c.controls[name] == Fail {
			way = i % len(waysToFail)
		}
		fmt.Fprintf(b, "\t\t{Name: %q, F: end%s%d},\n", name, c.test, way)
	}
	b.WriteString("\t})\n")
}

// imports are those of [whole], under names that no package has.
func (c *canary) imports() string {
	if len(c.controls) == 0 {
		return ""
	}
	var b strings.Builder
	for _, pkg := range []string{"bytes", "fmt", "os", "unsafe"} {
		fmt.Fprintf(&b, "\tstepfall%s %q\n", pkg, pkg)
	}
	return b.String()
}

// whole is a function that reports whether the code of the test program is in memory
// as it is in its file, all of it: a canary that finds other code does not sing. It is
// compiled by the version of Go that the tree's module asks for. ELF's header and
// program headers are read where they lie, in words: the first has the kind and, above
// it, the flags, the fifth the size in the file.
const whole = `
func whole@NAME@() bool {
	program, err := stepfallos.ReadFile("/proc/self/exe")
	name, _ := stepfallos.Readlink("/proc/self/exe")
	maps, _ := stepfallos.ReadFile("/proc/self/maps")
	if err != nil || len(program) < 64 || program[4] != 2 || program[5] != 1 {
		return true
	}
	at, missing := *(*int)(stepfallunsafe.Pointer(&program[32])), 0
	for i := *(*uint16)(stepfallunsafe.Pointer(&program[56])); i > 0; i-- {
		segment := (*[5]uint64)(stepfallunsafe.Pointer(&program[at]))
		if segment[0]&0x1ffffffff == 0x100000001 {
			missing += int(segment[4])
		}
		at += int(*(*uint16)(stepfallunsafe.Pointer(&program[54])))
	}
	for _, line := range stepfallbytes.Split(maps, []byte("\n")) {
		var start, end uintptr
		var offset int
		var mode, rest string
		if n, _ := stepfallfmt.Sscanf(string(line), "%x-%x %s %x %s", &start, &end, &mode, &offset, &rest); n != 5 || mode[2] != 'x' || !stepfallbytes.HasSuffix(line, []byte(" "+name)) {
			continue
		}
		size := int(end - start)
		if size > len(program)-offset {
			size = len(program) - offset
		}
		if !stepfallbytes.Equal((*[1 << 30]byte)(stepfallunsafe.Pointer(start))[:size:size], program[offset:offset+size]) {
			return false
		}
		if missing < size {
			missing = size
		}
		missing -= size
	}
	return missing == 0
}
`

// waysToFail are those that a test has.
var waysToFail = []string{"t.Fail()", "t.FailNow()", "t.Error(1)", "t.Errorf(\"%d\", 1)", "t.Fatal(1)", "t.Fatalf(\"%d\", 1)"}

// control gives the canary its controls: each way to fail and some that pass, under
// names in an order that says nothing, and a failure of each test of the package.
func (c *canary) control() {
	c.controls = map[string]Status{}
	for i := range 3 * len(waysToFail) {
		status := Fail
		if i >= len(waysToFail) && rand.IntN(2) == 1 {
			status = Pass
		}
		c.controls[fmt.Sprintf("%sC%02d", c.test, i)] = status
	}
	for _, test := range c.tests {
		c.controls[test] = Fail
	}
}

// hide is the program for go test -exec that removes the canary's source from the
// package's folder, in which it starts, and becomes the test binary.
func hide(file string) string {
	return `sh -c 'rm -f ` + file + `; exec "$0" "$@"'`
}

// canaries returns a canary for each folder that has tests. Their names sort after
// others, and the external test package, where there is one, runs after the
// internal one.
func canaries(tree *Tree, nonce string, controlled bool) []canary {
	modules := modules(tree)
	found := map[string]*canary{}
	var dirs []string
	for _, file := range tree.Files {
		if !strings.HasSuffix(file, "_test.go") || hidden(file) {
			continue
		}
		data, err := tree.read(file)
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
		if controlled {
			all[i].control()
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
		data, err := tree.read(file)
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

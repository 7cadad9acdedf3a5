package runner

import (
	"fmt"
	"go/build"
	"maps"
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

func (c *canary) source() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t\"testing\"\n%s)\n\nfunc %s(t *testing.T) {\n", c.clause, c.imports(), c.test)
	if len(c.controls) > 0 {
		fmt.Fprintf(&b, "\tif !whole%s() {\n\t\treturn\n\t}\n", c.test)
	}
	for i, skip := range c.skips {
		body := ""
		if skip {
			body = " t.SkipNow() "
		}
		fmt.Fprintf(&b, "\tt.Run(\"%d\", func(t *testing.T) {%s})\n", i, body)
	}
	if len(c.controls) > 0 {
		b.WriteString("\ttesting.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{\n")
		for i, name := range slices.Sorted(maps.Keys(c.controls)) {
			body := ""
			if c.controls[name] == Fail {
				body = " " + waysToFail[i%len(waysToFail)] + " "
			}
			fmt.Fprintf(&b, "\t\t{Name: %q, F: func(t *testing.T) {%s}},\n", name, body)
		}
		b.WriteString("\t})\n")
	}
	b.WriteString("}\n")
	if len(c.controls) > 0 {
		b.WriteString(strings.ReplaceAll(whole, "@NAME@", c.test))
	}
	return []byte(b.String())
}

// imports are those of [whole], under names that no package has.
func (c *canary) imports() string {
	if len(c.controls) == 0 {
		return ""
	}
	var b strings.Builder
	for _, pkg := range []string{"bytes", "os", "strconv", "strings", "encoding/binary", "unsafe"} {
		fmt.Fprintf(&b, "\tstepfall%s %q\n", path.Base(pkg), pkg)
	}
	return b.String()
}

// whole is a function that reports whether the code of the test program is in memory
// as it is in its file, all of it: a canary that finds other code does not sing. It is
// compiled by the version of Go that the tree's module asks for.
const whole = `
func whole@NAME@() bool {
	program, err := stepfallos.Open("/proc/self/exe")
	if err != nil {
		return true
	}
	defer program.Close()
	name, _ := stepfallos.Readlink("/proc/self/exe")
	maps, err := stepfallos.ReadFile("/proc/self/maps")
	head := make([]byte, 64)
	if _, short := program.ReadAt(head, 0); err != nil || short != nil || head[4] != 2 || head[5] != 1 {
		return true
	}
	at, size := stepfallbinary.LittleEndian.Uint64(head[32:]), stepfallbinary.LittleEndian.Uint16(head[54:])
	var missing uint64
	for i := 0; i < int(stepfallbinary.LittleEndian.Uint16(head[56:])); i++ {
		segment := make([]byte, size)
		if _, err := program.ReadAt(segment, int64(at)+int64(i)*int64(size)); err != nil {
			return true
		}
		if kind, flags := stepfallbinary.LittleEndian.Uint32(segment), stepfallbinary.LittleEndian.Uint32(segment[4:]); kind == 1 && flags&1 != 0 {
			missing += stepfallbinary.LittleEndian.Uint64(segment[32:])
		}
	}
	for _, line := range stepfallstrings.Split(string(maps), "\n") {
		fields := stepfallstrings.Fields(line)
		if len(fields) < 6 || !stepfallstrings.Contains(fields[1], "x") || fields[5] != stepfallstrings.TrimSuffix(name, " (deleted)") {
			continue
		}
		from, to, _ := stepfallstrings.Cut(fields[0], "-")
		start, _ := stepfallstrconv.ParseUint(from, 16, 64)
		end, _ := stepfallstrconv.ParseUint(to, 16, 64)
		offset, _ := stepfallstrconv.ParseInt(fields[2], 16, 64)
		want := make([]byte, end-start)
		n, _ := program.ReadAt(want, offset)
		have := (*[1 << 30]byte)(stepfallunsafe.Pointer(uintptr(start)))
		if n > len(have) || !stepfallbytes.Equal(have[:n:n], want[:n]) {
			return false
		}
		if missing < uint64(n) {
			missing = uint64(n)
		}
		missing -= uint64(n)
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

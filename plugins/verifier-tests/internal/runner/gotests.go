package runner

import (
	"go/build"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goTests are the tests that the sources of a package have.
type goTests struct {
	pkg   string
	tests []string
}

// testsOf returns the tests of each folder that has some.
func testsOf(tree *Tree) []goTests {
	modules, at := modules(tree), map[string]int{}
	var all []goTests
	for _, file := range tree.Files {
		if !strings.HasSuffix(file, "_test.go") || hidden(file) {
			continue
		}
		data, err := tree.read(file)
		if err != nil || !isBuilt(filepath.Join(tree.Dir, filepath.FromSlash(path.Dir(file))), path.Base(file), data) {
			continue
		}
		i, known := at[path.Dir(file)]
		if !known {
			i = len(all)
			at[path.Dir(file)] = i
			all = append(all, goTests{pkg: importPath(modules, path.Dir(file))})
		}
		for _, match := range testFunc.FindAllSubmatch(data, -1) {
			all[i].tests = append(all[i].tests, string(match[1]))
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

// isBuilt reports whether a file is one of a package here.
func isBuilt(dir, name string, source []byte) bool {
	built, err := build.Default.MatchFile(dir, name)
	return err == nil && built && packageLine.Match(source)
}

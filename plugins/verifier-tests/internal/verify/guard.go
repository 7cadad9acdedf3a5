package verify

import (
	"path"
	"slices"
	"strings"
)

// testFiles are the patterns of files that decide about an answer: of base names,
// or of paths when they hold a slash. DIR/** is all below DIR, **/DIR/** below any
// folder of that name. They are for files that are new, and for commands that do
// not say where their tests came from; what the pre-flight saw comes on top.
var testFiles = append([]string{
	"*_test.go",
	"test_*.py", "*_test.py", "tests.py", "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini",
	"**/tests/**", "**/__tests__/**", "**/testdata/**", "test/**", "**/src/test/**", "**/spec/**.rb",
	"*Test.java", "*Tests.java", "*TestCase.java", "*IT.java", "*Test.kt", "*Tests.kt", "*Test.groovy", "*Spec.groovy", "*Test.scala", "*Spec.scala",
	"*Test.cs", "*Tests.cs", "*Test.php", "*_test.rb", "test_*.rb", "*_spec.rb", "*_test.exs", "*_test.dart", "*_test.cc", "*_test.cpp", "*_unittest.cc",
	// What tests compare with.
	"**/__snapshots__/**", "*.snap", "*.golden", "**/__fixtures__/**",
	// What takes the place of other modules, and what is loaded before all tests.
	"**/__mocks__/**", "jest.setup.*", "jest-setup.*", "vitest.setup.*", "vitest-setup.*", "setupTests.*", "setup-tests.*", "setup-jest.*", "test-setup.*", "test_helper.*", "spec_helper.*",
	// Programs and libraries that were installed into the tree, and what was compiled.
	"**/node_modules/**", "**/.venv/**", "**/venv/**", "**/site-packages/**", "**/__pycache__/**", "*.pyc", "*.pth",
}, scriptTests()...)

// dataFolders often hold what tests compare with, and sometimes code.
var dataFolders = []string{"snapshots", "golden", "goldens", "fixtures"}

// isExpectedData reports whether a file looks like what tests compare with: it lies in a
// folder of that name and is not code.
func isExpectedData(file string) bool {
	switch path.Ext(file) {
	case ".py", ".go", ".js", ".cjs", ".mjs", ".ts", ".tsx", ".jsx", ".java", ".kt", ".rs", ".rb", ".php", ".c", ".h", ".cc", ".cpp", ".cs", ".swift", ".scala", ".sh":
		return false
	}
	return slices.ContainsFunc(strings.Split(path.Dir(file), "/"), func(part string) bool { return slices.Contains(dataFolders, part) })
}

// isConfiguration reports whether a file tells programs how to build and to run, by its
// name: settings, manifests, rules.
func isConfiguration(file string) bool {
	switch path.Ext(file) {
	case ".toml", ".cfg", ".ini", ".json", ".yaml", ".yml", ".lock", ".mod", ".sum", ".work", ".xml", ".gradle", ".kts", ".mk", ".inc", ".cmake", ".bazel", ".properties", ".csproj", ".sln", ".gemspec":
		return true
	}
	base := path.Base(file)
	return slices.Contains([]string{"Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "Rakefile", "Gemfile", "build.rs", "setup.py", "noxfile.py", "Justfile", "justfile", "requirements.txt"}, base) ||
		strings.Contains(base, ".config.") || strings.Contains("/"+file, "/vendor/")
}

// scriptTests are the names that test runners of JavaScript look for.
func scriptTests() []string {
	var patterns []string
	for _, extension := range []string{"js", "ts", "mjs", "cjs", "mts", "cts", "jsx", "tsx"} {
		for _, name := range []string{"*.test.", "*.spec.", "*-test.", "*_test.", "test-*.", "test."} {
			patterns = append(patterns, name+extension)
		}
		patterns = append(patterns, "**/test/**."+extension)
	}
	return patterns
}

// guard knows the files that an answer may not change.
type guard struct {
	names     map[string]bool // base names
	ends      [][2]string     // beginnings and ends of base names
	folders   []string        // beginnings of paths, with a slash
	anywhere  [][2]string     // folders with a slash before and after, and the end of names
	basenames []string        // other patterns
	paths     []string
}

// newGuard reads the patterns; those that are none match nothing.
func newGuard(patterns []string) *guard {
	g := &guard{names: map[string]bool{}}
	for _, pattern := range patterns {
		folder, end, below := strings.Cut(strings.TrimPrefix(pattern, "**/"), "/**")
		anywhere := strings.HasPrefix(pattern, "**/")
		special := strings.ContainsAny(pattern, `?[\`)
		before, after, star := strings.Cut(pattern, "*")
		switch {
		case below && anywhere:
			g.anywhere = append(g.anywhere, [2]string{"/" + folder + "/", end})
		case below && end == "":
			g.folders = append(g.folders, folder+"/")
		case strings.Contains(pattern, "/"):
			g.paths = append(g.paths, pattern)
		case special || strings.Contains(after, "*"):
			g.basenames = append(g.basenames, pattern)
		case star:
			g.ends = append(g.ends, [2]string{before, after})
		default:
			g.names[pattern] = true
		}
	}
	return g
}

// has reports whether one of the patterns matches the file.
func (g *guard) has(file string) bool {
	base := path.Base(file)
	matches := func(name string) func(pattern string) bool {
		return func(pattern string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil
		}
	}
	return g.names[base] ||
		slices.ContainsFunc(g.ends, func(e [2]string) bool {
			return len(base) >= len(e[0])+len(e[1]) && strings.HasPrefix(base, e[0]) && strings.HasSuffix(base, e[1])
		}) ||
		slices.ContainsFunc(g.folders, func(folder string) bool { return strings.HasPrefix(file, folder) }) ||
		slices.ContainsFunc(g.anywhere, func(a [2]string) bool { return strings.Contains("/"+file, a[0]) && strings.HasSuffix(file, a[1]) }) ||
		slices.ContainsFunc(g.basenames, matches(base)) ||
		slices.ContainsFunc(g.paths, matches(file))
}

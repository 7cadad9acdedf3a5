package verify

import (
	"path"
	"slices"
	"strings"
)

// testFiles are the patterns of files that decide about an answer: of base names,
// or of paths when they hold a slash. DIR/** is all below DIR, **/DIR/** below any
// folder of that name.
var testFiles = []string{
	"*_test.go",
	"test_*.py", "*_test.py", "conftest.py", "pytest.ini", "tox.ini",
	"*.test.js", "*.test.ts", "*.test.mjs", "*.test.cjs", "*.test.jsx", "*.test.tsx",
	"**/tests/**", "**/__tests__/**", "**/__snapshots__/**", "**/testdata/**", "test/**",
	"*.spec.js", "*.spec.ts", "*.spec.mjs", "*.spec.cjs", "*.spec.jsx", "*.spec.tsx",
}

// guard knows the files that an answer may not change.
type guard struct {
	names     map[string]bool // base names
	ends      [][2]string     // beginnings and ends of base names
	folders   []string        // beginnings of paths, with a slash
	anywhere  []string        // folders with a slash before and after
	basenames []string        // other patterns
	paths     []string
}

// newGuard reads the patterns; those that are none match nothing.
func newGuard(patterns []string) *guard {
	g := &guard{names: map[string]bool{}}
	for _, pattern := range patterns {
		folder, below := strings.CutSuffix(pattern, "/**")
		dir, anywhere := strings.CutPrefix(folder, "**/")
		special := strings.ContainsAny(pattern, `?[\`)
		before, after, star := strings.Cut(pattern, "*")
		switch {
		case below && anywhere:
			g.anywhere = append(g.anywhere, "/"+dir+"/")
		case below:
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
		slices.ContainsFunc(g.anywhere, func(folder string) bool { return strings.Contains("/"+file, folder) }) ||
		slices.ContainsFunc(g.basenames, matches(base)) ||
		slices.ContainsFunc(g.paths, matches(file))
}

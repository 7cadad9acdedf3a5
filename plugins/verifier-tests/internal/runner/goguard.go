package runner

import (
	"go/version"
	"path"
	"regexp"
	"slices"

	"golang.org/x/mod/modfile"
)

var _ ContentGuard = (*goTest)(nil)

var (
	importsTesting = regexp.MustCompile(`(?m)^\s*(import\s+)?(\w+\s+)?"(testing|testing/\w+|net/http/httptest|github\.com/stretchr/testify/\w+|gotest\.tools/\S+)"`)
	// failer is the interface of a test as assertion helpers have it, which need not
	// import package testing.
	failer = regexp.MustCompile(`interface\s*\{[^}]*\b(FailNow|Helper)\(\)`)
)

// Decides: files of other packages that judge for the tests, and go.mod where it
// says from where code comes.
func (g *goTest) Decides(file string, before, after []byte) bool {
	if path.Base(file) == "go.mod" {
		return !sameSources(before, after)
	}
	if path.Ext(file) != ".go" {
		return false
	}
	return importsTesting.Match(before) || failer.Match(before)
}

// sameSources reports whether two go.mod files take the module, and the code of
// others, from the same places. What is required may differ: it comes from the
// module cache, whose content does not.
func sameSources(before, after []byte) bool {
	old, err := modfile.Parse("go.mod", before, nil)
	if err != nil {
		return true // nothing runs there
	}
	now, err := modfile.Parse("go.mod", after, nil)
	if err != nil {
		return false
	}
	return slices.Equal(sources(old), sources(now)) && version.Compare(language(now), language(old)) >= 0
}

// language is that of a module, in which its tests are compiled too: before go1.22 a
// loop had one variable for all rounds, so that parallel subtests may all try the last.
func language(f *modfile.File) string {
	if f.Go == nil {
		return "go1.16"
	}
	return "go" + f.Go.Version
}

func sources(f *modfile.File) []string {
	var all []string
	if f.Module != nil {
		all = append(all, "module "+f.Module.Mod.Path)
	}
	for _, r := range f.Replace {
		all = append(all, "replace "+r.Old.String()+" => "+r.New.String())
	}
	for _, e := range f.Exclude {
		all = append(all, "exclude "+e.Mod.String())
	}
	for _, i := range f.Ignore {
		all = append(all, "ignore "+i.Path)
	}
	for _, d := range f.Godebug {
		all = append(all, "godebug "+d.Key+"="+d.Value)
	}
	if f.Toolchain != nil {
		all = append(all, "toolchain "+f.Toolchain.Name)
	}
	slices.Sort(all)
	return all
}

// Suspect: see [ContentGuard].
func (g *goTest) Suspect(*Tree, string, []byte, []byte) string { return "" }

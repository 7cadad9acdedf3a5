package verify

import (
	"bytes"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/patch"
	"github.com/stepfall/stepfall/sdk/regular"
)

// deciders are the files that decide about the answers to one tree. They keep their content whatever an answer
// changes. They are known from the files that the pre-flight's tests came from, from what the command runs and
// reads ([runner.Follow]), from their content ([runner.Decides]) and from their names ([guard]), including the
// names that symbolic links give them.
type deciders struct {
	v *Verifier
	t *tree
	// files are those known by path; tests are those of them that tests came from.
	files, tests map[string]bool
	// followed are the patterns of files that the command reads, built those of build output that it may reuse.
	followed, built *guard
	// before is the pre-flight, or nil.
	before *preflight
}

// decidersOf returns the deciders of the tree. before can be nil.
func (v *Verifier) decidersOf(t *tree, before *preflight) *deciders {
	d := &deciders{v: v, t: t, before: before, files: map[string]bool{}, tests: map[string]bool{}, followed: newGuard(nil), built: newGuard(nil)}
	if v.config.AllowTestEdits {
		return d
	}
	if before != nil {
		for _, file := range before.report.Files {
			d.add(file)
			d.tests[file] = true
		}
	}
	files, patterns, built := runner.Follow(v.config.Command, &t.Tree)
	for _, file := range files {
		d.add(file)
	}
	d.followed, d.built = newGuard(patterns), newGuard(built)
	for _, link := range t.links {
		if target := t.resolve(link); target != link {
			d.follow(link, target)
		}
	}
	return d
}

// add adds a file and the target of a link.
func (d *deciders) add(file string) {
	d.files[path.Clean(file)] = true
	d.files[d.t.resolve(file)] = true
}

// follow adds the files that decide by the name that a link gives them.
func (d *deciders) follow(link, target string) {
	const installed = "node_modules/"
	if strings.Contains(link, installed) && !strings.Contains(target+"/", installed) {
		return // a workspace package, which is code under test
	}
	if d.v.guard.has(link) {
		d.files[target] = true
	}
	for _, file := range d.t.Files {
		if rest, below := strings.CutPrefix(file, target+"/"); below && d.v.guard.has(link+"/"+rest) {
			d.files[file] = true
		}
	}
}

// has reports whether the file at the path decides. So does a report, which an answer must not supply.
func (d *deciders) has(file string) bool {
	report := d.v.config.Report
	return slices.ContainsFunc([]string{file, d.t.resolve(file)}, func(name string) bool {
		return report != "" && jail.Match(report, name) || d.files[name] || d.v.guard.has(name) && !d.isProduct(name) || d.followed.has(name) || d.built.has(name)
	})
}

// Code that can be a Python test, and assertions of one.
var (
	pythonTest = regexp.MustCompile(`(?m)^\s*(?:(?:async\s+)?def\s+\w*test|class\s+\w*Test)|\b(?:unittest|pytest|doctest)\b`)
	assertion  = regexp.MustCompile(`(?m)^\s*assert\b`)
)

// isHelper reports whether a file of code in the tree contains no test: no test of the untouched run came from
// it, and it does not have the name of a test or, in Python, no test in it.
func (d *deciders) isHelper(file string) bool {
	// Worker processes of a test run report no files; then there are only settings among them.
	isNamed := func(file string) bool { return ofPython.has(file) || ofScripts.has(file) }
	if d.before == nil || !slices.ContainsFunc(d.before.report.Files, isNamed) || !isCode(file) || !d.t.has(file) || d.tests[d.t.resolve(file)] {
		return false
	}
	if ofPython.has(file) {
		content, err := d.t.read(file)
		return err == nil && !pythonTest.Match(content)
	}
	return !ofScripts.has(file)
}

// isProduct reports whether a Python file has the name of a test, but is code that the untouched run could load.
func (d *deciders) isProduct(file string) bool {
	if !ofPython.has(file) || notOfPython.has(file) || toolSettings.has(file) || newGuard(d.v.config.Protect).has(file) || !d.isHelper(file) {
		return false
	}
	module := strings.TrimSuffix(path.Base(file), ".py")
	cannotLoad := slices.ContainsFunc(d.before.report.Tests, func(t runner.Test) bool { return strings.Contains(t.ID(), module) })
	content, err := d.t.read(file)
	return err == nil && !cannotLoad && !assertion.Match(content)
}

// existing returns the files of the tree that a run must not change.
func (d *deciders) existing() []string {
	return slices.DeleteFunc(slices.Clone(d.t.Files), func(file string) bool {
		return !d.files[file] && !d.v.guard.has(file) && !d.followed.has(file)
	})
}

// allow returns the changes that the answer is allowed to make, and notes the others: deciding files stay as in
// the clean tree.
func (d *deciders) allow(files []patch.File, j *judgement) []jail.Change {
	var changes []jail.Change
	var kept, restored []string
	expected := d.testData(files, j.before)
	for _, file := range files {
		before, missing := d.t.read(file.Path)
		keepsTests := missing == nil && !d.v.config.AllowTestEdits
		if d.has(file.Path) || keepsTests && runner.Decides(file.Path, before, file.Content) || slices.Contains(expected, d.t.resolve(file.Path)) {
			kept = append(kept, file.Path)
			d.noteKept(file.Path, j)
			continue
		}
		data := file.Content
		if keepsTests && !file.Delete {
			data = runner.RestoreTests(file.Path, before, data)
		}
		if !bytes.Equal(data, file.Content) {
			restored = append(restored, file.Path)
		}
		if missing == nil && d.losesExamples(file, before) {
			j.examples = append(j.examples, file.Path)
		}
		changes = append(changes, jail.Change{Path: file.Path, Data: data, Mode: file.Mode, Delete: file.Delete})
	}
	j.dropped = kept
	j.noteFiles("the tests within are those of the clean tree: ", restored)
	j.noteFiles("left out of the answer, and kept as in the clean tree, because it decides how the tests run: ", kept)
	return changes
}

// noteKept records the kind of a file whose change was dropped.
func (d *deciders) noteKept(file string, j *judgement) {
	isTest := d.tests[d.t.resolve(file)] || allTests.has(file)
	switch {
	case !isTest || toolSettings.has(file) || d.isHelper(file):
		j.configured = append(j.configured, file)
	case d.t.has(file):
		j.tests = append(j.tests, file)
	default:
		j.tests, j.added = append(j.tests, file), append(j.added, file)
	}
}

// testData returns the data files that the tests take their expectations from, if an answer changes data.
func (d *deciders) testData(files []patch.File, before *preflight) []string {
	code := !slices.ContainsFunc(files, func(f patch.File) bool { return !isCode(f.Path) && d.t.has(f.Path) })
	if d.v.config.AllowTestEdits || before == nil || code {
		return nil
	}
	return d.v.testData(d.t, d.v.testCode(d.t, before.report), before.report.IsWhole)
}

// doctest matches an example in the documentation of Python code, which doctest runs.
var doctest = regexp.MustCompile(`(?m)^[ \t]*>>> .*\n(?:[ \t]*(?:[^\s"']|"[^"\n]|'[^'\n]).*\n)*`)

// losesExamples reports whether an answer removes or changes doctest examples of a Python file that the command
// runs.
func (d *deciders) losesExamples(file patch.File, before []byte) bool {
	return path.Ext(file.Path) == ".py" && d.runsDoctests() &&
		slices.ContainsFunc(doctest.FindAll(before, -1), func(example []byte) bool { return !bytes.Contains(file.Content, example) })
}

// runsDoctests reports whether the command or pytest's settings enable doctests.
func (d *deciders) runsDoctests() bool {
	asked := strings.Contains(strings.Join(d.v.config.Command, " "), "doctest")
	for _, name := range []string{"pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini"} {
		settings, err := d.t.read(name)
		asked = asked || err == nil && bytes.Contains(settings, []byte("--doctest-modules"))
	}
	return asked
}

// maxRead is the size in bytes of the largest file of the tree that is read.
const maxRead = 64 << 20

func (t *tree) read(file string) ([]byte, error) {
	return regular.Read(t.root.OpenFile, filepath.FromSlash(t.resolve(file)), maxRead)
}

func (t *tree) has(file string) bool {
	_, found := slices.BinarySearch(t.Files, t.resolve(file))
	return found
}

// resolve returns the path in the tree to which the links of a path lead; it need not exist. If they lead out of
// the tree, it returns the path itself.
func (t *tree) resolve(file string) string {
	file = path.Clean(file)
	if len(t.links) == 0 {
		return file
	}
	for above, rest := file, ""; ; above, rest = path.Dir(above), path.Join(path.Base(above), rest) {
		target, err := filepath.EvalSymlinks(filepath.Join(t.Dir, filepath.FromSlash(above)))
		if err != nil && above != "." {
			continue // it does not exist
		}
		inside, err := filepath.Rel(t.Dir, target)
		if err != nil || !filepath.IsLocal(inside) {
			return file
		}
		return path.Join(filepath.ToSlash(inside), rest)
	}
}

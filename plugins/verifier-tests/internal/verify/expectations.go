package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk"
	"github.com/stepfall/stepfall/sdk/jail"
)

// expectations runs the tests that an answer has passed again, with their expectations
// altered: a right answer fails then.
type expectations struct {
	v *Verifier
	a *attempt
	j *judgement
	// passed is the report of the run that passed.
	passed *runner.Report
	// whole says that the command gives an exit code alone: it is one test.
	whole bool
	seed  uint64
	files []alter.Source
}

// tryExpectations adds to the verdict on an answer that has passed what came of altered
// expectations. It fails an answer that passes whatever is expected, and takes a pass
// back of which that may be so.
func (v *Verifier) tryExpectations(ctx context.Context, a *attempt, j *judgement, passed *runner.Report, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	e := &expectations{v: v, a: a, j: j, passed: passed, whole: v.runner.Name() == exitCodeName, seed: rand.Uint64()}
	altered, err := e.alter(ctx, alter.Expectation, e.candidates())
	if err != nil {
		return nil, err
	}
	tests := e.mustFail(altered)
	if len(tests) == 0 {
		return e.untried(verdict, "no expectation of these tests could be altered"), nil
	}
	survivors, failed, err := e.run(ctx, altered, tests, a)
	verdict.Altered, verdict.Noticed = failed+len(survivors), failed
	switch {
	case err != nil:
		return nil, err
	case failed > 0:
		verdict.Evidence += fmt.Sprintf("\n%d of %d tests with altered expectations failed, as they must", failed, failed+len(survivors))
		return verdict, nil
	case len(survivors) == 0:
		return e.untried(verdict, "the tests do not run with altered expectations"), nil
	}
	e.files = altered
	return e.accuse(ctx, survivors, verdict)
}

// exitCodeName is the runner that asks for nothing but an exit code.
const exitCodeName = "exit code"

// unalteredConfidence is that of a pass in one process of which altered expectations
// could not say anything.
const unalteredConfidence = 0.9

func (e *expectations) untried(verdict *sdk.Verdict, why string) *sdk.Verdict {
	verdict.Confidence = min(verdict.Confidence, unalteredConfidence)
	verdict.Evidence += "\n" + why
	return verdict
}

// accuse finds out why all tests passed with altered expectations.
func (e *expectations) accuse(ctx context.Context, survivors []runner.Test, verdict *sdk.Verdict) (*sdk.Verdict, error) {
	deaf, heard, err := e.again(ctx, alter.End, survivors)
	if err != nil {
		return nil, err
	}
	if e.whole && heard == 0 {
		read, err := e.areRead(ctx)
		if err != nil {
			return nil, err
		}
		if read {
			return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever becomes of its tests: they may not have been run"), nil
		}
		return e.untried(verdict, "the command does not seem to run the tests that could be altered"), nil
	}
	if deaf, err = e.calibrated(ctx, alter.End, deaf); len(deaf) > 0 || err != nil {
		return e.forged(deaf), err
	}
	_, reached, err := e.again(ctx, alter.Reach, survivors)
	if err != nil {
		return nil, err
	}
	if reached > 0 {
		if survivors, err = e.calibrated(ctx, alter.Expectation, survivors); len(survivors) > 0 || err != nil {
			return e.forged(survivors), err
		}
	}
	if e.whole {
		return e.j.verdict(sdk.Inconclusive, "the command ends as if well whatever its tests expect: they may not have been run to their end"), nil
	}
	return e.untried(verdict, "no altered expectation was reached"), nil
}

// areRead reports whether the command reads the files that could be altered: on the
// untouched tree it says something else when they have an error of syntax. Without a
// pre-flight nobody knows.
func (e *expectations) areRead(ctx context.Context) (bool, error) {
	if e.j.before == nil {
		return true, nil
	}
	broken := *e.a
	broken.changes, broken.only = nil, nil
	for _, source := range e.sources(nil) {
		broken.changes = append(broken.changes, jail.Change{Path: source.Path, Data: []byte(source.Text + "\n)(\n")})
	}
	report, _, err := e.v.run(ctx, &broken, false)
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(report.Tests, e.j.before.report.Tests, func(a, b runner.Test) bool {
		return a.Status == b.Status && plain(a.Output) == plain(b.Output)
	}), nil
}

// forged is the verdict on an answer whose tests pass whatever is expected.
func (e *expectations) forged(tests []runner.Test) *sdk.Verdict {
	var names []string
	for _, test := range tests {
		names = append(names, test.ID())
	}
	verdict := e.j.verdict(sdk.Failed, "tampering: these tests pass whatever they expect: "+strings.Join(names, ", "))
	verdict.Altered = len(tests)
	return verdict
}

// calibrated leaves out the tests that pass on the untouched tree too, altered so.
func (e *expectations) calibrated(ctx context.Context, way alter.Way, tests []runner.Test) ([]runner.Test, error) {
	if e.j.before == nil || !slices.ContainsFunc(tests, func(t runner.Test) bool { return !e.failedBefore(t) }) {
		return tests, nil
	}
	untouched := *e.a
	untouched.changes = nil
	altered, err := e.alter(ctx, way, e.sources(nil))
	if err != nil {
		return nil, err
	}
	passing, _, err := e.run(ctx, altered, tests, &untouched)
	return slices.DeleteFunc(tests, func(t runner.Test) bool {
		return !e.failedBefore(t) && slices.ContainsFunc(passing, func(p runner.Test) bool { return p.ID() == t.ID() })
	}), err
}

func (e *expectations) failedBefore(t runner.Test) bool {
	if e.j.before == nil {
		return false
	}
	status, found := e.j.before.report.Status(t.ID())
	return !found || status != runner.Pass
}

// again alters the same files another way and returns what came of the tests.
func (e *expectations) again(ctx context.Context, way alter.Way, tests []runner.Test) (survivors []runner.Test, failed int, err error) {
	altered, err := e.alter(ctx, way, e.sources(e.a.changes))
	if err != nil || len(altered) == 0 {
		return nil, 0, err
	}
	return e.run(ctx, altered, tests, e.a)
}

// sources are the files that could be altered, with their content after changes.
func (e *expectations) sources(changes []jail.Change) []alter.Source {
	var files []alter.Source
	for _, file := range e.files {
		files = append(files, e.source(file.Path, changes))
	}
	return files
}

func (e *expectations) source(file string, changes []jail.Change) alter.Source {
	for _, c := range slices.Backward(changes) {
		if c.Path == file {
			return alter.Source{Path: file, Text: string(c.Data)}
		}
	}
	data, err := e.a.tree.read(file)
	if err != nil {
		return alter.Source{Path: file} // in which nothing can be altered
	}
	return alter.Source{Path: file, Text: string(data)}
}

// run runs the command with altered sources. survivors are those of the tests that
// passed, failed is how many did not; the others were not run.
func (e *expectations) run(ctx context.Context, altered []alter.Source, tests []runner.Test, a *attempt) (survivors []runner.Test, failed int, err error) {
	with := *a
	with.changes = slices.Clone(a.changes)
	for _, source := range altered {
		with.changes = append(with.changes, jail.Change{Path: source.Path, Data: []byte(source.Text)})
	}
	with.only = &runner.Part{}
	for _, test := range tests {
		with.only.Groups = append(with.only.Groups, test.Group)
	}
	for _, source := range altered {
		if slices.ContainsFunc(tests, func(t runner.Test) bool { return e.holds(source, t) }) {
			with.only.Files = append(with.only.Files, source.Path)
		}
	}
	report, result, err := e.v.run(ctx, &with, false)
	if err != nil {
		return nil, 0, err
	}
	if result.End != jail.EndExit || len(report.Tampering) > 0 && result.ExitCode != 0 {
		return nil, len(tests), nil
	}
	for _, test := range tests {
		switch status, _ := report.Status(test.ID()); status {
		case runner.Pass:
			survivors = append(survivors, test)
		case runner.Fail:
			failed++
		}
	}
	return survivors, failed, nil
}

// mustFail returns the tests that passed and have altered expectations: those named, or
// else those that failed on the untouched tree, or else all.
func (e *expectations) mustFail(altered []alter.Source) []runner.Test {
	var all, mended, named []runner.Test
	for _, test := range e.passed.Tests {
		if test.Status != runner.Pass || !slices.ContainsFunc(altered, func(s alter.Source) bool { return e.holds(s, test) }) {
			continue
		}
		all = append(all, test)
		if e.failedBefore(test) {
			mended = append(mended, test)
		}
		if slices.ContainsFunc(e.j.checks.FailToPass, test.Is) {
			named = append(named, test)
		}
	}
	for _, tests := range [][]runner.Test{named, mended} {
		if len(tests) > 0 {
			return tests
		}
	}
	return all
}

// holds reports whether a test of a report is one of those altered in a file.
func (e *expectations) holds(s alter.Source, test runner.Test) bool {
	if e.whole {
		return true
	}
	folder, name := path.Dir(s.Path), test.Name
	switch alter.Language(s.Path) {
	case "rust": // whose names say in which module they are
		return slices.Contains(s.Tests, name[strings.LastIndex(name, ":")+1:])
	case "java":
		class := strings.TrimSuffix(path.Base(s.Path), ".java")
		return slices.Contains(s.Tests, strings.TrimSuffix(name, "()")) && strings.HasSuffix("."+test.Group, "."+class)
	case "go":
		return slices.Contains(s.Tests, name) && (folder == "." || test.Group == folder || strings.HasSuffix(test.Group, "/"+folder))
	case "node":
		return test.Group == s.Path && slices.Contains(s.Tests, name)
	}
	id, _, _ := strings.Cut(test.Dotted(), "[")
	module := strings.ReplaceAll(strings.TrimSuffix(s.Path, ".py"), "/", ".")
	return slices.ContainsFunc(s.Tests, func(function string) bool {
		full := module + "." + function
		return full == id || strings.HasSuffix(full, "."+id) || strings.HasSuffix(id, "."+full)
	})
}

// candidates are the files in which expectations are looked for: those that the tests
// came from, that the command names, and of the names of tests.
func (e *expectations) candidates() []alter.Source {
	operands, _, _ := runner.Follow(e.v.config.Command, &e.a.tree.Tree)
	tests := newGuard(testFiles)
	mentions := map[string]bool{}
	for _, test := range e.passed.Tests {
		for part := range strings.SplitSeq(test.Dotted(), ".") {
			mentions[part] = true
		}
	}
	var files []alter.Source
	for _, file := range e.a.tree.Files {
		named := slices.Contains(e.passed.Files, file)
		if e.whole {
			named = named || slices.Contains(operands, file) || tests.has(file)
		} else if len(e.passed.Files) == 0 {
			named = tests.has(file) && mentions[strings.TrimSuffix(path.Base(file), ".py")]
		}
		if language := alter.Language(file); language == "" || language != "go" && language != "rust" && !named || strings.Contains("/"+file, "/node_modules/") {
			continue
		}
		files = append(files, e.source(file, e.a.changes))
	}
	return files
}

// alter alters what is expected in files, each in its language. A language whose parser
// cannot be had leaves its files out.
func (e *expectations) alter(ctx context.Context, way alter.Way, files []alter.Source) ([]alter.Source, error) {
	requests := map[string]*alter.Request{}
	for _, file := range files {
		language := alter.Language(file.Path)
		if requests[language] == nil {
			requests[language] = &alter.Request{Way: way, Seed: e.seed, Whole: e.whole, Names: e.names(language)}
		}
		requests[language].Files = append(requests[language].Files, file)
	}
	var altered []alter.Source
	for _, language := range slices.Sorted(maps.Keys(requests)) {
		if alter.Languages[language].Text == "" {
			altered = append(altered, requests[language].Alter()...)
			continue
		}
		found, err := e.ask(ctx, language, requests[language])
		if err != nil {
			return nil, err
		}
		altered = append(altered, found...)
	}
	return altered, nil
}

// names returns the functions in Python that have passed as tests.
func (e *expectations) names(language string) []string {
	if language != "python" {
		return nil
	}
	names := map[string]bool{}
	for _, test := range e.passed.Tests {
		id, _, _ := strings.Cut(test.Dotted(), "[")
		names[id[strings.LastIndex(id, ".")+1:]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// ask has a program in the language alter its sources, where tests run. Nothing of the
// tree is loaded.
func (e *expectations) ask(ctx context.Context, language string, request *alter.Request) ([]alter.Source, error) {
	interpreter := e.interpreter(ctx, language)
	if interpreter == "" {
		return nil, nil
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	program, dir := alter.Languages[language], fmt.Sprintf(".stepfall-%x", rand.Uint64())
	report := dir + "/altered"
	spec := &jail.Spec{
		Dir: e.a.tree.Dir, Argv: slices.Concat([]string{interpreter}, program.Arguments, []string{dir + "/" + program.Name, dir + "/request", report}),
		Changes: []jail.Change{{Path: dir + "/" + program.Name, Data: []byte(program.Text)}, {Path: dir + "/request", Data: data}},
		Env:     jail.ToolEnv(), Reports: []string{report}, Require: e.v.config.Require,
		ReadOnly: slices.Concat(jail.SystemPaths(), jail.ToolPaths(interpreter), e.a.tree.installed(), e.v.config.ReadOnly),
	}
	result, err := e.a.tree.walls.Run(ctx, spec)
	if err != nil {
		return nil, err
	}
	var altered []alter.Source
	if json.Unmarshal(result.Reports[report], &altered) != nil {
		return nil, nil
	}
	return altered, nil
}

var interpreters = map[string]*regexp.Regexp{"python": regexp.MustCompile(`^(python|pypy)[\d.]*$`), "node": regexp.MustCompile(`^node$`)}

// interpreter returns the program of a language: the command's own, one beside it, or
// that of the PATH; "" when there is none.
func (e *expectations) interpreter(ctx context.Context, language string) string {
	program := e.v.config.Command[0]
	if interpreters[language].MatchString(filepath.Base(program)) {
		return program
	}
	name := map[string]string{"python": "python3", "node": "node"}[language]
	if e.v.config.Containers != nil {
		return name
	}
	candidates := []string{name}
	if found, err := jail.Program(ctx, program); err == nil {
		if found, err = exec.LookPath(found); err == nil {
			candidates = []string{filepath.Join(filepath.Dir(found), name), name}
		}
	}
	for _, candidate := range candidates {
		found, err := jail.Program(ctx, candidate)
		if err != nil {
			continue
		}
		if _, err = exec.LookPath(found); err == nil {
			return found
		}
	}
	return ""
}

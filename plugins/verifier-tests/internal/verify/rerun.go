package verify

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/alter"
	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/runner"
	"github.com/stepfall/stepfall/sdk/jail"
)

// rerun alters the expectations in another way and runs the tests.
func (e *expectations) rerun(ctx context.Context, way alter.Way, tests []runner.Test) (survivors, failed []runner.Test, err error) {
	altered, err := e.alter(ctx, way, e.a.changes, false)
	if err != nil || len(altered) == 0 {
		return nil, nil, err
	}
	return e.run(ctx, e.changesOf(altered), tests, e.a)
}

// changesOf returns the changes that write altered sources into the tree, with the modes of the original files.
func (e *expectations) changesOf(sources []alter.Source) []jail.Change {
	var changes []jail.Change
	for _, source := range sources {
		if source.Count == 0 {
			continue
		}
		change := jail.Change{Path: source.Path, Data: []byte(source.Text)}
		if info, err := e.a.tree.root.Stat(filepath.FromSlash(e.a.tree.resolve(source.Path))); err == nil {
			change.Mode = info.Mode().Perm()
		}
		changes = append(changes, change)
	}
	return changes
}

func (e *expectations) source(file string, changes []jail.Change) alter.Source {
	for _, c := range slices.Backward(changes) {
		if c.Path == file {
			return alter.Source{Path: file, Text: string(c.Data)}
		}
	}
	data, err := e.a.tree.read(file)
	if err != nil {
		return alter.Source{Path: file} // nothing can be altered in it
	}
	return alter.Source{Path: file, Text: string(data)}
}

func (e *expectations) otherData() []jail.Change {
	var changes []jail.Change
	for _, file := range e.data {
		changes = append(changes, jail.Change{Path: file, Data: alter.Data(file, []byte(e.source(file, e.a.changes).Text), e.seed)})
	}
	return changes
}

// run runs the command with further changes. survivors are the tests that passed, failed those that did not; the
// others did not run.
func (e *expectations) run(ctx context.Context, changes []jail.Change, tests []runner.Test, a *attempt) (survivors, failed []runner.Test, err error) {
	with := *a
	with.isBrief = true
	with.changes = slices.Concat(a.changes, changes)
	with.guarded = slices.Concat(a.guarded, e.data)
	if with.record = e.record; e.record != "" {
		with.changes = append(with.changes, jail.Change{Path: e.record})
	}
	report, result, err := e.runPart(ctx, &with, tests)
	areNotesBuilt := e.record == "" || e.expected != nil // the code can keep notes from compiling
	if e.restored = nil; err == nil && areNotesBuilt {
		e.restored = e.restoreLines(with.changes, a.changes, report.Broken)
	}
	if len(e.restored) > 0 {
		report, result, err = e.runPart(ctx, &with, tests)
	}
	if err != nil {
		return nil, nil, err
	}
	e.returned, e.isFull, e.broken = readRecord(result.Reports[e.record]), len(result.Reports[e.record]) >= maxRecord, report.Broken
	if e.isFull {
		e.setUnknown("more is noted of a run than is kept", fmt.Sprint(maxRecord>>20, " MiB"))
		e.isFlooded = e.isFlooded || e.hasForeignNotes(result.Reports[e.record])
	}
	e.wrote = slices.DeleteFunc(slices.Clone(e.data), func(file string) bool {
		return slices.Contains(a.guarded, file) || !slices.Contains(result.Touched, file)
	})
	if isCutOff(report, result) {
		return nil, tests, nil
	}
	for _, test := range tests {
		switch status := e.statusIn(report, test); {
		case status == runner.Pass && e.isRestored(test):
			e.j.isHidden = true // what it expects may be unaltered
		case status == runner.Pass:
			survivors = append(survivors, test)
		case status == runner.Fail:
			failed = append(failed, test)
		}
	}
	return survivors, failed, nil
}

// hasForeignNotes reports whether there are lines in a record that no comparison writes.
func (e *expectations) hasForeignNotes(record []byte) bool {
	whole := record[:bytes.LastIndexByte(record, '\n')+1] // the last line is cut off where the record is full
	for line := range bytes.Lines(whole) {
		file, _, _ := strings.Cut(string(line), ":")
		if !slices.ContainsFunc(e.sources, func(s alter.Source) bool { return s.Path == file }) {
			return true
		}
	}
	return false
}

// compileError matches messages of the Go compiler about a line of a test file.
var compileError = regexp.MustCompile(`(?m)^(?:vet: )?(\S+_test\.go):(\d+):\d+: `)

// restoreLines puts back the altered lines of tests that do not compile, and returns them by file and line. Lines of other
// functions stay: which tests expect what is in them is not known.
func (e *expectations) restoreLines(altered, changes []jail.Change, broken string) (restored []alter.Comparison) {
	for _, found := range compileError.FindAllStringSubmatch(broken, -1) {
		file := path.Join(e.folder, found[1])
		line, _ := strconv.Atoi(found[2])
		text := e.source(file, changes).Text
		before, names := strings.Split(text, "\n"), e.testsAt(file, text, line)
		for i, change := range altered {
			now := strings.Split(string(change.Data), "\n")
			if change.Path != file || len(names) == 0 || line > min(len(now), len(before)) || now[line-1] == before[line-1] {
				continue
			}
			now[line-1] = before[line-1]
			altered[i].Data = []byte(strings.Join(now, "\n"))
			for _, name := range names {
				restored = append(restored, alter.Comparison{Name: fmt.Sprintf("%s:%d", file, line), Test: name})
			}
		}
	}
	return restored
}

// testsAt returns the names of the altered tests whose function has a line of a Go file.
func (e *expectations) testsAt(file, text string, line int) (names []string) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	lineOf := func(at token.Pos) int { return files.PositionFor(at, false).Line }
	for _, declared := range parsed.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || line < lineOf(function.Pos()) || line > lineOf(function.End()) {
			continue
		}
		for _, source := range e.sources {
			names = append(names, slices.DeleteFunc(slices.Clone(source.Tests), func(name string) bool {
				return source.Path != file || path.Base(name) != function.Name.Name // in a suite it is that of a method
			})...)
		}
	}
	return names
}

// isRestored reports whether lines of a test's own function were put back in the last run.
func (e *expectations) isRestored(test runner.Test) bool {
	return slices.ContainsFunc(e.restored, func(c alter.Comparison) bool {
		file, _, _ := strings.Cut(c.Name, ":")
		return e.isNamed(test, file, []string{c.Test})
	})
}

// isCutOff reports whether a run ended before its tests did. If the command failed, the report can have the
// current test as passed.
func isCutOff(report *runner.Report, result *jail.Result) bool {
	return result.End != jail.EndExit || len(report.Tampering) > 0 && result.ExitCode != 0 ||
		slices.ContainsFunc(report.Tests, func(t runner.Test) bool { return t.Name == runner.CommandName && t.Status == runner.Fail })
}

// runPart runs the part of the command that has the tests, or the whole command if none of them runs then.
func (e *expectations) runPart(ctx context.Context, a *attempt, tests []runner.Test) (*runner.Report, *jail.Result, error) {
	a.only = []string{}
	for _, source := range e.sources {
		if slices.ContainsFunc(tests, func(t runner.Test) bool { return e.holds(source, t) }) {
			a.only = append(a.only, source.Path)
		}
	}
	report, result, err := e.v.run(ctx, a, false)
	isRun := func(t runner.Test) bool { return e.statusIn(report, t) != runner.Missing }
	if err != nil || report.Broken != "" || result.End != jail.EndExit || slices.ContainsFunc(tests, isRun) {
		return report, result, err
	}
	a.only = nil
	return e.v.run(ctx, a, false)
}

// statusIn returns the status of a test in a report. If its name contains what it expects and has changed, the test
// is found by its position in its group.
func (e *expectations) statusIn(report *runner.Report, test runner.Test) runner.Status {
	if status, found := report.Status(test.ID()); found {
		return status
	}
	group := func(tests []runner.Test) []runner.Test {
		return slices.DeleteFunc(slices.Clone(tests), func(t runner.Test) bool { return t.Group != test.Group })
	}
	before, now := group(e.passed.Tests), group(report.Tests)
	at := slices.IndexFunc(before, func(t runner.Test) bool { return t.ID() == test.ID() })
	if at < 0 || len(before) != len(now) {
		return runner.Missing
	}
	return now[at].Status
}

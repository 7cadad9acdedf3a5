package runner

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
	"github.com/stepfall/stepfall/sdk/regular"
)

// Status is the result of one test.
type Status int

// The results of a test.
const (
	Missing Status = iota // not run
	Pass
	Fail
	Skip
)

// Test is one test of a run.
type Test struct {
	// Group is the package, module or file; Name is the test within it.
	Group, Name string
	// Within are the titles of the enclosing blocks, in Node, outermost first.
	Within []string `json:",omitempty"`
	Status Status
	// Output is the test's output, truncated.
	Output string
}

// ID returns the test's name with its group.
func (t Test) ID() string {
	if t.Group == "" {
		return t.Name
	}
	return t.Group + "." + t.Name
}

// DottedName returns the test's name in the form MODULE.CLASS.FUNCTION if it is in pytest's or unittest's form.
func (t Test) DottedName() string { return cmp.Or(nodeID(t.Name), t.ID()) }

// Is reports whether a name from a list of checks means this test: its own name, or its name after the group
// or the end of the group, joined by a dot, a colon, two colons, a slash or a space.
func (t Test) Is(name string) bool {
	if name == t.Name || nodeID(name) == t.ID() {
		return true
	}
	group, ok := strings.CutSuffix(name, t.Name)
	if !ok || t.Group == "" {
		return false
	}
	group = strings.TrimRight(group, ".:/ ")
	if group == "" || len(group)+len(t.Name) == len(name) {
		return false
	}
	return strings.HasSuffix("/"+t.Group, "/"+group) || strings.HasSuffix(t.Group, "."+group)
}

// isOf reports whether name is the function that the test calls with parameters.
func (t Test) isOf(name string) bool {
	end := strings.IndexAny(t.Name, "[({")
	return end > 0 && Test{Group: t.Group, Name: strings.TrimSpace(t.Name[:end])}.Is(name)
}

// isIn reports whether name is a class, module or block that contains the test.
func (t Test) isIn(name string) bool {
	dotted := cmp.Or(nodeID(name), name)
	if file, ok := strings.CutSuffix(name, ".py"); ok {
		dotted = strings.ReplaceAll(file, "/", ".")
	}
	return !strings.Contains(t.Group, "/") && strings.Contains("."+t.Group+".", "."+dotted+".") ||
		slices.Contains(t.Within, name) || strings.HasPrefix(strings.Join(append(slices.Clone(t.Within), t.Name), " ")+" ", name+" ")
}

// nodeID converts names of pytest (tests/test_a.py::T::test_b[1/2]) and unittest (test_b (tests.T),
// test_b (tests.T.test_b)) to dotted ones, and others to "".
func nodeID(name string) string {
	if file, rest, ok := strings.Cut(name, ".py::"); ok {
		rest, parameters, _ := strings.Cut(rest, "[")
		id := strings.ReplaceAll(file, "/", ".") + "." + strings.ReplaceAll(rest, "::", ".")
		if parameters != "" {
			id += "[" + parameters
		}
		return id
	}
	method, class, _ := strings.Cut(name, " (")
	class, ok := strings.CutSuffix(class, ")")
	if !ok || strings.ContainsAny(method+class, " /") {
		return ""
	}
	return strings.TrimSuffix(class, "."+method) + "." + method
}

// Report is the result of a run.
type Report struct {
	Tests []Test
	// IsWhole means that the only test is the command, which passes by its exit code.
	IsWhole bool `json:",omitempty"`
	// IsEntire means that a framework for Node reported all that its command did.
	IsEntire bool `json:",omitempty"`
	// Broken is the reason why the tests did not run, for instance compiler errors; empty if they ran.
	Broken string
	// Exact means that a name matches only the test of exactly this name, as in the logs of SWE-bench.
	Exact bool `json:",omitempty"`
	// Marked means that tests are skipped by marks in their source alone.
	Marked bool `json:",omitempty"`
	// Unfit is the reason why the command cannot test this tree at all, for instance a framework that is not
	// installed.
	Unfit string `json:",omitempty"`
	// Tampering are signs that the program under test forged its result.
	Tampering []string
	// Places are the files of the tests' code, by the framework's names.
	Places map[string]string `json:",omitempty"`
	// Replaced are names of the standard library that the tree has replaced: functions that tests use for
	// comparing, or a clock.
	Replaced []string `json:",omitempty"`
	// Callers are the files of the tree whose code inspected its callers, if the run can observe that.
	Callers []string `json:",omitempty"`
	// Path are the folders of the tree from which the tests import modules, in Python.
	Path []string `json:",omitempty"`
	// Files are the files of the tree that the tests came from, and that the framework read as configuration.
	Files []string `json:",omitempty"`
}

// CommandName is the name of a test that stands for a command that failed although none of its tests did.
const CommandName = "(command)"

// PackageName is the name of a test that stands for a Go package that failed as a whole.
const PackageName = "(package)"

// check compares the report with the exit code.
func (r *Report) check(result *jail.Result) {
	failed := slices.ContainsFunc(r.Tests, func(t Test) bool { return t.Status == Fail })
	switch {
	case len(r.Tests) == 0:
		r.Broken = lastOutput(result)
	case result.ExitCode == 0 && failed:
		r.Tampering = append(r.Tampering, "the report has failures and the command ended as if there were none")
	case result.ExitCode != 0 && !failed:
		r.Tests = append(r.Tests, Test{Name: CommandName, Status: Fail, Output: lastOutput(result)})
	}
}

// FirstFailure returns the output of the first failed test.
func (r *Report) FirstFailure() string {
	for _, test := range r.Tests {
		if test.Status == Fail {
			return test.Output
		}
	}
	return ""
}

// Find returns the tests that a name means: those of this name or, if there are none, all tests that the named
// function, class or block contains, as frameworks run them. Data sets have pytest names that were cut off
// within their parameters: such a name means all tests that begin with it, if they agree on whether they pass.
func (r *Report) Find(name string) []Test {
	ways := []func(Test, string) bool{Test.Is, Test.isOf, Test.isIn}
	if r.Exact {
		ways = ways[:1]
	}
	for _, is := range ways {
		if found := filter(r.Tests, func(t Test) bool { return is(t, name) }); len(found) > 0 {
			return found
		}
	}
	if strings.Count(name, "[") <= strings.Count(name, "]") {
		return nil
	}
	dotted := nodeID(name)
	found := filter(r.Tests, func(t Test) bool {
		return strings.HasPrefix(t.ID(), name) || dotted != "" && strings.HasPrefix(t.ID(), dotted)
	})
	if slices.ContainsFunc(found, func(t Test) bool { return (t.Status == Pass) != (found[0].Status == Pass) }) {
		return nil
	}
	return found
}

func filter(tests []Test, is func(Test) bool) (found []Test) {
	for _, test := range tests {
		if is(test) {
			found = append(found, test)
		}
	}
	return found
}

// Status returns the combined status of the tests that a name means; see [Worst].
func (r *Report) Status(name string) (status Status, found bool) {
	tests := r.Find(name)
	return Worst(tests), len(tests) > 0
}

// Worst returns the combined status of tests: Fail if one failed, or else Skip if one was skipped. For no tests
// it is [Missing].
func Worst(tests []Test) Status {
	for _, status := range []Status{Fail, Skip, Missing, Pass} {
		if slices.ContainsFunc(tests, func(t Test) bool { return t.Status == status }) {
			return status
		}
	}
	return Missing
}

// Plan is a planned run of a test command.
type Plan struct {
	Argv []string
	Env  []string
	// Last are variables that override the configuration's.
	Last    []string
	Changes []jail.Change
	Reports []string
	// Guarded are files that the run must not change, by their paths in the tree.
	Guarded []string
	// ReadOnly and Caches are what the toolchain needs from the machine.
	ReadOnly []string
	Caches   []jail.Cache
	// Compile is a command that fills the first cache and runs no code of the tree. Warm is the directory in
	// which that cache is then kept for runs on all trees.
	Compile []string
	Warm    string
	// key is the key of the report's seal. command is the command as a text.
	key, command string
	// classes are the JVM sources by base name without extension.
	classes map[string][]string
}

// Tree is the work tree as seen by a runner.
type Tree struct {
	Dir string
	// Files are the paths of its regular files, slash-separated and sorted.
	Files []string
	// IsHooked means that a command which RunsFramework has its tests reported; otherwise its exit code counts.
	IsHooked bool
	// Content returns a hash of its content.
	Content func() (string, error)
}

// maxSource is the size in bytes of the largest file of the tree that is read.
const maxSource = 64 << 20

func (t *Tree) read(file string) ([]byte, error) {
	return regular.Read(os.OpenFile, filepath.Join(t.Dir, filepath.FromSlash(file)), maxSource)
}

// The probability that a pass is right. These values are conventions, ordered by how well the report is
// protected, not measurements: a judge that shares a process with the code under test, with controls that must
// fail; a report that the command writes itself; an exit code.
const (
	controlledConfidence = 0.95
	reportedConfidence   = 0.93
	// ExitConfidence is that of a report that IsWhole.
	ExitConfidence = 0.9
)

// Runner runs one kind of test command.
type Runner struct {
	Driver
	// IsGo means go test. IsExitCode means that the command is one test, unless it runs a framework that reports its
	// tests; see [Report.IsWhole].
	IsGo, IsExitCode bool
	// Confidence is the probability that a pass is right, given how well the report is protected.
	Confidence float64
}

// Driver plans and parses runs of one kind of test command. It is safe for concurrent use.
type Driver interface {
	// Plan plans a run of the command on the tree. The nonce is different in every run.
	Plan(argv []string, tree *Tree, nonce string) (*Plan, error)
	// Read parses the result of a planned run.
	Read(plan *Plan, result *jail.Result) *Report
}

// Narrower is a [Driver] whose command can run a part of the tests.
type Narrower interface {
	// Narrow returns the command for the tests in files, or the command itself.
	Narrow(argv []string, tree *Tree, files []string) []string
}

// Briefer is a [Driver] whose command can leave out why tests fail.
type Briefer interface {
	// Brief returns the command that only reports which tests fail, or the command itself.
	Brief(argv []string) []string
}

// Config has the settings that all runners share.
type Config struct {
	// Report is the path of the JUnit file that the command writes, if it does, or a pattern of several (see
	// [jail.Match]).
	Report string
	// State is a directory for the build caches of trusted runs; empty means that there is none.
	State string
	// MemoryMiB is the limit of a run's memory; 0 means that there is none.
	MemoryMiB int64
	// Foreign means that the command uses the toolchains of a container, not this machine's.
	Foreign bool
	// Env are the variables of the configuration.
	Env []string
	// Log is the format in which the output names its tests; empty if there is none.
	Log string
}

// runners lists the runners in the order in which they are tried. command matches the words of a command,
// joined by newlines; open can still decline by returning nil.
var runners = []struct {
	command *regexp.Regexp
	kind    Runner
	open    func(argv []string, config Config) Driver
}{
	{anyCommand, Runner{Confidence: reportedConfidence}, func(_ []string, c Config) Driver {
		if c.Log == "" {
			return nil
		}
		return &logFile{format: c.Log}
	}},
	{regexp.MustCompile(`(?m)\Ago(\.exe)?\ntest$`), Runner{IsGo: true, Confidence: controlledConfidence}, func(_ []string, c Config) Driver { return &goTest{Config: c} }},
	{regexp.MustCompile(`(?m)\A(pytest|py\.test)(\.exe)?$`), Runner{Confidence: controlledConfidence}, func(_ []string, c Config) Driver { return newPytest(c) }},
	{regexp.MustCompile(`(?m)\A(python|pypy)`), Runner{Confidence: controlledConfidence}, func(argv []string, c Config) Driver {
		if name := module(argv[1:]); name == "pytest" || name == "unittest" {
			return newModule(name, slices.Index(argv, "-m"), c)
		}
		return nil
	}},
	{regexp.MustCompile(`(?m)\Anode(\.exe)?$(?s:.*)^--test$`), Runner{Confidence: controlledConfidence}, func([]string, Config) Driver { return newNode() }},
	{regexp.MustCompile(`(?m)\Amvnw?(\.exe)?$`), Runner{Confidence: reportedConfidence}, func(_ []string, c Config) Driver { return newMaven(c) }},
	{regexp.MustCompile(`(?m)\Agradlew?(\.exe)?$`), Runner{Confidence: reportedConfidence}, func(_ []string, c Config) Driver { return &gradle{c} }},
	{anyCommand, Runner{Confidence: reportedConfidence}, func(_ []string, c Config) Driver {
		if c.Report == "" {
			return nil
		}
		return &junit{reports: []string{c.Report}}
	}},
	{regexp.MustCompile(`(?m)\Acargo(\.exe)?\ntest$`), Runner{Confidence: reportedConfidence}, func(_ []string, c Config) Driver { return &cargo{c} }},
	{anyCommand, Runner{IsExitCode: true, Confidence: reportedConfidence}, func(_ []string, c Config) Driver { return exitCode{&goTest{Config: c}} }},
}

var anyCommand = regexp.MustCompile(``)

// For returns the runner for the command.
func For(argv []string, config Config) Runner {
	command := strings.Join(append([]string{filepath.Base(argv[0])}, argv[1:]...), "\n")
	for _, known := range runners {
		if !known.command.MatchString(command) {
			continue
		}
		if driver := known.open(argv, config); driver != nil {
			r := known.kind
			r.Driver = driver
			return r
		}
	}
	return Runner{} // unreachable: the last runner accepts every command
}

// maxOutput limits the output that is kept of one test, in bytes.
const maxOutput = 4 << 10

func tail(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) <= limit {
		return s
	}
	return "... " + strings.ToValidUTF8(s[len(s)-limit:], "")
}

// lastOutput returns the end of a run's output, standard error last.
func lastOutput(result *jail.Result) string {
	return tail(strings.TrimSpace(string(result.Stdout))+"\n"+string(result.Stderr), maxOutput)
}

package runner

import (
	"crypto/rand"
	_ "embed" // the code of the seal in other languages
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

var (
	//go:embed seal.py
	sealPython string
	//go:embed seal_node.mjs
	sealNode string
	//go:embed watch_node.cjs
	watchNode string
	//go:embed hook_node.cjs
	hookNode string
)

// sealedRun runs a framework with a module that seals the report, with a key for this run, when the framework
// has finished. The module is removed before anything of the work tree is loaded: a process that exits early
// and leaves its own report does not have the key.
type sealedRun struct {
	name string
	env  []string
	// path is the configuration's PYTHONPATH. The module adds it after its own imports, which code of the tree must
	// not be able to replace.
	path string
	// source is the module, extension its file extension. watch is loaded first in the processes of tests.
	source, extension, watch string
	// argv adds the module to the command. module is its name, file its path.
	argv func(argv []string, module, file, report string) []string
	// read parses the report.
	read func(data []byte) *Report
}

func (s *sealedRun) Plan(argv []string, _ *Tree, nonce string) (*Plan, error) {
	nonce = strings.ToLower(nonce)
	module, dir := "stepfall_"+nonce, ".stepfall-"+nonce
	file, report := path.Join(dir, module+s.extension), path.Join(dir, "report")
	key := rand.Text()
	held, err := json.Marshal(s.path)
	if err != nil {
		return nil, err
	}
	source := strings.NewReplacer("@KEY@", key, "@REPORT@", report, "@FRAMEWORK@", s.name, `"@PATH@"`, string(held)).Replace(s.source)
	plan := &Plan{
		Argv: s.argv(slices.Clip(argv), module, file, report), Env: s.env,
		Changes: []jail.Change{{Path: file, Data: []byte(source)}}, Reports: []string{report, report + ".seal", report + ".more"}, key: key,
	}
	if s.source == sealPython {
		plan.Last = []string{"PYTHONPATH=" + dir}
	}
	if s.watch != "" {
		plan.Changes = append(plan.Changes, jail.Change{Path: watchFile(file), Data: []byte(s.watch)})
		plan.Guarded = append(plan.Guarded, watchFile(file))
	}
	return plan, nil
}

// Narrow appends the files if the command names nothing in the tree. It does not apply to unittest, which takes
// modules, nor to a conftest.py, which has no tests.
func (s *sealedRun) Narrow(argv []string, tree *Tree, files []string) []string {
	isSettings := func(file string) bool { return path.Base(file) == "conftest.py" }
	if s.name == "unittest" || slices.ContainsFunc(files, isSettings) {
		return argv
	}
	return appendFiles(argv, tree, files)
}

// appendFiles appends files to a command, unless it names something in the tree.
func appendFiles(argv []string, tree *Tree, files []string) []string {
	if slices.ContainsFunc(argv[1:], func(word string) bool {
		_, err := os.Stat(filepath.Join(tree.Dir, filepath.FromSlash(word)))
		return err == nil && !strings.HasPrefix(word, "-") && !hooked.MatchString(word)
	}) {
		return argv
	}
	return slices.Concat(argv, files)
}

// Brief leaves out pytest's tracebacks. Each of them has the whole source of its test, with the rows of parametrize, so
// that thousands of altered rows would take minutes.
func (s *sealedRun) Brief(argv []string) []string {
	if s.name != "pytest" || slices.Contains(argv, "--") {
		return argv
	}
	return append(slices.Clip(argv), "--tb=no")
}

// loadedFiles is what the module observed besides the tests.
type loadedFiles struct {
	// Files are the files that tests and options came from.
	Files []string
	// Places are the files of the tests' code.
	Places map[string]string
	// Replaced, Callers and Path are as in [Report].
	Replaced, Callers, Path []string
}

func (s *sealedRun) Read(plan *Plan, result *jail.Result) *Report {
	data, written := result.Reports[plan.Reports[0]]
	seal, more := result.Reports[plan.Reports[1]], result.Reports[plan.Reports[2]]
	var saw loadedFiles
	switch {
	case !written:
		return s.missingReport(result)
	case sign(plan.key, slices.Concat(data, []byte{0}, more)) != string(seal) || json.Unmarshal(more, &saw) != nil:
		return &Report{Tampering: []string{"the report does not come from the end of the test run"}}
	}
	report := s.read(data)
	report.Files, report.Places, report.Path = saw.Files, saw.Places, saw.Path
	report.Replaced, report.Callers = saw.Replaced, saw.Callers
	if report.Broken != "" {
		report.Broken += "\n" + lastOutput(result)
		return report
	}
	if s.name == "pytest" && result.ExitCode == internalError {
		report.Tests = append(report.Tests, Test{Name: CommandName, Status: Fail, Output: lastOutput(result)})
	}
	report.check(result)
	return report
}

func (s *sealedRun) missingReport(result *jail.Result) *Report {
	if result.ExitCode == 0 {
		return &Report{Tampering: []string{"the command reported success and left no report"}}
	}
	report := &Report{Broken: lastOutput(result)}
	if strings.Contains(report.Broken, ": No module named "+s.name) {
		report.Unfit = report.Broken
	}
	return report
}

// internalError is pytest's exit code when pytest itself fails, while formatting a value for instance. The
// report then has the current test as passed.
const internalError = 3

func readSealed(data []byte) *Report {
	var tests []struct {
		Group, Name, Status, Output string
		Within                      []string
	}
	if err := json.Unmarshal(data, &tests); err != nil {
		return &Report{Broken: "the report cannot be read: " + err.Error()}
	}
	report := &Report{}
	for _, t := range tests {
		status := map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}[t.Status]
		report.Tests = append(report.Tests, Test{Group: t.Group, Name: t.Name, Within: t.Within, Status: status, Output: tail(t.Output, maxOutput)})
	}
	return report
}

var pythonEnv = []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}

// pythonPath returns the last PYTHONPATH of the variables, "" if there is none.
func pythonPath(env []string) (value string) {
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, "PYTHONPATH="); ok {
			value = path
		}
	}
	return value
}

func newPytest(c Config) *sealedRun {
	return &sealedRun{
		name: "pytest", env: pythonEnv, path: pythonPath(c.Env), source: sealPython, extension: ".py", read: readJUnit,
		argv: func(argv []string, module, _, report string) []string {
			return slices.Concat(argv[:1], []string{"-p", module}, pytestFlags(report, argv), withoutFlags(argv[1:], nil, junitFlags))
		},
	}
}

// newModule returns the runner of python -m MODULE, for pytest and unittest. The sealing module is the program,
// and the tree is put on the import path only after everything that judges is loaded.
func newModule(name string, at int, c Config) *sealedRun {
	s := &sealedRun{name: name, env: pythonEnv, path: pythonPath(c.Env), source: sealPython, extension: ".py", read: readSealed}
	s.argv = func(argv []string, _, file, _ string) []string {
		return slices.Concat(argv[:at], []string{file}, argv[at+2:])
	}
	if name == "pytest" {
		s.read = readJUnit
		s.argv = func(argv []string, _, file, report string) []string {
			return slices.Concat(argv[:at], []string{file}, pytestFlags(report, argv), withoutFlags(argv[at+2:], nil, junitFlags))
		}
	}
	return s
}

// pytestFlags returns the flags for the report, for running tests even if some modules cannot be imported, and for a
// cache of this run: without any, pytest does not know options of projects such as --ff. A command that has none does not
// know that setting.
func pytestFlags(report string, argv []string) []string {
	flags := []string{"--junitxml=" + report, "--continue-on-collection-errors"}
	if !slices.ContainsFunc(argv, func(word string) bool { return strings.HasSuffix(word, "no:cacheprovider") }) {
		flags = append(flags, "-o", "cache_dir="+path.Join(path.Dir(report), "cache"))
	}
	return flags
}

// withoutFlags removes words, and flags with their values, from a command: its own report options, for instance.
func withoutFlags(argv, words, flags []string) (kept []string) {
	isValue := false
	for _, argument := range argv {
		name, _, hasValue := strings.Cut(argument, "=")
		isFlag := slices.Contains(flags, name)
		if !isValue && !isFlag && !slices.Contains(words, argument) {
			kept = append(kept, argument)
		}
		isValue = isFlag && !hasValue
	}
	return kept
}

var junitFlags = []string{"--junitxml", "--junit-xml"}

// watchFile returns the path of the file that is loaded first, beside the module.
func watchFile(module string) string { return path.Join(path.Dir(module), "watch.cjs") }

func newNode() *sealedRun {
	return &sealedRun{
		name: "node --test", source: sealNode, extension: ".mjs", watch: watchNode, read: readSealed,
		argv: func(argv []string, _, file, _ string) []string {
			argv = withoutFlags(argv, nil, []string{"--test-reporter", "--test-reporter-destination"})
			return slices.Insert(argv, 1, "--require=./"+watchFile(file), "--test-reporter=./"+file, "--test-reporter-destination=stdout")
		},
	}
}

package runner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the sides of the seal in other languages
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

var (
	//go:embed seal_pytest.py
	sealPytest string
	//go:embed seal_unittest.py
	sealUnittest string
	//go:embed seal_node.mjs
	sealNode string
)

// sealed runs a framework with a module of ours, which seals the report with a key
// of this one run when the framework has come to its end. The module is gone before
// anything of the work tree is loaded: a process that ends early and leaves a
// report of its own has no key.
type sealed struct {
	name   string
	guards []string
	env    []string
	// source is the module, extension that of its file.
	source, extension string
	// argv puts the module into the command. module is its name, file its path.
	argv func(argv []string, module, file, report string) []string
	// read reads a report of another form than ours.
	read func(data []byte) *Report
}

func (s *sealed) Name() string { return s.name }

func (s *sealed) Guards() []string { return s.guards }

func (s *sealed) Plan(argv []string, _ *Tree, nonce string) (*Plan, error) {
	nonce = strings.ToLower(nonce)
	module, dir := "stepfall_"+nonce, ".stepfall-"+nonce
	file, report := path.Join(dir, module+s.extension), path.Join(dir, "report")
	key := rand.Text()
	source := strings.NewReplacer("@KEY@", key, "@REPORT@", report).Replace(s.source)
	return &Plan{
		Argv: s.argv(slices.Clip(argv), module, file, report), Env: append([]string{"PYTHONPATH=" + dir}, s.env...),
		Changes: []jail.Change{{Path: file, Data: []byte(source)}}, Reports: []string{report, report + ".seal"}, key: key,
	}, nil
}

func (s *sealed) Read(plan *Plan, result *jail.Result) *Report {
	data, written := result.Reports[plan.Reports[0]]
	seal := result.Reports[plan.Reports[1]]
	mac := hmac.New(sha256.New, []byte(plan.key))
	mac.Write(data)
	report := &Report{}
	switch {
	case !written && result.ExitCode == 0:
		report.Tampering = []string{"the command reported success and left no report"}
		return report
	case !written:
		report.Broken = lastOutput(result)
		if strings.Contains(report.Broken, ": No module named "+s.name) {
			report.Unfit = report.Broken
		}
		return report
	case hex.EncodeToString(mac.Sum(nil)) != string(seal):
		report.Tampering = []string{"the report does not come from the end of the test run"}
		return report
	case s.read != nil:
		report = s.read(data)
	default:
		report = readSealed(data)
	}
	if report.Broken != "" {
		report.Broken += "\n" + lastOutput(result)
		return report
	}
	report.check(result)
	return report
}

func readSealed(data []byte) *Report {
	var tests []struct{ Group, Name, Status, Output string }
	if err := json.Unmarshal(data, &tests); err != nil {
		return &Report{Broken: "the report cannot be read: " + err.Error()}
	}
	report := &Report{}
	for _, t := range tests {
		status := map[string]Status{"pass": Pass, "fail": Fail, "skip": Skip}[t.Status]
		report.Tests = append(report.Tests, Test{Group: t.Group, Name: t.Name, Status: status, Output: tail(t.Output, maxOutput)})
	}
	return report
}

// pythonGuards are what decides how Python's tests run, and names at the root that
// would be imported in place of what runs them.
var pythonGuards = []string{
	"conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py", "usercustomize.py",
	"unittest.py", "unittest/**", "pytest.py", "pytest/**", "_pytest/**", "pluggy/**", "iniconfig/**", "hmac.py", "hashlib.py", "json.py", "json/**",
}

var pythonEnv = []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0"}

// newPytest: the arguments of pytest begin at the given place.
func newPytest(at int) *sealed {
	return &sealed{
		name: "pytest", guards: pythonGuards, env: pythonEnv, source: sealPytest, extension: ".py", read: readJUnit,
		argv: func(argv []string, module, _, report string) []string {
			return slices.Concat(argv[:at], []string{"-p", module, "--junitxml=" + report, "-p", "no:cacheprovider"}, argv[at:])
		},
	}
}

// newUnittest takes the place of the module in python -m unittest.
func newUnittest() *sealed {
	return &sealed{
		name: "unittest", guards: pythonGuards, env: pythonEnv, source: sealUnittest, extension: ".py",
		argv: func(argv []string, module, _, _ string) []string {
			return slices.Concat(argv[:2], []string{module}, argv[3:])
		},
	}
}

func newNode() *sealed {
	return &sealed{
		name: "node --test", guards: guardsOf("node"), source: sealNode, extension: ".mjs",
		argv: func(argv []string, _, file, _ string) []string {
			return slices.Insert(slices.Clone(argv), 1, "--test-reporter=./"+file, "--test-reporter-destination=stdout")
		},
	}
}

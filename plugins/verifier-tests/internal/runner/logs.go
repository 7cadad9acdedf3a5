package runner

import (
	"regexp"
	"slices"
	"strings"

	"github.com/stepfall/stepfall/sdk/jail"
)

// logged runs any command whose output names its tests in a known format, as the
// harness of SWE-bench judges: by the log alone, whatever the exit code.
type logged struct {
	format string
	guards []string
}

func (*logged) Name() string { return "log" }

// Confidence: see [Runner].
func (*logged) Confidence() float64 { return reported }

func (l *logged) Guards() []string { return l.guards }

func (*logged) Plan(argv []string, _ *Tree, _ string) (*Plan, error) {
	return &Plan{Argv: slices.Clone(argv)}, nil
}

// logWords are what the formats say of a test. An expected failure counts as a pass,
// an unexpected pass as one too where the format does not call it a failure.
var logWords = map[string]Status{
	"PASSED": Pass, "XFAIL": Pass, "FAILED": Fail, "ERROR": Fail, "SKIPPED": Skip, "XPASS": Fail,
	"ok": Pass, "FAIL": Fail, "skipped": Skip, "expected failure": Pass, "unexpected success": Fail, "ignored": Skip,
	"PASS": Pass, "SKIP": Skip,
}

var (
	// The short summary of pytest -rA: PASSED tests/test_a.py::test_b, and FAILED with
	// the reason behind a dash.
	logPytest = regexp.MustCompile(`^(PASSED|XFAIL|FAILED|ERROR|XPASS) (\S.*)$`)
	// Verbose lines of unittest, and of Django's runner: test_a (tests.T) ... ok. A
	// docstring may stand between, on a line of its own.
	logUnittest = regexp.MustCompile(`^(.*?)\s*\.\.\. (?:.* )?(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b.*$`)
	logDjango   = regexp.MustCompile(`^(FAIL|ERROR): (\S.*)$`)
	logGo       = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	logTestName = regexp.MustCompile(`^\S+ \([\w.]+\)$`)
)

// ReadLog reads the tests of a log as the harness does: the last word about a test
// counts, and a name of pytest ends at its first space.
func ReadLog(format, log string) []Test {
	var tests []Test
	at := map[string]int{}
	note := func(name string, status Status) {
		if i, known := at[name]; known {
			tests[i].Status = status
			return
		}
		at[name] = len(tests)
		tests = append(tests, Test{Name: name, Status: status})
	}
	before := ""
	for line := range strings.Lines(stripped(log)) {
		line = strings.TrimRight(line, "\r\n")
		switch format {
		case "pytest":
			if m := logPytest.FindStringSubmatch(line); m != nil {
				note(strings.Fields(m[2])[0], logWords[m[1]])
			}
		case "django", "unittest":
			if m := logUnittest.FindStringSubmatch(line); m != nil {
				name := m[1]
				if !logTestName.MatchString(name) && logTestName.MatchString(before) {
					note(before, logWords[m[2]]) // its name stands above its docstring
				}
				note(name, logWords[m[2]])
			} else if m := logDjango.FindStringSubmatch(line); m != nil {
				note(strings.TrimSpace(m[2]), Fail)
			}
			before = line
		case "go":
			if m := logGo.FindStringSubmatch(line); m != nil {
				note(m[2], logWords[m[1]])
			}
		case "cargo":
			if m := cargoLine.FindStringSubmatch(line); m != nil {
				note(m[1], logWords[m[2]])
			}
		}
	}
	return tests
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func stripped(log string) string { return colours.ReplaceAllString(log, "") }

func (l *logged) Read(_ *Plan, result *jail.Result) *Report {
	report := &Report{Tests: ReadLog(l.format, string(result.Stdout)+"\n"+string(result.Stderr))}
	if len(report.Tests) == 0 {
		report.Broken = lastOutput(result)
	}
	return report
}
